// A release whose numbers are in the page: its answers to rectangles, areas and lines, with confidence intervals, for all
// slices or some of them, by the names in the API. They are those of the library.

import { Flows } from "./flow_answers.js";
import { Histogram, TwoScaleHistogram, clip } from "./histogram.js";
import { Lattice } from "./lattice.js";
import { shifted, unpack } from "./packed.js";
import { Grid, placeArea, placeLine, snap } from "./place.js";
import { areaOf, lengthOf } from "./polygons.js";
import { answerShape } from "./shapes.js";
import { SlicedHistogram } from "./sliced.js";
import { ShareNoise, Uncertainty } from "./uncertainty.js";

const MOST_KEPT = 1 << 22; // trips in blocks
const NOTES = {
  areas: "Numbers of distinct trips: a trip through several areas counts in each, so they do not add up.",
  lines: "Crossings, not distinct trips: a trip that crosses a line several times counts each time.",
};

/** The release that a page carries. */
export async function openRelease(about) {
  return new PackedRelease(about, await unpack(about));
}

class PackedRelease {
  constructor({ info, degrees, confidence, wide, totals, scales, uncertainty, uncertain_slices: uncertainSlices, lattice, slice_lattice: coarse, share_noise: sizes, flows }, arrays) {
    Object.assign(this, { info, confidence, wide });
    this.grid = new Grid(info.grid, degrees, info.grid.cell_metres);
    const { rows, columns } = info.grid;
    const histogram = (prefix) => {
      const [endpoints, vertical, horizontal, steps] = ["endpoints", "vertical", "horizontal", "steps"].map((name) => arrays[`${prefix}_${name}`]);
      const { faces } = Histogram.fromFlux(rows, columns, endpoints, vertical, horizontal);
      return new Histogram({ rows, columns, faces: shifted(faces, steps), vertical, horizontal, total: totals[prefix] });
    };
    this.whole = scales ? new TwoScaleHistogram(histogram("small"), histogram("large"), scales.offset, scales.side) : histogram("small");
    this.sliced = coarse
      ? new SlicedHistogram(this.whole, {
        lattice: new Lattice(coarse.east, coarse.north), slices: info.slices.length, patterns: arrays.mixture.length / info.slices.length,
        mixture: arrays.mixture, endpoints: arrays.slice_endpoints, crossings: arrays.slice_crossings,
      })
      : null;
    this.uncertain = this.sliced && uncertainSlices ? this.sliced : this.whole;
    this.uncertainty = null;
    if (uncertainty) {
      const where = lattice && new Lattice(lattice.east, lattice.north);
      const numbers = arrays.displacements;
      const times = lattice && Array.from({ length: lattice.times }, (_, i) => numbers.subarray((i * numbers.length) / lattice.times, ((i + 1) * numbers.length) / lattice.times));
      this.uncertainty = new Uncertainty(this.uncertain, this.whole, uncertainty, where, times);
    }
    this.shareNoise = coarse && sizes !== null ? new ShareNoise(new Lattice(coarse.east, coarse.north), arrays.moved, arrays.weight, sizes, info.slices.length) : null;
    this.flows = flows && new Flows(flows, arrays, { grid: this.grid, wide, confidence, choose: (names) => this.#chosen(names), trips: (names) => this.trips(names) });
  }

  /** { value, low, high } of what was placed on the grid, for all slices or those with these numbers; null for none. */
  estimate(asked, chosen = null) {
    const found = answerShape(this.whole, asked);
    if (!found) return { value: null, low: null, high: null };
    if (chosen) {
      const each = this.sliced.each(asked, found);
      const value = chosen.reduce((sum, i) => sum + each[i], 0);
      return this.#ofSlices(asked, found, value, chosen, Infinity);
    }
    const endless = asked.kind === "line";
    let [{ value, unknown }, most] = [found, endless ? Infinity : Math.max(this.whole.total, 0)];
    if (this.sliced) {
      value = this.sliced.ofAll(asked, found);
      unknown *= found.value > 0 ? value / found.value : 0;
      most = Infinity;
    }
    const off = this.uncertainty && this.#deviation(asked, { value, unknown });
    return this.#answer(value, off, endless ? Infinity : this.uncertainty?.most(this.wide), most);
  }

  /** The same for each slice. */
  bySlice(asked) {
    const found = answerShape(this.whole, asked);
    const most = asked.kind === "line" ? Infinity : this.uncertainty?.most(this.wide);
    return this.sliced.each(asked, found).map((value, i) => this.#ofSlices(asked, found, value, [i], most));
  }

  #ofSlices(asked, whole, value, chosen, most) {
    const { uncertainty, shareNoise, sliced } = this;
    if (!uncertainty || !shareNoise) return this.#answer(value, null, most, Infinity);
    const ofWhole = this.#deviation(asked, whole);
    const off = shareNoise.deviation(chosen, asked.cells ?? asked.rectangle, whole.value, value, ofWhole, sliced.allTrips);
    return this.#answer(value, off, most, Infinity);
  }

  #deviation(asked, found) {
    if (asked.kind !== "rectangle" && !asked.isBox) return this.uncertainty.deviation(asked, found);
    const value = this.uncertain === this.sliced ? this.sliced.ofAll(asked) : this.whole.answer(asked.cells ?? asked.rectangle);
    return this.uncertainty.deviation(asked, { value, unknown: 0 });
  }

  #answer(value, off, highest, most) {
    const ends = off === null ? [null, null] : [value - this.wide * off, value + this.wide * off].map((end) => clip(end, 0, highest));
    return { value: clip(value, 0, most), low: ends[0], high: ends[1] };
  }

  /** The numbers of the slices with these names, separated by commas; null for all. */
  #chosen(names) {
    if (names === null || names === undefined) return null;
    const { slices } = this.info;
    if (!slices.length) throw new Error("This release has no slices.");
    const wanted = new Set(names.split(",").map((name) => name.trim()));
    for (const name of wanted) if (!slices.includes(name)) throw new Error(`There is no slice "${name}".`);
    return wanted.size === slices.length ? null : slices.flatMap((name, i) => (wanted.has(name) ? [i] : []));
  }

  /** The trips through a rectangle. */
  count(sides, slices = null) {
    const asked = snap(sides, this.grid);
    const { cells: [west, south, east, north], grown, cut } = asked;
    const bounds = this.grid.boundsOf(asked.cells);
    const size = [east - west, north - south];
    const [left, low, right, high] = bounds;
    return {
      ...this.estimate(asked, this.#chosen(slices)), bounds, grid_bounds: bounds, cells: size, grown, cut, confidence: this.confidence,
      metres: size.map((side, i) => (this.grid.cellMetres[i] === null ? null : side * this.grid.cellMetres[i])),
      outline: [[left, low], [right, low], [right, high], [left, high]],
    };
  }

  #place(geometry, called) {
    return geometry.type.endsWith("Polygon") ? placeArea(geometry, this.grid, `Area ${called}`) : placeLine(geometry, this.grid, `Line ${called}`);
  }

  /** The features of a GeoJSON object with their answers; `path` is "areas" or "lines". `rest` lets the page breathe. */
  async answer(told, path, slices = null, rest = async () => {}) {
    const chosen = this.#chosen(slices);
    const features = featuresOf(told);
    const placed = [];
    for (const [i, feature] of features.entries()) {
      placed.push(this.#place(feature.geometry, i + 1));
      await rest();
    }
    if (placed.every(({ shape }) => !shape)) throw new Error(`${path === "areas" ? "Area" : "Line"} 1 does not meet the map, which covers ${this.info.grid.bounds.join(" ")}.`);
    const answered = [];
    for (const [i, asked] of placed.entries()) {
      const { value, low, high } = this.estimate(asked, chosen);
      const { shape, grown, cut } = asked;
      const [wide, tall] = this.grid.cellMetres;
      const found = path === "areas"
        ? { trips: value, low, high, cells: shape && areaOf(shape), square_metres: shape && wide !== null ? areaOf(shape) * (wide * tall) : null, grown, cut, repaired: false }
        : { crossings: value, low, high, metres: shape && wide !== null ? lengthOf(shape, this.grid.cellMetres) : null, cut };
      const { id, geometry, properties } = features[i];
      answered.push({ type: "Feature", ...(id === undefined || id === null ? {} : { id }), geometry, properties: { ...properties, ...found, outside: !shape } });
      await rest();
    }
    const { id: release, promise } = this.info;
    return { type: "FeatureCollection", release, promise, confidence: this.confidence, note: NOTES[path], features: answered };
  }

  /** How the trips through one area, or the crossings of one line, are divided among the slices. */
  profile(told) {
    const [{ geometry }] = featuresOf(told);
    const asked = this.#place(geometry, 1);
    if (!asked.shape) throw new Error(`${asked.kind === "line" ? "Line" : "Area"} 1 does not meet the map.`);
    const each = this.bySlice(asked);
    const values = each.map(({ value }) => value);
    const line = asked.kind === "line";
    return {
      slices: this.info.slices, trips: line ? null : values, crossings: line ? values : null,
      low: each.map(({ low }) => low), high: each.map(({ high }) => high), total: this.estimate(asked), confidence: this.confidence,
    };
  }

  /** All trips, in all slices or in some. */
  trips(slices = null) {
    return this.estimate({ kind: "rectangle", cells: this.whole.everywhere }, this.#chosen(slices));
  }

  /** The trips in each block of cells of a lattice, in slices or in all. */
  blocks(lattice, slices = null) {
    const chosen = this.#chosen(slices);
    if (!chosen) {
      const most = Math.max(this.whole.total, 0);
      return this.#everyBlock(lattice, (asked) => (this.sliced ? this.sliced.ofAll(asked) : clip(this.whole.answer(asked.cells), 0, most)));
    }
    const each = this.#slicesOf(lattice);
    return this.#everyBlock(lattice, (asked, at) => {
      const values = each ? each.subarray(at * this.info.slices.length) : this.sliced.each(asked);
      return chosen.reduce((sum, i) => sum + values[i], 0);
    });
  }

  /** The largest number of trips in a block in any single slice; null without slices. */
  largestOfSlices(lattice) {
    if (!this.sliced) return null;
    const largest = (values) => values.reduce((a, b) => Math.max(a, b));
    const each = this.#slicesOf(lattice);
    return (this.#largest ??= largest(each ?? this.#everyBlock(lattice, (asked) => largest(this.sliced.each(asked)))));
  }

  #largest = null;

  /** The trips in each block in each slice, computed once; null if they are too many to be kept. `lattice` is always the same. */
  #slicesOf(lattice) {
    const count = this.info.slices.length;
    if (count * lattice.rows * lattice.columns > MOST_KEPT) return null;
    if (!this.#each) {
      this.#each = new Float64Array(count * lattice.rows * lattice.columns);
      this.#everyBlock(lattice, (asked, at) => {
        this.#each.set(this.sliced.each(asked), at * count);
        return 0;
      });
    }
    return this.#each;
  }

  #each = null;

  #everyBlock({ east, north, rows, columns }, answer) {
    const found = new Float64Array(rows * columns);
    for (let i = 0; i < found.length; i++) {
      const [row, column] = [Math.floor(i / columns), i % columns];
      found[i] = answer({ kind: "rectangle", cells: [east[column], north[row], east[column + 1], north[row + 1]] }, i);
    }
    return found;
  }
}

function featuresOf(told) {
  if (told.type === "FeatureCollection") return told.features;
  return [told.type === "Feature" ? told : { type: "Feature", properties: null, geometry: told }];
}
