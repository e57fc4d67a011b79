// Zones and lines from a GeoJSON file: coloured on the map, in a table that can be sorted, and as downloads.

import { tripsScale } from "./colours.js";
import { answerTo, readFile } from "./geojson.js";

const $ = (id) => document.getElementById(id);
const WORDS = {
  areas: { one: "zone", many: "zones", counted: "trips", what: "distinct trips", title: "Distinct trips per zone", unit: "km²", column: "km2", size: "square_metres", large: 1e6 },
  lines: { one: "line", many: "lines", counted: "crossings", what: "crossings", title: "Crossings per line", unit: "km", column: "km", size: "metres", large: 1e3 },
};
const CHANGES = { // of what was asked, as [in a row, of one, of several]
  repaired: ["crossed itself; repaired", "crossed itself and was repaired", "crossed themselves and were repaired"],
  cut: ["clipped to the map", "was clipped to the map", "were clipped to the map"],
  outside: ["outside the map", "lies outside the map and has no answer", "lie outside the map and have no answer"],
};

function nameOf({ id, properties }, i) {
  const words = Object.values(properties ?? {}).find((value) => typeof value === "string" && value);
  return String(properties?.name || words || (id ?? i + 1));
}

export function makeZones({ map, source, make, whole, interval, complain, say, theme, opacity, counted, paint, drawScale, fitTo, shown, whose, slice, peak }) {
  let [file, answer, rows, drawn, under, column, down, asked] = [null, null, [], null, null, "number", true, 0];
  let totals = null; // the largest answer for all slices, and of which file and release
  let most = null; // the end of the scale, if it is not the largest answer
  const words = () => WORDS[file.path];

  async function open(chosen) {
    const mine = ++asked;
    complain(null);
    try {
      const read = await readFile(chosen, source);
      if (mine !== asked || !(await ask(read))) return;
      showAll();
      $("zones").scrollIntoView({ block: "nearest" });
    } catch (error) {
      complain(error.message); // and keep what is shown
    }
  }

  /** Ask the release on the map; false if another question came after this one. */
  async function ask(about, quiet = false) {
    const mine = ++asked;
    const [n, chosen] = [shown().n, slice()];
    const both = await Promise.all([answerTo(source, n, { ...about, slice: chosen }), scaleOf(n, about, chosen)]).catch((error) => {
      if (mine === asked) throw error;
    });
    if (mine !== asked) return false;
    const [told, end] = both;
    [file, answer, most] = [about, { ...told, ...(shown().slices.length ? { slice: chosen ?? "all" } : {}) }, end];
    rows = answer.features.map((feature, i) => {
      const [found, { counted: number, size, large }] = [feature.properties, words()];
      const changed = Object.keys(CHANGES).filter((name) => found[name] && !(name === "cut" && found.outside));
      return {
        feature, changed, name: nameOf(file.features[i], i), outside: found.outside,
        number: found[number], low: found.low, high: found.high, size: found.outside ? null : found[size] / large,
      };
    });
    show();
    if (!quiet) say([`${whole(rows.length)} ${rows.length === 1 ? words().one : words().many} answered.`, ...changes()].join(" "));
    return true;
  }

  function largest(path, { features }) {
    return Math.max(1, ...features.map(({ properties }) => properties[WORDS[path].counted] ?? 0));
  }

  /** The end of a scale for every slice of a release, so that their colours can be compared; null for that of the answers. */
  async function scaleOf(n, about, chosen) {
    if (chosen === null) return null;
    if (totals?.about !== about || totals.n !== n) totals = { about, n, largest: largest(about.path, await answerTo(source, n, about)) };
    return Math.min(totals.largest, 2 * totals.largest * (await peak())); // zones may be busier in a slice than cells are
  }

  /** Sentences that say how many were repaired, clipped and left out. */
  function changes(mark = "") {
    return Object.entries(CHANGES).flatMap(([name, [, ofOne, ofSeveral]]) => {
      const some = rows.filter((row) => row.changed.includes(name)).length;
      const noted = name === "outside" ? "" : mark;
      return some ? [some === 1 ? `1 ${words().one} ${ofOne}${noted}.` : `${whole(some)} ${words().many} ${ofSeveral}${noted}.`] : [];
    });
  }

  function changesOf(row) {
    return row.changed.map((name) => CHANGES[name][0]).join(", ");
  }

  function summary(row) {
    const found = row.outside ? [] : [`${whole(row.number)} ${words().what} (${interval(row)})`];
    return `${row.name}: ${[...found, changesOf(row)].filter(Boolean).join("; ")}`;
  }

  /** Zoom to the answered zones, as far as they are on the map. */
  function showAll() {
    if (!drawn) return;
    const bounds = L.latLngBounds(rows.filter((row) => !row.outside).map((row) => row.layer.getBounds()));
    const [west, south, east, north] = shown().grid.degrees;
    const within = (value, low, high) => Math.min(Math.max(value, low), high);
    fitTo([
      [within(bounds.getSouth(), south, north), within(bounds.getWest(), west, east)],
      [within(bounds.getNorth(), south, north), within(bounds.getEast(), west, east)],
    ]);
  }

  function show() {
    const before = drawn;
    before?.remove();
    [drawn, under] = [null, null];
    $("map").classList.toggle("with-zones", !file.crs); // the colours of cells are on another scale, so they fade
    if (!file.crs) draw();
    else if (before) paint();
    const { one, many } = words();
    $("zones-title").textContent = file.path === "areas" ? "Zones" : "Lines";
    $("zones-close").textContent = `Remove ${many}`;
    const notDrawn = `The file is in ${file.crs}, so its ${rows.length === 1 ? `${one} is` : `${many} are`} not drawn on the map. To see ${rows.length === 1 ? "it" : "them"} there, save the file in longitude and latitude (EPSG:4326).`;
    $("zones-note").textContent = [...(file.crs ? [notDrawn] : []), ...changes(" (marked *)"), answer.note].join(" ");
    list();
  }

  function draw() {
    const scale = tripsScale(most ?? largest(file.path, answer), theme());
    drawn = L.featureGroup().addTo(map);
    for (const row of rows) {
      const [r, g, b] = scale.colour(row.number ?? 0);
      const colour = row.outside ? "#888" : `rgb(${r | 0}, ${g | 0}, ${b | 0})`;
      const areas = file.path === "areas";
      const style = { className: "zone", color: areas ? "#666" : colour, weight: areas ? 1 : 5, fillColor: colour, dashArray: row.outside ? "4 4" : null };
      row.layer = L.geoJSON(row.feature, { style }).bindTooltip(make("span", {}, summary(row)), { sticky: true }).addTo(drawn);
      row.layer.on("mouseover", () => (under = row)).on("mouseout", () => (under = null));
      row.light = (on) => row.layer.setStyle({ color: on && areas ? "var(--ink)" : style.color, weight: style.weight + (on ? 2 : 0) });
    }
    fade();
    drawn.bringToBack(); // rectangles and drawn shapes stay on top
    drawScale(scale, words().title + whose());
  }

  function fade() {
    for (const row of rows) row.layer?.setStyle({ fillOpacity: opacity() * (row.outside ? 0.2 : 1), opacity: file.path === "areas" ? 1 : opacity() });
  }

  function list() {
    const sign = down ? -1 : 1;
    const worth = (row) => row[column] ?? sign * Infinity; // what has no number comes last
    const sorted = [...rows].sort((a, b) => sign * (column === "name" ? a.name.localeCompare(b.name, "en", { numeric: true }) : worth(a) - worth(b)));
    const heads = { name: "Name", number: file.path === "areas" ? "Trips" : "Crossings", low: "Low", high: "High", size: words().unit };
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
    $("zones-rows").replaceChildren(...sorted.map((row) => {
      const changed = row.outside ? "" : changesOf(row);
      const mark = changed ? [make("span", { className: "changed", title: changed, "aria-hidden": "true" }, " *"), make("span", { className: "unseen" }, ` (${changed})`)] : [];
      const told = row.outside
        ? [make("td", { colSpan: 4 }, "outside the map")]
        : [cell(row.number), cell(row.low), cell(row.high), row.size ? row.size.toPrecision(3) : "–"].map((text) => make("td", {}, text));
      return make("tr", { "data-value": String(row.number ?? ""), onmouseenter: () => row.light?.(true), onmouseleave: () => row.light?.(false) },
        make("th", { scope: "row" }, row.name, ...mark), ...told);
    }));
    $("zones").hidden = false;
  }

  function close() {
    asked++;
    drawn?.remove();
    [file, answer, rows, drawn, under] = [null, null, [], null, null];
    $("zones").hidden = true;
    $("zones-title").textContent = "Zones and lines";
    $("map").classList.remove("with-zones");
    paint();
  }

  function save(ending, type, text) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: `${words().many}.${ending}` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function csv() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const about = quoted(counted(shown(), file.path === "lines"));
    const flags = Object.keys(CHANGES);
    const sliced = "slice" in answer;
    const head = ["name", ...(sliced ? ["slice"] : []), words().counted, "low", "high", words().column, ...flags, "confidence", "counted"];
    const lines = rows.map((row) => [
      quoted(row.name), ...(sliced ? [quoted(answer.slice)] : []), row.number ?? "", row.low ?? "", row.high ?? "", row.size ?? "", ...flags.map((name) => row.feature.properties[name] ?? false), answer.confidence, about,
    ]);
    return [head, ...lines].map((line) => line.join(",")).join("\n") + "\n";
  }

  $("zones-open").addEventListener("click", () => $("zones-file").click());
  $("zones-file").addEventListener("change", () => {
    if ($("zones-file").files.length) open($("zones-file").files[0]);
    $("zones-file").value = "";
  });
  $("zones-csv").addEventListener("click", () => save("csv", "text/csv", csv()));
  $("zones-geojson").addEventListener("click", () => save("geojson", "application/geo+json", JSON.stringify(file.told.crs ? { ...answer, crs: file.told.crs } : answer)));
  $("zones-close").addEventListener("click", close);
  $("map").addEventListener("dragover", (event) => event.preventDefault());
  $("map").addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  return {
    fade,
    /** The zone under the pointer, null for none; undefined while no zones are drawn. */
    under: () => (drawn ? under : undefined),
    askAgain: (quiet) => file && ask(file, quiet).catch((error) => {
      close(); // the answers shown are those of another release
      complain(error.message);
    }),
    showAgain: () => drawn && show(),
  };
}
