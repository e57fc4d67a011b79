// GeoJSON files of zones or lines: read and checked here, so that the page says in its own words what is wrong with them.

const KINDS = { Polygon: "areas", MultiPolygon: "areas", LineString: "lines", MultiLineString: "lines" };
const DEPTH = { LineString: 1, MultiLineString: 2, Polygon: 2, MultiPolygon: 3 }; // of lists around a position
const MOST_BYTES = 8 * 2 ** 20; // that the API accepts
const MOST_FEATURES = 10_000;
const OPEN = "Open a GeoJSON file of only polygons or only lines.";
const SAVE = "Save the file in longitude and latitude (EPSG:4326).";

/** A file as { told, features, path, crs, body }; throws an error with sentences for the page if it is not one of zones or
 *  lines. `crs` is null if coordinates are those of the page. */
export async function readFile(chosen, { served, planar }) {
  const told = parse(await chosen.text());
  const features = told.type === "FeatureCollection" ? told.features : [told];
  if (!Array.isArray(features) || features.length === 0) throw new Error(`This file has no features. ${OPEN}`);
  if (features.length > MOST_FEATURES) {
    throw new Error(`This file has ${features.length.toLocaleString("en")} features, more than ${MOST_FEATURES.toLocaleString("en")}. Split it into several files.`);
  }
  const geometries = features.map((one) => (one?.type === "Feature" ? one.geometry : one));
  const missing = geometries.flatMap((one, i) => (one ? [] : [i + 1]));
  if (missing.length) {
    throw new Error(missing.length === 1
      ? `Feature ${missing[0]} has no geometry. Remove it from the file.`
      : `${missing.length.toLocaleString("en")} features have no geometry, the first of them feature ${missing[0]}. Remove them from the file.`);
  }
  const declared = declaredCrs(told);
  if (planar && declared !== planar.crs) {
    throw new Error(`This page does not convert coordinates, and those of the file are ${declared ? `in ${declared}` : "longitudes and latitudes"}. Save the file in the coordinate system of the map, ${planar.crs.slice(0, 40)}.`);
  }
  if (declared && !served && !planar) throw new Error(`This page does not convert coordinates, and those of the file are in ${declared}. ${SAVE}`);
  const crs = planar ? null : declared;
  geometries.forEach((geometry, i) => check(geometry, `Feature ${i + 1}`, declared));
  const paths = new Set(geometries.map(({ type }) => KINDS[type]));
  if (paths.size > 1) throw new Error("This file mixes polygons and lines. Open the polygons and the lines as two files.");
  const body = JSON.stringify({ ...told, crs: undefined });
  const bytes = new Blob([body]).size;
  if (bytes > MOST_BYTES) {
    throw new Error(`This file is too large: ${Math.ceil(bytes / 2 ** 20)} MiB, and at most 8 MiB can be answered. Simplify its shapes, or split it into several files.`);
  }
  return { told, features, path: [...paths][0], crs, body };
}

/** The answer of a release to GeoJSON; `called` is how the page names what was drawn, or null for a file. */
export async function answerTo(source, n, { path, body, crs = null, slice = null }, called = null) {
  try {
    return await source.ask(n, path, body, { crs, slice });
  } catch (error) {
    throw new Error(inPageWords(error.message, { path, crs, called }));
  }
}

/** An error of the API without the advice for programs. */
function inPageWords(sentence, { path, crs, called }) {
  if (/not meet the map|outside the map/.test(sentence)) return called ? `${called} lies outside the map.` : `All ${path === "areas" ? "zones" : "lines"} lie outside the map.`;
  if (crs && /coordinate reference system|cannot be (converted|transformed)/.test(sentence)) return unknownCrs(crs);
  return sentence
    .replace(/^(Area|Line) (\d+)/, (_, what, number) => called ?? `Feature ${number}`)
    .replace(/[,;] [^,;]*(?:shapely|crs|CRS|RFC|\/api|`|=)[^;]*$/, ".");
}

function unknownCrs(name) {
  return `The file is in the coordinate system ${name.slice(0, 60)}, which cannot be read here. ${SAVE}`;
}

function parse(text) {
  if (!text.trim()) throw new Error("This file is empty.");
  if (!/^\s*\{/.test(text)) throw new Error(`This file is not GeoJSON. ${OPEN}`);
  try {
    return JSON.parse(text);
  } catch ({ message }) {
    const at = message.match(/position (\d+)/)?.[1];
    if (/end of|unterminated/i.test(message) || Number(at) >= text.trimEnd().length) {
      throw new Error("This file ends too early, so a part of it is missing. Save it again.");
    }
    const [, line, column] = message.match(/line (\d+) column (\d+)/) ?? [];
    const near = message.match(/, (?:\.\.\.)?"([^]*)"(?:\.\.\.)? is not valid JSON/)?.[1];
    const where = line ? ` at line ${line}, column ${column}` : near ? ` near ${near.trim()}` : at ? ` at character ${at}` : "";
    throw new Error(`This file is not valid JSON${where}.`);
  }
}

/** The code of the CRS that a file names, as was allowed before RFC 7946; null for degrees. */
function declaredCrs({ crs }) {
  if (!crs) return null;
  const name = String(crs.properties?.name ?? "without a name");
  const code = name.match(/\bEPSG(?:::?|[/:][\d.]*[/:])(\d{1,6})$/)?.[1];
  if (code === "4326" || /\bCRS84$/.test(name)) return null;
  if (!code) throw new Error(unknownCrs(name));
  return `EPSG:${code}`;
}

/** Throw an error if a geometry is no polygon or line, or if its coordinates are no degrees although the file names no other CRS. */
function check({ type, coordinates }, called, crs) {
  if (!(type in KINDS)) throw new Error(type ? `${called} is a ${String(type).slice(0, 40)}, not a polygon or a line. ${OPEN}` : `${called} has no type. ${OPEN}`);
  const fail = (what) => {
    throw new Error(`${called} ${what}.`);
  };
  let lines = [coordinates];
  for (let depth = DEPTH[type]; depth > 1; depth--) {
    if (!lines.every((part) => Array.isArray(part) && part.length)) fail("has no coordinates");
    lines = lines.flat();
  }
  for (const line of lines) {
    if (!Array.isArray(line)) fail("has no coordinates");
    for (const place of line) {
      if (!Array.isArray(place) || place.length < 2 || !place.every(Number.isFinite)) fail("has a coordinate that is not a number");
      const [x, y] = place;
      if (!crs && (Math.abs(x) > 540 || Math.abs(y) > 90)) {
        throw new Error(`The coordinates of ${called.toLowerCase()}, such as ${x.toLocaleString("en")} and ${y.toLocaleString("en")}, are not degrees. ${SAVE}`);
      }
    }
    if (KINDS[type] === "lines" && line.length < 2) fail("has a line of fewer than two points");
    if (KINDS[type] === "areas" && line.length < 4) fail("has a ring of fewer than three corners");
    if (KINDS[type] === "areas" && [0, 1].some((i) => line[0][i] !== line.at(-1)[i])) fail("has a ring that is not closed: its last point is not its first");
  }
}
