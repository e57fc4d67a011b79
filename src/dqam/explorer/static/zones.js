// Zones and lines from a GeoJSON file: coloured on the map, in a table that can be sorted, and as downloads.

import { tripsScale } from "./colours.js";

const $ = (id) => document.getElementById(id);
const AREAS = ["Polygon", "MultiPolygon"];

/** The features of a file and what they are: areas or lines. Throws an error with one sentence if they are neither. */
function readZones(text) {
  let told;
  try {
    told = JSON.parse(text);
  } catch {
    throw new Error("This file is not GeoJSON; open a file of polygons or of lines in degrees.");
  }
  const features = told?.features ?? [told];
  const kinds = new Set(Array.isArray(features) ? features.map((one) => AREAS.includes((one?.geometry ?? one)?.type)) : []);
  if (kinds.size !== 1) throw new Error("This file has no features, or mixes polygons with other features; open a file of only polygons or only lines.");
  return { told, path: kinds.has(true) ? "areas" : "lines" };
}

function nameOf({ id, properties }, i) {
  const words = Object.values(properties ?? {}).find((value) => typeof value === "string" && value);
  return String(properties?.name || words || (id ?? i + 1));
}

export function makeZones({ map, get, make, whole, interval, complain, say, theme, paint, drawScale, shown }) {
  let [file, rows, drawn, column, down, asked] = [null, [], null, "number", true, 0];

  async function open(chosen) {
    complain(null);
    try {
      file = readZones(await chosen.text());
      if (await ask()) map.fitBounds(drawn.getBounds(), { animate: false, padding: [24, 24] });
    } catch (error) {
      close();
      complain(error.message);
    }
  }

  /** Ask the release on the map; false if another question came after this one. */
  async function ask() {
    const mine = ++asked;
    const body = { method: "POST", headers: { "Content-Type": "application/geo+json" }, body: JSON.stringify(file.told) };
    const answer = await (await get(`api/releases/${shown()}/${file.path}`, body)).json();
    if (mine !== asked) return false;
    file.answer = answer;
    const names = file.told.features ?? [file.told];
    rows = answer.features.map((feature, i) => {
      const found = feature.properties;
      const size = (found.square_metres ?? found.metres) / (file.path === "areas" ? 1e6 : 1e3);
      return { feature, name: nameOf(names[i], i), number: found.trips ?? found.crossings, low: found.low, high: found.high, size };
    });
    show();
    say(`${whole(rows.length)} ${file.path === "areas" ? "zones" : "lines"} answered.`);
    return true;
  }

  function words(row) {
    const what = file.path === "areas" ? "distinct trips" : "crossings";
    return row.number === null ? `${row.name}: outside the map` : `${row.name}: ${whole(row.number)} ${what} (${interval(row)})`;
  }

  function show() {
    drawn?.remove();
    const scale = tripsScale(Math.max(1, ...rows.map((row) => row.number ?? 0)), theme());
    drawn = L.featureGroup().addTo(map);
    for (const row of rows) {
      const [r, g, b] = scale.colour(row.number ?? 0);
      const colour = `rgb(${r | 0}, ${g | 0}, ${b | 0})`;
      const areas = file.path === "areas";
      const style = { className: "zone", color: areas ? "#666" : colour, weight: areas ? 1 : 5, fillColor: colour, fillOpacity: 0.8 };
      row.layer = L.geoJSON(row.feature, { style }).bindTooltip(make("span", {}, words(row)), { sticky: true }).addTo(drawn);
      row.light = (on) => row.layer.setStyle({ color: on && areas ? "var(--ink)" : style.color, weight: style.weight + (on ? 2 : 0) });
    }
    drawn.bringToBack(); // rectangles and drawn shapes stay on top
    drawScale(scale, file.path === "areas" ? "Distinct trips per zone" : "Crossings per line");
    $("map").classList.add("with-zones"); // the colours of cells are on another scale, so they fade
    $("zones-note").textContent = file.answer.note;
    list();
  }

  function list() {
    const sign = down ? -1 : 1;
    const worth = (row) => row[column] ?? -Infinity;
    const sorted = [...rows].sort((a, b) => sign * (column === "name" ? a.name.localeCompare(b.name) : worth(a) - worth(b)));
    const areas = file.path === "areas";
    const heads = { name: "Name", number: areas ? "Trips" : "Crossings", low: "Low", high: "High", size: areas ? "km²" : "km" };
    $("zones-head").replaceChildren(...Object.entries(heads).map(([key, title]) => {
      const order = key === column ? (down ? "descending" : "ascending") : "none";
      const sort = () => {
        [column, down] = [key, key === column ? !down : key !== "name"];
        list();
        $("zones-head").querySelector(`[data-key=${key}]`).focus();
      };
      return make("th", { scope: "col", "aria-sort": order }, make("button", { type: "button", "data-key": key, onclick: sort }, title));
    }));
    const cell = (value) => (value === null ? "–" : whole(value));
    $("zones-rows").replaceChildren(...sorted.map((row) => make("tr", {
      "data-value": String(row.number), onmouseenter: () => row.light(true), onmouseleave: () => row.light(false),
    },
      make("th", { scope: "row" }, row.name),
      ...[cell(row.number), cell(row.low), cell(row.high), row.size ? row.size.toPrecision(3) : "–"].map((text) => make("td", {}, text)))));
    $("zones").hidden = false;
  }

  function close() {
    asked++;
    drawn?.remove();
    [file, rows, drawn] = [null, [], null];
    $("zones").hidden = true;
    $("map").classList.remove("with-zones");
    paint();
  }

  function save(name, type, text) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function csv() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const head = ["name", file.path === "areas" ? "trips" : "crossings", "low", "high", file.path === "areas" ? "km2" : "km"];
    const lines = rows.map((row) => [quoted(row.name), row.number ?? "", row.low ?? "", row.high ?? "", row.size || ""]);
    return [head, ...lines].map((line) => line.join(",")).join("\n") + "\n";
  }

  $("zones-open").addEventListener("click", () => $("zones-file").click());
  $("zones-file").addEventListener("change", () => {
    if ($("zones-file").files.length) open($("zones-file").files[0]);
    $("zones-file").value = "";
  });
  $("zones-csv").addEventListener("click", () => save("zones.csv", "text/csv", csv()));
  $("zones-geojson").addEventListener("click", () => save("zones.geojson", "application/geo+json", JSON.stringify(file.answer)));
  $("zones-close").addEventListener("click", close);
  $("map").addEventListener("dragover", (event) => event.preventDefault());
  $("map").addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  return {
    askAgain: () => file && ask().catch((error) => complain(error.message)),
    showAgain: () => file?.answer && show(),
  };
}
