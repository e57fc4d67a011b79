// Flows: where the trips of an area go and where they come from, as colours, arcs and a table; and the trips between areas.

import { tripsScale } from "./colours.js";
import { answerTo } from "./geojson.js";

const $ = (id) => document.getElementById(id);
const WAYS = ["off", "from", "to"];
const REST = 150; // milliseconds after which an area counts as settled
const KNOWN = 0.5; // trips at the lower end of an interval, from which on noise does not explain a flow
const MOST_ARCS = 25;
const MOST_LABELS = 10;
const MOST_SHOWN = 100; // rows of the table
const MOST_AREAS = 6; // between which all flows are shown
const WINDS = ["N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW"];
const FAINT = 24; // of 255, as opaque as a cell must be to be drawn

/** A curve through places that are its ends and, between them, its control point. */
const Arc = L.Polyline.extend({
  options: { noClip: true, smoothFactor: 0, fill: false, pane: "flow-arcs" },
  _updatePath() {
    const [a, control, b] = this._rings[0];
    this._renderer._setPath(this, `M${a.x} ${a.y}Q${control.x} ${control.y} ${b.x} ${b.y}`);
  },
});

export function makeFlows({ map, source, make, whole, figures, interval, complain, say, theme, paint, drawScale, keepAddress, inSlice, zones, peak, areas, opacity, shown, slice }) {
  let [way, focus, wanted, chosen] = ["off", null, null, null]; // `wanted` is the number of an area from the address
  let [known, file, files] = [new Set(), null, 0];
  let [asked, askedPairs, turns, timer, pairTimer] = ["", "", 0, null, null];
  let found = null; // what is shown: { way, subject, told, rows, cells, scale, title }
  let totals = null; // the largest number in all slices together, and of what
  const lattices = new Map();
  const arcs = L.layerGroup();
  let [cells, marks] = [null, null];
  for (const name of ["flow-cells", "flow-arcs", "flow-labels"]) map.createPane(name);
  const canvas = L.canvas({ pane: "flow-cells" });

  /* What is asked */

  /** The area or zone whose flows are shown: { title, body }; null if there is none. */
  function subject() {
    const [kind, name] = [focus?.slice(0, 4), focus?.slice(5)];
    if (kind === "area") {
      const one = areas().find((area) => area.name === name);
      return one?.ring ? { title: one.title, body: JSON.stringify({ type: "Polygon", coordinates: [one.ring] }) } : null;
    }
    const row = kind === "zone" ? zones.areas()?.rows[Number(name)] : null;
    return row && !row.outside ? { title: row.name, body: JSON.stringify(row.feature.geometry), zone: Number(name) } : null;
  }

  function exists() {
    return focus?.startsWith("area") ? areas().some(({ name }) => `area ${name}` === focus) : subject() !== null;
  }

  /** Show the flows of what is drawn and chosen now. */
  function follow(quiet = false) {
    const available = shown().flows;
    $("flows").hidden = !available;
    for (const row of document.querySelectorAll(".about-flows")) row.hidden = !available;
    if (!available) return wipe();
    const [list, now] = [areas(), zones.areas()];
    if (now?.key !== file) [file, files] = [now?.key, files + 1];
    const selected = list.find((one) => one.chosen)?.name ?? null;
    const fresh = list.filter(({ name }) => !known.has(name)).at(-1)?.name;
    const turnedTo = list[wanted ?? -1]?.name ?? fresh ?? (selected !== chosen ? selected : null);
    wanted = null;
    [known, chosen] = [new Set(list.map(({ name }) => name)), selected];
    if (turnedTo) focus = `area ${turnedTo}`;
    if (!exists()) focus = list.length ? `area ${selected ?? list.at(-1).name}` : null;
    offer(list, now);
    update(quiet);
    compare(list);
    return undefined;
  }

  /** The choice of areas and zones. */
  function offer(list, now) {
    const options = [
      ...list.map(({ name, title }) => [`area ${name}`, title]),
      ...(now ? now.rows.flatMap((row, i) => (row.outside ? [] : [[`zone ${i}`, row.name]])) : []),
    ];
    const key = JSON.stringify(options);
    if ($("flows-of").dataset.key !== key) {
      $("flows-of").dataset.key = key;
      $("flows-of").replaceChildren(...options.map(([value, title]) => make("option", { value }, title)));
    }
    if (focus === null) $("flows-of").selectedIndex = -1;
    else $("flows-of").value = focus;
    $("flows-pick").hidden = options.length === 0;
    $("flows-ways").hidden = focus === null;
    $("flows-hint").hidden = focus !== null;
    $("flows-hint").textContent = options.length
      ? "Click a zone, or choose one here, to see where its trips go and where they come from."
      : "Draw a rectangle or polygon, or open zones and click one, to see where its trips go and where they come from.";
  }

  function update(quiet = false) {
    const one = subject();
    if (way === "off" || !one) return way === "off" || !exists() ? wipe() : undefined;
    const key = JSON.stringify([shown().n, slice(), way, one.title, one.body, files]);
    if (key === asked) return undefined;
    asked = key;
    const mine = ++turns;
    clearTimeout(timer);
    timer = setTimeout(() => answer(mine, one, quiet), REST);
    return undefined;
  }

  async function answer(mine, one, quiet) {
    const [n, now, part, towards] = [shown().n, zones.areas(), slice(), way];
    const ask = (rest, some = part) => answerTo(source, n, { path: "flows", body: `{"${towards}":${one.body},${rest}}`, slice: some }, "This area");
    const finest = now ? `"zones":${now.body}` : '"by":"cells"';
    try {
      const [told, fine, lattice] = await Promise.all([
        ask(now ? finest : '"by":"tiles"'), now ? null : ask(finest), now ? null : latticeOf(n),
      ]);
      const end = await scaleEnd(JSON.stringify([n, towards, one.body, files]), part, fine ?? told, () => ask(finest, null));
      if (mine !== turns) return;
      const rows = told.trips.map((trips, i) => (trips === null ? null : {
        i, trips, low: told.low[i], high: told.high[i], centre: told.centres[i], name: now ? now.rows[i].name : whereabouts(told.area.centre, told.centres[i]),
      })).filter(Boolean).sort((a, b) => b.trips - a.trips);
      found = { way: towards, subject: one, told, rows, fine, lattice, end, slice: part, release: shown(), zones: now };
      $("flows-problem").hidden = true;
      show();
      tabulate();
      if (!quiet) announce();
    } catch (error) {
      if (mine !== turns) return;
      wipe();
      $("flows-problem").textContent = error.message;
      $("flows-problem").hidden = false;
    }
  }

  function latticeOf(n) {
    if (!lattices.has(n)) lattices.set(n, source.flowLattice(n));
    lattices.get(n).catch(() => lattices.delete(n));
    return lattices.get(n);
  }

  /** The end of the scale, the same for every slice. */
  async function scaleEnd(key, part, told, askAll) {
    const largest = ({ trips }) => trips.reduce((most, value) => Math.max(most, value ?? 0), 0);
    if (part === null) return largest(told);
    if (totals?.key !== key) totals = { key, largest: largest(await askAll()) };
    return Math.min(totals.largest, 2 * totals.largest * (await peak()));
  }

  /** Where a tile is, seen from the area. */
  function whereabouts([x0, y0], [x1, y1]) {
    const { cell_metres: metresOf, cell_degrees: unitsOf } = shown().grid;
    const plane = source.planar && [x1 - x0, y1 - y0].map((way, i) => (way / unitsOf[i]) * (metresOf[i] ?? unitsOf[i]));
    const angle = plane ? Math.atan2(...plane) : Math.atan2((x1 - x0) * Math.cos((y0 * Math.PI) / 180), y1 - y0);
    const wind = WINDS[Math.round((angle / Math.PI) * 8 + 16) % 16];
    if (plane && metresOf.includes(null)) return wind;
    const metres = plane ? Math.hypot(...plane) : map.distance([y0, x0], [y1, x1]);
    return `${metres >= 995 ? `${figures(Number((metres / 1000).toPrecision(2)))} km` : `${figures(Number(metres.toPrecision(2)))} m`} ${wind}`;
  }

  /** Whether the area and a row are the same place, so that no line can be drawn between them. */
  function same(row) {
    return found.zones ? row.i === found.subject.zone : map.latLngToLayerPoint(latLng(row.centre)).distanceTo(map.latLngToLayerPoint(latLng(found.told.area.centre))) < 12;
  }

  const certain = (row) => row.low >= KNOWN;
  const latLng = ([x, y]) => L.latLng(y, x);

  /* On the map */

  function show() {
    const { zones: now, fine, told, end, subject: one } = found;
    const scale = tripsScale(end, theme());
    $("map").classList.add("with-flows");
    $("map").classList.toggle("by-cells", !now);
    cells?.remove();
    cells = L.layerGroup().addTo(map);
    if (now) {
      zones.colourBy((i) => {
        if (told.trips[i] === null) return null;
        const [r, g, b, a] = scale.colour(told.trips[i]);
        const row = { i, trips: told.trips[i], low: told.low[i], high: told.high[i], name: now.rows[i].name };
        return { colour: `rgba(${r | 0}, ${g | 0}, ${b | 0}, ${a / 255})`, words: sentence(row) };
      });
      if (one.zone !== undefined) L.geoJSON(now.rows[one.zone].feature, { interactive: false, style: { fill: false, weight: 3, className: "flow-place" }, pane: "flow-arcs" }).addTo(cells);
    } else {
      found.drawn = cellsOf(found.lattice, fine).filter((cell) => {
        const [r, g, b, a] = scale.colour(cell.trips);
        if (a < FAINT) return false;
        const colour = `rgb(${r | 0}, ${g | 0}, ${b | 0})`;
        L.polygon(cell.ring, { renderer: canvas, interactive: false, color: colour, fillColor: colour, stroke: a > 250, weight: 1, opacity: 1, fillOpacity: a / 255 }).addTo(cells);
        return true;
      });
    }
    fade();
    drawArcs();
    drawScale(scale, `Trips ${found.way} ${one.title} by ${now ? "zone" : "cell"}${inSlice()}`);
    $("map").dataset.flows = `${found.way} ${one.title} ${found.slice ?? ""}`.trim();
  }

  /** The cells as { trips, low, high, ring }. */
  function cellsOf({ columns, longitude, latitude }, { trips, low, high }) {
    return trips.map((value, i) => {
      const corner = Math.floor(i / columns) * (columns + 1) + (i % columns);
      const ring = [corner, corner + 1, corner + columns + 2, corner + columns + 1].map((at) => [latitude[at], longitude[at]]);
      return { trips: value, low: low[i], high: high[i], ring };
    });
  }

  function sentence(row) {
    const range = row.low > 0 ? interval(row) : "too few to tell";
    if (found.zones && row.i === found.subject.zone) return `Within ${row.name}: ${whole(row.trips)} trips (${range})`;
    const [a, b] = found.way === "from" ? [found.subject.title, row.name] : [row.name, found.subject.title];
    return `${a} → ${b}: ${whole(row.trips)} trips (${range})`;
  }

  /** A curve on the screen from one place to another: its ends and its control point, and the points along it. */
  function curve(from, to) {
    const [a, b] = [from, to].map((place) => map.latLngToLayerPoint(latLng(place)));
    const bend = L.point(a.y - b.y, b.x - a.x).multiplyBy(-0.2);
    const control = a.add(b).divideBy(2).add(bend);
    const at = (t) => a.multiplyBy((1 - t) ** 2).add(control.multiplyBy(2 * t * (1 - t))).add(b.multiplyBy(t ** 2));
    return { at, points: [a, control, b] };
  }

  function drawArcs() {
    arcs.clearLayers();
    if (!found) return;
    arcs.addTo(map);
    const place = (point) => map.layerPointToLatLng(point);
    const rows = found.rows.filter((row) => certain(row) && !same(row)).slice(0, MOST_ARCS);
    const most = rows[0]?.trips ?? 1;
    const centre = found.told.area.centre;
    const add = (layer) => layer.addTo(arcs);
    found.arcs = new Map();
    for (const row of [...rows].reverse()) { // the largest on top
      const share = Math.sqrt(row.trips / most);
      const wide = 1.2 + 6.3 * share;
      const { at, points } = found.way === "from" ? curve(centre, row.centre) : curve(row.centre, centre);
      const line = points.map(place);
      const strong = 0.4 + 0.55 * share;
      add(new Arc(line, { interactive: false, weight: wide + 2, opacity: 0.75 * strong, className: "flow-casing" }));
      const drawn = add(new Arc(line, { weight: wide, opacity: strong, className: "flow-arc" }).bindTooltip(make("span", {}, sentence(row)), { sticky: true }));
      const [tip, back] = [at(0.62), at(0.56)];
      const along = tip.subtract(back).divideBy(Math.max(tip.distanceTo(back), 1e-9));
      const [size, side] = [4 + 0.9 * wide, L.point(-along.y, along.x)];
      const head = [tip.add(along.multiplyBy(size)), tip.add(side.multiplyBy(size * 0.75)), tip.subtract(side.multiplyBy(size * 0.75))];
      if (points[0].distanceTo(points.at(-1)) > 4 * size) add(L.polygon(head.map(place), { pane: "flow-arcs", interactive: false, weight: 1, fillOpacity: 1, className: "flow-head" }));
      add(L.circleMarker(latLng(row.centre), { pane: "flow-arcs", interactive: false, radius: 2.5 + 3 * share, weight: 1.5, fillOpacity: 1, className: "flow-end" }));
      found.arcs.set(row.i, drawn);
    }
    drawLabels(rows.slice(0, MOST_LABELS));
  }

  /** Numbers at the ends of the largest arcs, where none covers another. */
  function drawLabels(rows) {
    const taken = [...map.getPane("markerPane").querySelectorAll(".tag")].map((tag) => {
      const { x, y } = L.DomUtil.getPosition(tag);
      const [left, top] = ["marginLeft", "marginTop"].map((side) => parseFloat(tag.style[side]) || 0);
      return L.bounds([x + left, y + top], [x + left + tag.offsetWidth, y + top + tag.offsetHeight]);
    });
    const start = map.latLngToLayerPoint(latLng(found.told.area.centre));
    for (const row of rows) {
      const end = map.latLngToLayerPoint(latLng(row.centre));
      const words = whole(row.trips);
      const [wide, high] = [14 + 7 * words.length, 20];
      const boxAt = (below) => {
        const corner = L.point(end.x - wide / 2, below ? end.y + 9 : end.y - high - 9);
        return L.bounds(corner.subtract([2, 2]), corner.add([wide + 2, high + 2]));
      };
      const away = end.y > start.y;
      const below = [away, !away].find((side) => !taken.some((one) => one.intersects(boxAt(side))));
      if (below === undefined) continue;
      taken.push(boxAt(below));
      const icon = L.divIcon({ className: "flow-label", iconAnchor: [wide / 2, below ? -9 : high + 9] });
      const label = L.marker(latLng(row.centre), { pane: "flow-labels", icon, interactive: false, keyboard: false }).addTo(arcs);
      label.getElement().textContent = words;
    }
  }

  function fade() {
    map.getPane("flow-cells").style.opacity = String(opacity());
  }

  /** What the legend says about the place under the pointer; undefined if it is not about flows. */
  function here({ lat, lng }) {
    if (!found) return undefined;
    if (found.zones) {
      const i = found.zones.rows.indexOf(zones.under());
      return i < 0 || found.told.trips[i] === null ? "" : `here ${whole(found.told.trips[i])}`;
    }
    const cell = found.drawn.find(({ ring }) => within(ring, lat, lng));
    return cell ? `here ${cell.trips < 9.95 ? cell.trips.toFixed(1) : whole(cell.trips)}` : "";
  }

  function within(ring, lat, lng) {
    return ring.every(([y, x], i) => {
      const [v, u] = ring[(i + 1) % 4];
      return (u - x) * (lat - y) - (v - y) * (lng - x) >= 0;
    });
  }

  function wipe() {
    turns++;
    asked = "";
    clearTimeout(timer);
    $("flows-found").hidden = true;
    $("flows-problem").hidden = true;
    if (!found) return;
    found = null;
    cells?.remove();
    arcs.remove();
    zones.colourBy(null);
    $("map").classList.remove("with-flows", "by-cells");
    delete $("map").dataset.flows;
    paint();
  }

  /* In the panel */

  function total() {
    const { told: { total: all }, subject: { title } } = found;
    return `${title}${inSlice()}: ${whole(all.value)} trips ${found.way === "from" ? "begin" : "end"} here (${interval(all)}).`;
  }

  function tabulate() {
    const some = found.rows.filter((row, i) => i < MOST_SHOWN && row.trips >= KNOWN);
    const sure = found.rows.filter((row) => certain(row) && !same(row)).length;
    const drawn = found.arcs.size;
    $("flows-found").hidden = false;
    $("flows-total").textContent = total();
    $("flows-place").textContent = found.way === "from" ? "Destination" : "Origin";
    $("flows-rows").replaceChildren(...some.map((row) => {
      const lit = (on) => {
        found.arcs.get(row.i)?.getElement()?.classList.toggle("lit", on);
        mark(on ? row : null);
      };
      const here = found.zones ? row.i === found.subject.zone : false;
      return make("tr", { "data-place": String(row.i), "data-trips": String(row.trips), onmouseenter: () => lit(true), onmouseleave: () => lit(false) },
        make("th", { scope: "row" }, row.name, ...(here ? [make("span", { className: "few" }, " (within)")] : [])),
        make("td", {}, whole(row.trips)), rangeCell(row));
    }));
    const left = found.rows.length - some.length;
    const what = found.zones ? "zones" : "squares";
    $("flows-note").textContent = [
      sure ? `Lines show ${drawn < sure ? `the ${drawn} largest of ${sure} flows` : "the flows"} that noise cannot explain.` : "Noise alone could explain each of these flows.",
      found.zones ? "" : "Trips were measured between these squares; within a square, they are divided according to where trips begin and end.",
      left ? `${whole(left)} more ${what} have fewer trips.` : "",
    ].filter(Boolean).join(" ");
  }

  function rangeCell(row) {
    return row.low > 0 ? make("td", {}, interval(row)) : make("td", { className: "few" }, "too few to tell");
  }

  /** Show on the map which zone or tile a row of the table is about. */
  function mark(row) {
    marks?.remove();
    marks = row && L.circleMarker(latLng(row.centre), { pane: "flow-arcs", interactive: false, radius: 11, weight: 3, fill: false, className: "flow-place" }).addTo(map);
  }

  function announce() {
    const largest = found.rows.filter(certain).slice(0, 3).map((row) => `${row.name} ${whole(row.trips)}`);
    say(`${total()} ${largest.length ? `${found.way === "from" ? "Most go to" : "Most come from"} ${largest.join(", ")}.` : "Too few to tell where."}`);
  }

  /** The flows between the drawn areas, a line for each direction. */
  function compare(list) {
    const some = list.filter(({ ring }) => ring).slice(0, MOST_AREAS);
    $("flows-between").hidden = some.length < 2;
    if (some.length < 2) {
      askedPairs = "";
      return;
    }
    const features = some.map(({ ring }) => ({ type: "Feature", properties: null, geometry: { type: "Polygon", coordinates: [ring] } }));
    const body = JSON.stringify({ zones: { type: "FeatureCollection", features }, k: some.length ** 2 });
    const [n, part] = [shown().n, slice()];
    const key = JSON.stringify([n, part, body, some.map(({ name }) => name)]);
    if (key === askedPairs) return;
    askedPairs = key;
    clearTimeout(pairTimer);
    pairTimer = setTimeout(async () => {
      const told = await answerTo(source, n, { path: "flows/largest", body, slice: part }, "One of the areas").catch((error) => key === askedPairs && complain(error.message));
      if (!told || key !== askedPairs) return;
      const all = told.trips.map((trips, i) => ({ from: told.origin[i], to: told.destination[i], trips, low: told.low[i], high: told.high[i] }))
        .filter(({ from, to }) => from !== to)
        .sort((a, b) => Math.min(a.from, a.to) - Math.min(b.from, b.to) || Math.max(a.from, a.to) - Math.max(b.from, b.to) || a.from - b.from);
      const chip = ({ name, colour }) => {
        const made = make("span", { className: "chip" }, name);
        made.style.backgroundColor = colour;
        return made;
      };
      $("flows-pairs").replaceChildren(...all.map((row) => make("tr", { "data-pair": `${some[row.from].name} ${some[row.to].name}`, "data-trips": String(row.trips) },
        make("th", { scope: "row" }, chip(some[row.from]), make("span", { "aria-hidden": "true" }, " → "), make("span", { className: "unseen" }, " to "), chip(some[row.to])),
        make("td", {}, whole(row.trips)), rangeCell(row))));
    }, REST);
  }

  function csv() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const { release, subject: { title }, told, rows, zones: now } = found;
    const sliced = release.slices.length > 0;
    const about = quoted(`${release.private ? "" : "NOT PRIVATE: "}trips from origin to destination, ${release.counted}`);
    const head = ["release", ...(sliced ? ["slice"] : []), "origin", "destination", "trips", "low", "high", "too_few_to_tell", ...(source.planar ? ["x", "y"] : ["longitude", "latitude"]), "confidence", "counted"];
    const lines = rows.map((row) => {
      const ends = [title, now ? row.name : `tile ${row.i}`];
      return [
        release.name, ...(sliced ? [found.slice ?? "all"] : []), ...(found.way === "from" ? ends : ends.reverse()),
      ].map(quoted).concat([row.trips, row.low, row.high, row.low <= 0, ...row.centre, told.confidence, about]);
    });
    return [head, ...lines].map((line) => line.join(",")).join("\n") + "\n";
  }

  function save() {
    const link = make("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: `flows-${found.way}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function choose(direction) {
    way = direction;
    $("flows-ways").querySelector(`input[value=${way}]`).checked = true;
    keepAddress();
    update();
    if (way === "off") say("Flows are off.");
  }

  for (const input of $("flows-ways").querySelectorAll("input")) input.addEventListener("change", () => choose(input.value));
  $("flows-of").addEventListener("change", () => {
    focus = $("flows-of").value;
    offer(areas(), zones.areas());
    choose(way === "off" ? "from" : way);
  });
  $("flows-csv").addEventListener("click", save);
  map.on("zoomend", drawArcs);

  return {
    follow,
    here,
    fade,
    showAgain: () => found && show(),
    /** Show the flows of a zone that was clicked. */
    chooseZone(i) {
      if (!shown().flows) return;
      focus = `zone ${i}`;
      offer(areas(), zones.areas());
      choose(way === "off" ? "from" : way);
    },
    /** Go from off to where trips go, and on to where they come from. */
    turn: () => shown().flows && focus !== null && choose(WAYS[(WAYS.indexOf(way) + 1) % 3]),
    /** What the address of the page says of flows; empty if there is nothing to say. */
    address() {
      const i = areas().findIndex(({ name }) => `area ${name}` === focus);
      return way === "off" || i < 0 ? "" : `${way}:${i}`;
    },
    restore(told) {
      const [, direction, number] = told?.match(/^(from|to):(\d{1,2})$/) ?? [null, "off", null];
      [way, wanted] = [direction, number === null ? null : Number(number)];
      $("flows-ways").querySelector(`input[value=${way}]`).checked = true;
    },
  };
}
