// How the answers of a histogram are divided among slices, as in dqam/geometry/sliced_histogram.py, which explains it.

import { Histogram, clip, rint } from "./histogram.js";
import { interpolation } from "./lattice.js";
import { answerShape } from "./shapes.js";

const UNITS = 2 ** 16; // answers of slices are multiples of 1 / UNITS

export class SlicedHistogram {
  /** `endpoints` and `crossings` are the shares of the patterns in coarse cells, and `mixture` those of slices in patterns. */
  constructor(whole, { lattice, mixture, endpoints, crossings, slices, patterns }) {
    Object.assign(this, { whole, mixture, slices, patterns });
    const of = whole.large ?? whole;
    const each = lattice.rows * lattice.columns;
    const [rows, columns] = [interpolation(lattice.north), interpolation(lattice.east)];
    this.parts = Array.from({ length: patterns }, (_, i) => {
      const [ends, flux] = [endpoints, crossings].map((all) => spread(all.subarray(i * each, (i + 1) * each), lattice.columns, rows, columns));
      const wide = of.columns;
      return Histogram.fromFlux(
        of.rows, wide, of.endpoints.map((value, at) => value * ends[at]),
        of.vertical.map((value, at) => {
          const cell = Math.floor(at / (wide - 1)) * wide + (at % (wide - 1));
          return (value * (flux[cell + 1] + flux[cell])) / 2;
        }),
        of.horizontal.map((value, at) => (value * (flux[at + wide] + flux[at])) / 2));
    });
    const everywhere = { kind: "rectangle", cells: whole.everywhere };
    const trips = whole.answer(whole.everywhere);
    this.sizes = this.proportions(everywhere).map((share) => share * trips);
    this.allTrips = this.sizes.reduce((a, b) => a + b);
    this.total = this.ofAll(everywhere);
  }

  /** The answer for all slices; `found` is that of the whole histogram, if it is known. */
  ofAll(asked, found = answerShape(this.whole, asked)) {
    const most = asked.kind === "line" ? Infinity : Math.max(this.whole.total, 0);
    return rint(clip(found.value, 0, most) * UNITS) / UNITS;
  }

  /** The answers for each slice, which add up to that for all. */
  each(asked, found) {
    const whole = this.ofAll(asked, found);
    let each = this.proportions(asked).map((share) => share * whole);
    if (asked.kind !== "line") { // no slice may have more trips here than on the whole map
      let [over, free] = [0, 0];
      const room = each.map((value, i) => {
        over += Math.max(value - this.sizes[i], 0);
        const rest = this.sizes[i] - Math.min(value, this.sizes[i]);
        free += rest;
        return rest;
      });
      each = each.map((value, i) => Math.min(value, this.sizes[i]) + (room[i] * over) / Math.max(free, 1e-9));
    }
    let [sum, before] = [0, 0];
    return each.map((value, i) => {
      sum += value;
      const upto = Math.min(i === each.length - 1 ? whole : rint(sum * UNITS) / UNITS, whole);
      const slice = upto - before;
      before = upto;
      return slice;
    });
  }

  /** The shares of the slices in what is asked. */
  proportions(asked) {
    const { slices, patterns, mixture } = this;
    const answers = this.parts.map((part) => Math.max(answerShape(part, asked).value, 0));
    let found = Array.from({ length: slices }, (_, i) => answers.reduce((sum, answer, j) => sum + mixture[i * patterns + j] * answer, 0));
    let sum = found.reduce((a, b) => a + b);
    if (sum === 0) { // nothing is known there
      found = found.map((_, i) => mixture.subarray(i * patterns, (i + 1) * patterns).reduce((a, b) => a + b) / patterns);
      sum = found.reduce((a, b) => a + b);
    }
    return found.map((value) => value / sum);
  }
}

/** Values of coarse cells, interpolated to the cells of the grid. */
function spread(values, wide, rows, columns) {
  const found = new Float64Array(rows.length * columns.length);
  const line = new Float64Array(wide);
  rows.forEach(([row, up], i) => {
    for (let j = 0; j < wide; j++) line[j] = up ? values[row * wide + j] * (1 - up) + values[(row + 1) * wide + j] * up : values[row * wide + j];
    columns.forEach(([column, right], j) => {
      found[i * columns.length + j] = right ? line[column] * (1 - right) + line[column + 1] * right : line[column];
    });
  });
  return found;
}
