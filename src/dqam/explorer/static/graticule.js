// Lines of longitude and latitude below the releases, for maps without tiles.

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];

function named(value, positive, negative, step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const turned = ((((value + 180) % 360) + 360) % 360) - 180;
  const shown = positive === "E" ? turned : value;
  return `${Math.abs(shown).toFixed(digits)}° ${shown < 0 ? negative : positive}`;
}

export function graticule(map) {
  map.createPane("graticule").classList.add("graticule-pane");
  map.createPane("graticule-labels").classList.add("graticule-labels");
  const group = L.layerGroup().addTo(map);

  function label(at, words, side) {
    const icon = L.divIcon({ className: `graticule-label ${side}`, html: "", iconSize: null });
    const marker = L.marker(at, { icon, pane: "graticule-labels", interactive: false, keyboard: false }).addTo(group);
    marker.getElement().textContent = words;
    marker.getElement().setAttribute("aria-hidden", "true");
  }

  function draw() {
    const seen = map.getBounds();
    const size = map.getSize();
    const wanted = ((seen.getEast() - seen.getWest()) / size.x) * 140;
    const step = STEPS.find((one) => one >= wanted) ?? 30;
    const far = seen.pad(1);
    const [south, north] = [Math.max(far.getSouth(), -85), Math.min(far.getNorth(), 85)];
    const style = { pane: "graticule", className: "graticule-line", interactive: false, weight: 1 };
    group.clearLayers();
    for (let x = Math.ceil(far.getWest() / step); x <= far.getEast() / step; x++) {
      L.polyline([[south, x * step], [north, x * step]], style).addTo(group);
      if (seen.contains([seen.getCenter().lat, x * step])) label([seen.getNorth(), x * step], named(x * step, "E", "W", step), "above");
    }
    for (let y = Math.ceil(south / step); y <= north / step; y++) {
      L.polyline([[y * step, far.getWest()], [y * step, far.getEast()]], style).addTo(group);
      if (seen.contains([y * step, seen.getCenter().lng])) label([y * step, seen.getEast()], named(y * step, "N", "S", step), "beside");
    }
  }

  map.on("moveend resize", draw);
  map.whenReady(draw);
}
