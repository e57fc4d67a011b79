// Drawing polygons and lines on the map, corner by corner: with the mouse, a finger or the keyboard.

const $ = (id) => document.getElementById(id);
const MOST_CORNERS = 500;
const NEAR = 10; // pixels: a click this close to the first or the last corner ends the drawing
const FEWEST = { polygon: 3, line: 2 };

/** What the map shows of a polygon or line that was drawn: its outline, which can be clicked, and its name. */
export function outlineOf({ kind, name, colour, corners }, onclick) {
  const places = corners.map(([x, y]) => [y, x]);
  const shape = kind === "polygon" ? L.polygon : L.polyline;
  const icon = L.divIcon({ className: "tag", iconSize: [26, 20], iconAnchor: [1, 20] });
  const tag = L.marker(places[0], { icon, keyboard: false, title: `${kind === "polygon" ? "Polygon" : "Line"} ${name}` });
  tag.on("add", () => {
    tag.getElement().textContent = name;
    tag.getElement().style.backgroundColor = colour;
  });
  return L.layerGroup([
    shape(places, { interactive: false, fill: false, weight: 4.5, className: "casing" }),
    shape(places, { color: colour, weight: kind === "polygon" ? 2 : 3, fillColor: colour, fillOpacity: 0.06, className: "asked" }).on("click", onclick),
    tag.on("click", onclick),
  ]);
}

/** A tool to draw with; `done(kind, corners)` gets longitudes and latitudes, and `cell()` is the size of a cell in degrees. */
export function makeSketch({ map, complain, say, digits, cell, done, changed }) {
  let kind = null; // polygon or line, while one is being drawn
  let [corners, drawn, pointer, cursor, pressed, ended] = [[], null, null, null, null, 0];

  function begin(wanted) {
    const again = wanted === kind;
    stop();
    if (again) return;
    kind = wanted;
    complain(null);
    map.doubleClickZoom.disable();
    $("map").classList.add("sketching");
    $("map").focus({ preventScroll: true });
    show();
    say(`Drawing a ${kind}. Move the cross with the arrow keys, press Space to add a corner and Enter to finish.`);
    changed();
  }

  function stop() {
    if (!kind) return;
    drawn?.remove();
    [kind, corners, drawn, pointer, cursor, ended] = [null, [], null, null, null, performance.now()];
    $("map").classList.remove("sketching");
    $("readout").hidden = true;
    setTimeout(() => kind ?? map.doubleClickZoom.enable(), 400); // the second click of a double click is still to come
    changed();
  }

  function addCorner({ lat, lng }) {
    if (corners.length >= MOST_CORNERS) return complain(`You can draw a ${kind} of at most ${MOST_CORNERS} corners. Finish it, or open a file instead.`);
    corners.push([lng, lat].map((value) => Number(value.toFixed(digits()))));
    show();
    say(`Corner ${corners.length}.`);
  }

  function finish() {
    if (corners.length < FEWEST[kind]) {
      return complain(kind === "polygon" ? "A polygon needs at least three corners." : "A line needs at least two points.");
    }
    const made = [kind, corners];
    stop();
    complain(null);
    done(...made);
  }

  function show() {
    drawn?.remove();
    const places = corners.map(([x, y]) => [y, x]);
    const next = cursor ?? pointer;
    drawn = L.layerGroup().addTo(map);
    const line = (points, more) => L.polyline(points, { interactive: false, ...more }).addTo(drawn);
    line(places, { weight: 4.5, className: "casing" });
    line(places, { weight: 2.5, className: "sketch" });
    if (next && places.length) {
      line([places.at(-1), next, ...(kind === "polygon" && places.length > 1 ? [places[0]] : [])], { weight: 1.5, dashArray: "5 4", className: "sketch" });
    }
    for (const place of places) L.circleMarker(place, { interactive: false, radius: 5, weight: 2, className: "sketch-corner" }).addTo(drawn);
    if (cursor) L.marker(cursor, { interactive: false, keyboard: false, icon: L.divIcon({ className: "cross", iconSize: [24, 24] }) }).addTo(drawn);
    const enough = corners.length >= FEWEST[kind];
    $("readout").hidden = false;
    $("readout").style.left = "3.4rem";
    $("readout").style.top = "0.75rem";
    const finger = matchMedia("(pointer: coarse)").matches;
    $("readout").textContent = finger
      ? (enough ? "Tap the last corner again to finish." : `Tap to add corners of the ${kind}.`)
      : (enough ? "Double-click or press Enter to finish. Esc cancels." : `Click to add corners of the ${kind}. Esc cancels.`);
  }

  function click(event) {
    if (!kind || event.target.closest(".leaflet-control, .readout")) return;
    event.stopImmediatePropagation();
    const dragged = pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 5;
    if (dragged) return;
    const near = (corner) => corner && map.mouseEventToContainerPoint(event).distanceTo(map.latLngToContainerPoint([corner[1], corner[0]])) < NEAR;
    const closes = kind === "polygon" && corners.length >= 3 && near(corners[0]);
    if (closes || (near(corners.at(-1)) && corners.length >= FEWEST[kind])) return finish();
    if (!near(corners.at(-1))) addCorner(map.mouseEventToLatLng(event));
  }

  /** Handle a key; true if it was for the drawing. */
  function press({ key, shiftKey }, arrow) {
    if (!kind) return false;
    if (key === "Escape") stop();
    else if (key === "Enter") finish();
    else if (key === "Backspace") {
      corners.pop();
      show();
    } else if (key === " ") addCorner((cursor ??= map.getCenter()));
    else if (arrow) {
      const [wide, high] = cell();
      const from = cursor ?? map.getCenter();
      const far = shiftKey ? 10 : 1;
      cursor = L.latLng(from.lat + arrow[1] * high * far, from.lng + arrow[0] * wide * far);
      map.panInside(cursor, { padding: [40, 40], animate: false });
      show();
    } else return false;
    return true;
  }

  $("map").addEventListener("pointerdown", (event) => (pressed = [event.clientX, event.clientY]), true);
  $("map").addEventListener("click", click, true);
  $("map").addEventListener("pointermove", (event) => {
    if (!kind || event.pointerType === "touch") return;
    [pointer, cursor] = [map.mouseEventToLatLng(event), null];
    show();
  });
  return { begin, stop, press, kind: () => kind, justEnded: () => performance.now() - ended < 300 };
}
