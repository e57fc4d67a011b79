// Rectangles, areas and lines placed on a grid: checked, clipped, and counted in cells from its south-west corner, as in
// dqam/geometry/rectangles.py, areas.py and unwrapping.py. What cannot be answered as there is refused.

import { clip, rint } from "./histogram.js";
import { areaOf, boundsOf, clipLines, clipPolygons, hullOf, isValid, lengthOf, twiceArea } from "./polygons.js";

const ON_LINE = 1e-6; // in cells
const SLIGHT = 0.01; // in cells
const MANY = 25; // times the size of the map
const FARTHEST = 1e100; // cells
const MOST_CORNERS = 200_000;
const CROSSES = "crosses itself, or its parts overlap, and this page does not repair areas. Draw it again so that no sides cross, or repair the file (in QGIS: Fix geometries)";

export class Grid {
  /** `degrees` says whether coordinates are longitudes and latitudes. */
  constructor({ bounds, rows, columns, crs }, degrees, cellMetres) {
    Object.assign(this, { bounds, rows, columns, crs, degrees, cellMetres });
    const [west, south, east, north] = bounds;
    this.perUnit = [columns / (east - west), rows / (north - south)];
    this.cell = [(east - west) / columns, (north - south) / rows];
  }

  toCells(x, y) {
    return [(x - this.bounds[0]) * this.perUnit[0], (y - this.bounds[1]) * this.perUnit[1]];
  }

  fromCells(u, v) {
    return [this.bounds[0] + u * this.cell[0], this.bounds[1] + v * this.cell[1]];
  }

  /** The sides of a rectangle of cells, in coordinates. */
  boundsOf([west, south, east, north]) {
    return [...this.fromCells(west, south), ...this.fromCells(east, north)];
  }
}

const spelled = (numbers) => numbers.map((value) => String(Number(value.toPrecision(10)))).join(" ");

/** A rectangle in coordinates, grown to whole cells and cut at the bounds of the grid. */
export function snap(sides, grid) {
  const { rows, columns } = grid;
  const [west, south, east, north] = sides;
  if (!Number.isFinite(west + south + east + north)) throw new Error("The rectangle has a side that is not a number; give four numbers.");
  if (west > east || south > north) throw new Error("The rectangle is upside down; give west <= east and south <= north.");
  const envelope = ([w, s, e, n]) => {
    const [x, y] = [[w, w + (e - w), e], [s, s + (n - s), n]]; // the sum can differ from the side in the last digit
    const places = x.map((value, i) => grid.toCells(value, y[i]));
    return [Math.min, Math.max].flatMap((end) => [end(...places.map(([u]) => u)), end(...places.map(([, v]) => v))]);
  };
  const wanted = envelope(sides);
  const size = ([w, s, e, n]) => (e - w) * (n - s);
  if (west < south && east < north && size(wanted) >= MANY * rows * columns) {
    const meant = [west, east, south, north];
    const place = envelope(meant);
    const [w, s, e, n] = place.map((value, i) => clip(value, 0, i % 2 ? rows : columns));
    if (size(place) <= 2 * rows * columns && e > w && n > s) {
      throw new Error(`The rectangle is far larger than the map and looks like west, east, south, north. Did you mean ${spelled(meant)}? If not, give the part of it that is on the map, within ${spelled(grid.bounds)}.`);
    }
  }
  for (const [low, high, end] of [[wanted[0], wanted[2], columns], [wanted[1], wanted[3], rows]]) {
    if (high < 0 || low > end || (low < 0 && high <= 0) || (low >= end && high > end)) {
      throw new Error(`The rectangle does not meet the map, which covers ${spelled(grid.bounds)}; give west, south, east and north of a place on it.`);
    }
  }
  const lines = wanted.map(rint);
  const near = wanted.map((value, i) => Math.abs(value - lines[i]) <= ON_LINE);
  const outward = wanted.map((value, i) => (near[i] ? lines[i] : i < 2 ? Math.floor(value) : Math.ceil(value)));
  const cut = outward.some((value, i) => value < 0 || value > (i % 2 ? rows : columns));
  const thin = outward[2] <= outward[0] || outward[3] <= outward[1];
  const low = [clip(outward[0], 0, columns - 1), clip(outward[1], 0, rows - 1)];
  const cells = [...low, Math.min(Math.max(outward[2], low[0] + 1), columns), Math.min(Math.max(outward[3], low[1] + 1), rows)];
  return { kind: "rectangle", cells, grown: thin || near.includes(false), cut };
}

/** A polygon or multipolygon of GeoJSON on the grid; errors call it `called`. `shape` is null if it is outside. */
export function placeArea({ type, coordinates }, grid, called) {
  const given = checked(type === "Polygon" ? [coordinates] : coordinates, grid, called);
  const unwrapped = unwrap(given, true, grid);
  const polygons = inCells(unwrapped, grid, called);
  const rings = polygons.flat();
  if (!isValid(polygons)) {
    if (rings.every((ring) => thin(hullOf([ring])))) throw new Error(`${called} has no area; give a polygon that encloses one.`);
    if (unwrapped !== given) throw new Error(`${called} is divided along the 180th meridian, or crosses itself, and this page does not join its parts. Join them in the file (in QGIS: Dissolve).`);
    throw new Error(`${called} ${CROSSES}.`);
  }
  if (areaOf(polygons) <= ON_LINE * lengthOf(rings)) throw new Error(`${called} has no area; give a polygon that encloses one.`);
  const { beyond, cut } = reach(rings, grid);
  const clipped = beyond ? clipPolygons(polygons, grid.columns, grid.rows) : polygons;
  if (!clipped) throw new Error(`${called} touches itself or the border of the map in a way that this page cannot clip. Clip it to the map first, or move its corners a little.`);
  const inside = areaOf(clipped) > 0;
  const placed = { kind: "area", shape: inside ? clipped : null, rectangle: [0, 0, 0, 0], isBox: false, grown: false, cut: cut || !inside };
  if (!inside) return placed;
  const [west, south, east, north] = boundsOf(clipped.flat());
  const low = [Math.floor(west + ON_LINE), Math.floor(south + ON_LINE)];
  placed.rectangle = [...low, Math.max(Math.ceil(east - ON_LINE), low[0] + 1), Math.max(Math.ceil(north - ON_LINE), low[1] + 1)];
  if (isBox(polygons)) {
    const { cells, grown, cut: clippedBox } = snap(boundsOf(unwrapped.flat()), grid);
    Object.assign(placed, { rectangle: cells, isBox: true, grown, cut: clippedBox });
  }
  return placed;
}

/** A line or multiline of GeoJSON on the grid, likewise. */
export function placeLine({ type, coordinates }, grid, called) {
  const given = checked([type === "LineString" ? [coordinates] : coordinates], grid, called);
  const [lines] = inCells(unwrap(given, false, grid), grid, called);
  if (lengthOf(lines) === 0) throw new Error(`${called} has no length; give a line with two different points.`);
  const { beyond, cut } = reach(lines, grid);
  const clipped = beyond ? clipLines(lines, grid.columns, grid.rows) : lines;
  const inside = lengthOf(clipped) > 0;
  const placed = { kind: "line", shape: inside ? clipped : null, rectangle: [0, 0, 1, 1], cut: cut || !inside };
  if (!inside) return placed;
  const [west, south, east, north] = boundsOf(clipped);
  const low = [Math.floor(west), Math.floor(south)];
  placed.rectangle = [...low, Math.max(Math.ceil(east), low[0] + 1), Math.max(Math.ceil(north), low[1] + 1)];
  return placed;
}

/** Coordinates as flat arrays of x and y. */
function checked(polygons, grid, called) {
  const found = polygons.map((rings) => rings.map((ring) => new Float64Array(ring.flatMap(([x, y]) => [x, y]))));
  const corners = found.flat().reduce((sum, ring) => sum + ring.length / 2, 0);
  if (corners > MOST_CORNERS) throw new Error(`${called} has ${corners.toLocaleString("en")} corners, more than ${MOST_CORNERS.toLocaleString("en")}; simplify it.`);
  for (const ring of found.flat()) {
    if (!ring.every(Number.isFinite)) throw new Error(`${called} has a coordinate that is not a finite number; correct it.`);
    for (let i = 0; grid.degrees && i < ring.length; i += 2) {
      if (Math.abs(ring[i]) > 540 || Math.abs(ring[i + 1]) > 90) throw new Error(`${called} has coordinates such as ${spelled([...ring.subarray(i, i + 2)])}, which are not degrees.`);
    }
  }
  return found;
}

function inCells(polygons, grid, called) {
  const [west, south] = grid.bounds;
  const [wide, high] = grid.perUnit;
  const placed = polygons.map((rings) => rings.map((ring) => ring.map((value, i) => (i % 2 ? (value - south) * high : (value - west) * wide))));
  if (!boundsOf(placed.flat()).every((value) => Math.abs(value) <= FARTHEST)) throw new Error(`${called} has coordinates that are too large; check them.`);
  return placed;
}

function thin(ring) {
  return ring.length < 8 || Math.abs(twiceArea(ring)) / 2 <= ON_LINE * lengthOf([ring]);
}

/** Whether rings or lines reach beyond the grid, and whether by more than a trifle. */
function reach(rings, { rows, columns }) {
  const [west, south, east, north] = boundsOf(rings);
  const over = (by) => west < -by || south < -by || east > columns + by || north > rows + by;
  return { beyond: over(0), cut: over(SLIGHT) };
}

/** Whether an area is a rectangle along the axes: one ring that fills its bounding box. */
function isBox(polygons) {
  if (polygons.length > 1 || polygons[0].length > 1) return false;
  const [west, south, east, north] = boundsOf(polygons[0]);
  const around = 2 * (east - west + north - south);
  const gap = (east - west) * (north - south) - areaOf(polygons);
  return Math.abs(gap) <= ON_LINE * around && Math.abs(lengthOf(polygons[0]) - around) <= 8 * ON_LINE;
}

const turns = (degrees) => 360 * rint(degrees / 360);

/** Polygons or lines whose longitudes continue across the 180th meridian, close to those of the map; the same object if
 *  nothing had to be moved. */
function unwrap(polygons, areal, { bounds, degrees }) {
  const middle = (bounds[0] + bounds[2]) / 2;
  if (!degrees || !(Math.abs(middle) > 90)) return polygons;
  let moved = false;
  const unwrapped = polygons.map((rings) => {
    let shift = null; // holes go with their shells, lines each for itself
    const continued = rings.map((ring) => continueRing(ring, areal));
    const centres = continued.map((ring) => {
      const [west, , east] = boundsOf([ring]);
      return (west + east) / 2;
    });
    return continued.map((ring, i) => {
      const centre = areal ? centres[0] : centres[i];
      const target = centre - turns(centre - middle);
      shift = -turns(centres[i] - target);
      if (!shift && ring === rings[i]) return ring;
      moved = true;
      return ring.map((value, at) => (at % 2 ? value : value + shift));
    });
  });
  return moved ? unwrapped : polygons;
}

/** A ring or line whose longitudes continue where it crosses the meridian; the same object if it does not. */
function continueRing(ring, areal) {
  const ends = ring.some((value, i) => i % 2 === 0 && Math.abs(value) === 180);
  const turned = new Float64Array(ring.length);
  for (let i = 2; i < ring.length; i += 2) {
    const step = ring[i] - ring[i - 2];
    turned[i] = turned[i - 2] + (Math.abs(step) > (ends ? 270 : 180) ? turns(step) : 0);
  }
  if (turned.every((value) => value === 0)) return ring;
  const continued = ring.map((value, i) => value - turned[i]);
  if (!areal) return continued;
  let doubled = 0;
  for (let i = 0; i + 3 < ring.length; i += 2) doubled += (continued[i] - ring[0]) * ring[i + 3] - (continued[i + 2] - ring[0]) * ring[i + 1];
  return turned.at(-2) !== 0 || doubled === 0 ? ring : continued;
}
