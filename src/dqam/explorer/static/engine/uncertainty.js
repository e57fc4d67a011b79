// The standard deviations of answers, as in dqam/values/uncertainty.py and slice_uncertainty.py, which explain them.

import { BorderFields } from "./border.js";
import { clip } from "./histogram.js";
import { areaOf, lengthOf } from "./polygons.js";

const [WITHIN, UNKNOWN, RECROSSED, DIFFERENT, LOW, HIGH, UNLIKE] = [0.8, 0.4, 0.25, 0.4, 0.08, 0.03, 0.6];

export class Uncertainty {
  /** `histogram` is the one whose answers these are; `edges` the one with its endpoints and edges. */
  constructor(histogram, edges, { model, noise, finest, factor }, lattice = null, displacements = null) {
    Object.assign(this, { histogram, model, noise, finest, factor, lattice });
    this.trips = Math.max(histogram.total, 1e-9);
    if (!lattice) return;
    this.moves = displacements.map((numbers) => lattice.parts(numbers));
    this.corners = this.moves.map((parts) => lattice.corners(parts));
    this.everywhere = this.corners.map((tables) => lattice.answerBy(tables, edges.everywhere));
    this.edges = edges;
  }

  get border() {
    return (this.#border ??= new BorderFields(this.lattice.rows, this.lattice.columns, [this.lattice.addUp(this.edges), ...this.moves], false));
  }

  #border = null;

  /** The standard deviation of the answer { value, unknown } to what was asked. */
  deviation(asked, { value, unknown }) {
    const { kind, shape } = asked;
    const share = clip(value / this.trips, 0, 1);
    if (kind === "rectangle" || asked.isBox) {
      const cells = asked.cells ?? asked.rectangle;
      const [west, south, east, north] = cells;
      const moved = this.lattice && this.corners.map((tables) => this.lattice.answerBy(tables, cells));
      return this.#combined(share, moved, (east - west) * (north - south));
    }
    const line = kind === "line";
    const noise = this.#combined(share, this.#moved(line ? shape : shape.flat(), line), line ? lengthOf(shape) : areaOf(shape));
    return line ? Math.sqrt(noise ** 2 + (UNKNOWN * unknown) ** 2 + (RECROSSED * value) ** 2) : Math.hypot(noise, UNKNOWN * unknown);
  }

  /** How far noise moved the answer along rings or lines, to first order. */
  #moved(rings, line) {
    if (!this.lattice) return null;
    const moved = new Float64Array(this.moves.length);
    for (const ring of rings) {
      const { inside, crossings } = this.border.follow(this.lattice.inCoarseCells(ring), true);
      for (let k = 0; k < moved.length; k++) moved[k] += line ? crossings[k + 1] : inside[k + 1] + crossings[k + 1] / 2;
    }
    return moved;
  }

  #combined(share, moved, area) {
    const { model, noise, finest, factor, trips } = this;
    let variance = (share * noise) ** 2;
    if (moved) {
      let squares = 0;
      for (let k = 0; k < moved.length; k++) squares += (moved[k] - share * this.everywhere[k]) ** 2;
      variance += squares / moved.length;
    }
    const ofModel = model * Math.sqrt(Math.min(1, share / LOW, (1 - share) / HIGH));
    const within = finest ? (WITHIN * share * (1 - share) * trips) / (1 + area / finest ** 2) : 0;
    const unseen = (factor - 1) * share * (1 - share) * trips + (DIFFERENT * (1 - 1 / factor) * share * trips) ** 2;
    return Math.sqrt(variance + ofModel ** 2 + within ** 2 + unseen);
  }

  /** The largest upper end of an interval. */
  most(wide) {
    return this.histogram.total + wide * this.noise;
  }
}

/** How far noise may have moved the shares of slices in coarse cells. */
export class ShareNoise {
  constructor(lattice, moved, weight, sizes, slices) {
    Object.assign(this, { lattice, sizes });
    const each = lattice.rows * lattice.columns;
    const empty = { vertical: new Float64Array(lattice.rows * (lattice.columns - 1)), horizontal: new Float64Array((lattice.rows - 1) * lattice.columns) };
    const table = (endpoints) => lattice.corners({ endpoints, ...empty });
    this.weights = table(weight);
    this.times = moved.length / each / slices;
    this.moved = Array.from({ length: this.times * slices }, (_, i) => table(weight.map((value, cell) => moved[i * each + cell] * value)));
    this.slices = slices;
  }

  /** The standard deviation of the answer `value` for some slices, of `whole` for all, whose deviation is `ofWhole`. */
  deviation(slices, rectangle, whole, value, ofWhole, trips) {
    const { lattice, sizes } = this;
    const weight = Math.max(lattice.answerBy(this.weights, rectangle), 1e-12);
    let squares = 0;
    for (let time = 0; time < this.times; time++) {
      const moved = slices.reduce((sum, i) => sum + lattice.answerBy(this.moved[time * this.slices + i], rectangle), 0);
      squares += (moved / weight) ** 2;
    }
    const share = whole > 0 ? value / whole : 0;
    const least = slices.length * (sizes / Math.max(trips, 1e-9)) ** 2 * (1 - share);
    const inside = Math.sqrt(clip(1 - whole / Math.max(trips, 1e-9), 0, 1));
    const unlike = (UNLIKE / Math.max(lattice.rows, lattice.columns)) * inside;
    const noise = Math.max(squares / this.times, least) * whole ** 2;
    return Math.sqrt((share * ofWhole) ** 2 + noise + (unlike * value * (1 - share)) ** 2);
  }
}
