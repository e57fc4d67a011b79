// The answers of a release about flows, by the names in the API: see dqam/explorer/flows.py and dqam/release/flow_answers.py.

import { FlowTable, middleOf } from "./flow_table.js";
import { Lattice } from "./lattice.js";
import { placeArea, snap } from "./place.js";

const ALL_PAIRS = 250_000; // pairs of zones, up to which all have an answer
const LEAST = 0.5; // trips of a pair if there are more
const MOST_PAIRED = 2_000; // zones of which all pairs are compared

export class Flows {
  /** The lattices of the table, whose numbers are in `arrays`. `wide` is the half width of an interval in standard
   *  deviations; `choose` gives the numbers of slices, or null for all, and `trips` all trips in slices. */
  constructor({ tiles, cells, alike, slices }, arrays, { grid, wide, confidence, choose, trips }) {
    Object.assign(this, { grid, wide, confidence, choose, trips });
    const ends = (name) => ({ shares: arrays[`flow_${name}_shares`], variance: arrays[`flow_${name}_variance`] });
    this.table = new FlowTable({
      tiles: new Lattice(tiles.east, tiles.north), cells: new Lattice(cells.east, cells.north),
      trips: arrays.flow_trips, variance: arrays.flow_variance, origins: ends("origins"), destinations: ends("destinations"), alike,
      bySlice: slices && { lattice: new Lattice(slices.east, slices.north), shares: arrays.flow_slice_shares, noise: arrays.flow_slice_noise },
    });
    this.everywhere = this.table.cover([{ kind: "rectangle", cells: [0, 0, grid.columns, grid.rows] }]);
  }

  #zones = { key: null };
  #part = { key: null };

  /** What a body asks for; `path` is "flow", "flows" or "flows/largest". `rest` lets the page breathe. */
  async answer(told, path, slices, rest) {
    const table = this.#ofSlices(slices);
    const found = path === "flow" ? this.#flow(table, told, slices) : path === "flows" ? await this.#flows(table, told, rest) : await this.#largest(table, told, rest);
    return { ...found, confidence: this.confidence };
  }

  /** The corners of the cells in which flows are shown. */
  lattice() {
    const { rows, columns, east, north } = this.table.cells;
    const corners = Array.from(north, (y) => Array.from(east, (x) => this.grid.fromCells(x, y))).flat();
    return { rows, columns, longitude: corners.map(([x]) => x), latitude: corners.map(([, y]) => y), bounds: this.grid.bounds };
  }

  /** The table of some slices; that of the last ones is kept. */
  #ofSlices(names) {
    const chosen = this.choose(names);
    if (!chosen) return this.table;
    const key = String(chosen);
    if (this.#part.key !== key) this.#part = { key, table: this.table.ofSlices(chosen) };
    return this.#part.table;
  }

  #flow(table, { from, to }, slices) {
    if (!from && !to) return this.trips(slices);
    const [here, there] = [from, to].map((area) => (area ? table.cover([this.#place(area)]) : this.everywhere));
    return this.#interval(table.between(here.leaving[0], there.arriving[0]));
  }

  async #flows(table, { from, to, zones, by = "cells" }, rest) {
    if (!from === !to) throw new Error("Give one area, as from or as to; for the trips between two areas use /flow.");
    const area = this.#place(from ?? to);
    const here = table.cover([area]);
    const answered = (there) => this.#interval(from ? table.between(here.leaving[0], there.arriving[0]) : table.between(there.leaving[0], here.arriving[0]));
    const places = zones ? await this.#placeZones(zones, rest) : by === "tiles" ? this.#tiles() : { covered: table.coverCells() };
    const found = [];
    for (const [i, leaving] of places.covered.leaving.entries()) {
      const outside = places.areas && !places.areas[i].shape && places.areas[i].kind === "area";
      found.push(outside ? { value: null, low: null, high: null } : answered({ leaving: [leaving], arriving: [places.covered.arriving[i]] }));
      await rest();
    }
    return {
      way: from ? "from" : "to", by: zones ? "zones" : by,
      trips: found.map(({ value }) => value), low: found.map(({ low }) => low), high: found.map(({ high }) => high),
      centres: places.areas ? places.areas.map((one) => this.#centre(one)) : null,
      area: { centre: this.#centre(area), grown: area.grown, cut: area.cut, repaired: false },
      total: answered(this.everywhere),
    };
  }

  async #largest(table, { zones, k = 10 }, rest) {
    const { areas, covered } = zones ? await this.#placeZones(zones, rest) : this.#tiles();
    if (zones && areas.length > MOST_PAIRED) throw new Error(`There are ${areas.length.toLocaleString("en")} zones, more than ${MOST_PAIRED.toLocaleString("en")}; send fewer, or ask for the flows from or to one area.`);
    const known = areas.flatMap((one, i) => (one.kind === "area" && !one.shape ? [] : [i]));
    const least = known.length ** 2 <= ALL_PAIRS ? 0 : LEAST;
    const found = [];
    for (const origin of known) {
      for (const destination of known) {
        const trips = table.between(covered.leaving[origin], covered.arriving[destination]);
        if (trips.value >= least) found.push({ origin, destination, ...this.#interval(trips) });
      }
      await rest();
    }
    const largest = found.sort((a, b) => b.value - a.value).slice(0, k);
    const [origin, destination, trips, low, high] = ["origin", "destination", "value", "low", "high"].map((name) => largest.map((row) => row[name]));
    return { by: zones ? "zones" : "tiles", origin, destination, trips, low, high };
  }

  #interval({ value, variance }) {
    const reach = this.wide * Math.sqrt(variance);
    return { value, low: Math.max(value - reach, 0), high: value + reach };
  }

  /** One area: its bounds as a list, or GeoJSON. */
  #place(told) {
    if (Array.isArray(told)) return snap(told, this.grid);
    const [geometry, ...others] = geometriesOf(told);
    if (others.length) throw new Error(`There are ${others.length + 1} features; give one area.`);
    const area = placeArea(geometry, this.grid, "Area 1");
    if (!area.shape) throw new Error("Area 1 does not meet the map.");
    return area;
  }

  #tiles() {
    const { east, north, rows, columns } = this.table.tiles;
    const areas = Array.from({ length: rows * columns }, (_, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      return { kind: "rectangle", cells: [east[column], north[row], east[column + 1], north[row + 1]] };
    });
    return { areas, covered: this.table.cover(areas) };
  }

  /** Zones and what they cover; those of the last file are kept. */
  async #placeZones(told, rest) {
    const key = JSON.stringify(told);
    if (this.#zones.key === key) return this.#zones;
    const [areas, covered] = [[], { leaving: [], arriving: [] }];
    for (const [i, geometry] of geometriesOf(told).entries()) {
      const area = placeArea(geometry, this.grid, `Area ${i + 1}`);
      const { leaving: [leaving], arriving: [arriving] } = area.shape ? this.table.cover([area]) : { leaving: [[]], arriving: [[]] };
      areas.push(area);
      covered.leaving.push(leaving);
      covered.arriving.push(arriving);
      await rest();
    }
    if (areas.every(({ shape }) => !shape)) throw new Error("Area 1 does not meet the map.");
    this.#zones = { key, areas, covered };
    return this.#zones;
  }

  /** The middle of an area, as the page tells places; null outside the map. */
  #centre(area) {
    return area.kind === "area" && !area.shape ? null : this.grid.fromCells(...middleOf(area));
  }
}

function geometriesOf(told) {
  const features = told.type === "FeatureCollection" ? told.features : [told];
  return features.map((one) => (one.type === "Feature" ? one.geometry : one));
}
