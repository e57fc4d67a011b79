// The table of flows: how many trips go from one area to another, as in dqam/geometry/flow_table.py, which explains it.

import { cellOf } from "./lattice.js";
import { areaOf, boundsOf, cutAlong, twiceArea } from "./polygons.js";

const MOST_VARIANCE = 0.25; // of a share
const UNEVEN = 0.5;
const ROUNDING = 1e-11; // a fraction this close to 0 or 1 is 0 or 1

/** One end of trips: where within its tile a trip begins, or ends. */
class Ends {
  constructor(shares, variance, tileOf, tiles) {
    Object.assign(this, { shares, variance, sums: new Float64Array(tiles) });
    for (let cell = 0; cell < tileOf.length; cell++) this.sums[tileOf[cell]] += variance[cell];
  }

  /** The parts of tiles that are covered by such fractions of cells: [{ tile, share, variance }]. */
  covered(fractions, tileOf) {
    const found = new Map();
    for (const [cell, fraction] of fractions) {
      const tile = tileOf[cell];
      if (!found.has(tile)) found.set(tile, { tile, sum: 0, inside: 0, cut: 0 });
      const part = found.get(tile);
      part.sum += fraction * this.shares[cell];
      part.inside += fraction ** 2 * this.variance[cell];
      part.cut += UNEVEN * fraction * (1 - fraction) * this.shares[cell] ** 2;
    }
    return [...found.values()].map(({ tile, sum, inside, cut }) => {
      const share = Math.min(sum, 1);
      const variance = (1 - share) ** 2 * inside + share ** 2 * Math.max(this.sums[tile] - inside, 0) + cut;
      return { tile, share, variance: share >= 1 - 1e-9 ? 0 : Math.min(variance, MOST_VARIANCE) };
    });
  }
}

export class FlowTable {
  /** `origins` and `destinations` are { shares, variance } of cells; `bySlice` is { lattice, shares, noise }, or null. */
  constructor({ tiles, cells, trips, variance, origins, destinations, alike, bySlice = null }) {
    Object.assign(this, { tiles, cells, trips, variance, alike, bySlice, size: tiles.rows * tiles.columns });
    this.tileOf = placesIn(tiles, cells);
    [this.origins, this.destinations] = [origins, destinations].map((ends) => new Ends(ends.shares, ends.variance, this.tileOf, this.size));
  }

  /** What areas, as they were placed on the grid, cover of the origins and of the destinations: { leaving, arriving }. */
  cover(areas) {
    return this.#covered(areas.map((asked) => fractionsOf(asked, this.cells)));
  }

  /** The same for every cell. */
  coverCells() {
    return this.#covered(Array.from(this.tileOf, (_, cell) => [[cell, 1]]));
  }

  #covered(fractions) {
    return {
      leaving: fractions.map((each) => this.origins.covered(each, this.tileOf)),
      arriving: fractions.map((each) => this.destinations.covered(each, this.tileOf)),
    };
  }

  /** The trips from what one area covers to what another covers, { value, variance }. */
  between(leaving, arriving) {
    const { trips, variance: noise, alike, size } = this;
    const into = new Float64Array(arriving.length); // trips from the first area to each tile
    let [value, variance] = [0, 0];
    for (const { tile: from, share: out, variance: ofOut } of leaving) {
      let sum = 0;
      for (let at = 0; at < arriving.length; at++) {
        const { tile: to, share } = arriving[at];
        const pair = from * size + to;
        const number = trips[pair];
        const split = number * (1 + alike * Math.max(number - 1, 0));
        sum += number * share;
        into[at] += out * number;
        variance += (out * share) ** 2 * (noise[pair] - split) + out * share * split;
      }
      value += out * sum;
      variance += ofOut * sum ** 2;
    }
    for (let at = 0; at < arriving.length; at++) variance += arriving[at].variance * into[at] ** 2;
    return { value, variance: Math.max(variance, 0) };
  }

  /** The table of the trips in the slices with these numbers. */
  ofSlices(chosen) {
    if (!this.bySlice) return this;
    const { lattice, shares, noise } = this.bySlice;
    const [place, count] = [placesIn(lattice, this.tiles), lattice.rows * lattice.columns];
    const [part, squares] = [new Float64Array(count ** 2), new Float64Array(count ** 2)];
    for (const slice of chosen) {
      for (let pair = 0; pair < part.length; pair++) {
        part[pair] += shares[slice * part.length + pair];
        squares[pair] += noise[slice * part.length + pair] ** 2;
      }
    }
    const [trips, variance] = [new Float64Array(this.trips.length), new Float64Array(this.trips.length)];
    for (let pair = 0; pair < trips.length; pair++) {
      const coarse = place[Math.floor(pair / this.size)] * count + place[pair % this.size];
      const [share, all] = [part[coarse], this.trips[pair]];
      trips[pair] = all * share;
      variance[pair] = share ** 2 * this.variance[pair] + all ** 2 * squares[coarse] + all * share * (1 - share);
    }
    return new FlowTable({ ...this, trips, variance, bySlice: null });
  }
}

/** For each cell of a lattice, the coarse cell in which its middle lies. */
function placesIn(coarse, { east, north, rows, columns }) {
  const middles = (lines) => Array.from(lines.slice(1), (line, i) => (line + lines[i]) / 2);
  const [across, up] = [middles(east).map((x) => cellOf(coarse.east, x)), middles(north).map((y) => cellOf(coarse.north, y))];
  return Int32Array.from({ length: rows * columns }, (_, i) => up[Math.floor(i / columns)] * coarse.columns + across[i % columns]);
}

/** [cell, fraction] of the cells of a lattice of which an area covers a part. */
function fractionsOf({ kind, cells, isBox, rectangle, shape }, lattice) {
  if (kind === "rectangle" || isBox) return boxFractions(cells ?? rectangle, lattice);
  const areas = new Map();
  for (const polygon of shape) {
    polygon.forEach((ring, i) => {
      const [west, south, east, north] = boundsOf([ring]);
      const range = [cellOf(lattice.east, west), cellOf(lattice.north, south), cellOf(lattice.east, east) + 1, cellOf(lattice.north, north) + 1];
      const corners = Array.from({ length: ring.length / 2 - 1 }, (_, at) => [ring[2 * at], ring[2 * at + 1]]);
      divide(corners, lattice, range, (cell, area) => areas.set(cell, (areas.get(cell) ?? 0) + (i ? -area : area)));
    });
  }
  return [...areas].flatMap(([cell, area]) => {
    const [row, column] = [Math.floor(cell / lattice.columns), cell % lattice.columns];
    const whole = (lattice.east[column + 1] - lattice.east[column]) * (lattice.north[row + 1] - lattice.north[row]);
    const fraction = area / whole;
    if (fraction < ROUNDING) return [];
    return [[cell, fraction > 1 - ROUNDING ? 1 : fraction]];
  });
}

function boxFractions([west, south, east, north], lattice) {
  const shares = (lines, low, high) => Array.from(lines.slice(1), (line, i) => Math.max(Math.min(high, line) - Math.max(low, lines[i]), 0) / (line - lines[i]));
  const [across, up] = [shares(lattice.east, west, east), shares(lattice.north, south, north)];
  return up.flatMap((high, row) => (high ? across.flatMap((wide, column) => (wide ? [[row * lattice.columns + column, wide * high]] : [])) : []));
}

/** Call `add` with each cell in a range of a lattice that a ring, given by its corners, meets, and the area of the ring in it. */
function divide(corners, lattice, [west, south, east, north], add) {
  if (corners.length < 3) return;
  const [wide, high] = [east - west, north - south];
  if (wide === 1 && high === 1) {
    add(south * lattice.columns + west, Math.abs(twiceArea([...corners, corners[0]].flat())) / 2);
    return;
  }
  const axis = wide >= high ? 0 : 1;
  const middle = (axis ? south + north : west + east) >> 1;
  const limit = (axis ? lattice.north : lattice.east)[middle];
  divide(cutAlong(corners, axis, limit, 1), lattice, axis ? [west, south, east, middle] : [west, south, middle, north], add);
  divide(cutAlong(corners, axis, limit, -1), lattice, axis ? [west, middle, east, north] : [middle, south, east, north], add);
}

/** The middle of an area in cells: its centroid or, if this lies outside, the middle of its widest part half-way up. */
export function middleOf({ kind, cells, isBox, rectangle, shape }) {
  if (kind === "rectangle" || isBox) {
    const [west, south, east, north] = cells ?? rectangle;
    return [(west + east) / 2, (south + north) / 2];
  }
  const [x0, y0] = shape[0][0];
  let [x, y] = [0, 0];
  for (const polygon of shape) {
    polygon.forEach((ring, i) => {
      const sign = twiceArea(ring) > 0 === (i === 0) ? 1 : -1;
      for (let at = 0; at + 3 < ring.length; at += 2) {
        const [ax, ay, bx, by] = [ring[at] - x0, ring[at + 1] - y0, ring[at + 2] - x0, ring[at + 3] - y0];
        const cross = sign * (ax * by - bx * ay);
        x += (ax + bx) * cross;
        y += (ay + by) * cross;
      }
    });
  }
  const sixfold = 6 * areaOf(shape);
  const centroid = [x0 + x / sixfold, y0 + y / sixfold];
  if (widths(shape, centroid[1]).some(([low, high]) => low <= centroid[0] && centroid[0] <= high)) return centroid;
  const parts = shape.flatMap((polygon) => {
    const [, low, , high] = boundsOf(polygon);
    let [below, above] = [low, high]; // the corners next to half-way up
    for (const ring of polygon) {
      for (let i = 1; i < ring.length; i += 2) {
        if (ring[i] <= (low + high) / 2) below = Math.max(below, ring[i]);
        else above = Math.min(above, ring[i]);
      }
    }
    const level = (below + above) / 2;
    return widths([polygon], level).map(([west, east]) => ({ west, east, level }));
  });
  const { west, east, level } = parts.reduce((best, one) => (one.east - one.west > best.east - best.west ? one : best));
  return [(west + east) / 2, level];
}

/** The parts of a shape at a height, [west, east] each. */
function widths(shape, level) {
  return shape.flatMap((polygon) => {
    const met = polygon.flatMap((ring) => {
      const found = [];
      for (let i = 0; i + 3 < ring.length; i += 2) {
        const [ax, ay, bx, by] = [ring[i], ring[i + 1], ring[i + 2], ring[i + 3]];
        if (ay <= level !== by <= level) found.push(ax + ((level - ay) / (by - ay)) * (bx - ax));
      }
      return found;
    });
    met.sort((a, b) => a - b);
    return Array.from({ length: met.length >> 1 }, (_, i) => [met[2 * i], met[2 * i + 1]]);
  });
}
