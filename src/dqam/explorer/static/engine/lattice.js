// Some of the lines of a grid, and histograms on the coarse cells between them, as in dqam/geometry/lattice.py.

import { rint } from "./histogram.js";

export class Lattice {
  constructor(east, north) {
    Object.assign(this, { east, north, rows: north.length - 1, columns: east.length - 1 });
  }

  /** Nearly square coarse cells, `side` of them along the longer side of the grid. */
  static even(rows, columns, side) {
    const longer = Math.max(rows, columns);
    const lines = (cells) => {
      const count = Math.max(1, Math.min(cells, rint((side * cells) / longer)));
      return Array.from({ length: count + 1 }, (_, i) => (i === count ? cells : rint(i * (cells / count))));
    };
    return new Lattice(lines(columns), lines(rows));
  }

  /** Split one vector of all numbers into endpoints, vertical and horizontal edges. */
  parts(numbers) {
    const { rows, columns } = this;
    const [cells, edges] = [rows * columns, rows * (columns - 1)];
    return { endpoints: numbers.subarray(0, cells), vertical: numbers.subarray(cells, cells + edges), horizontal: numbers.subarray(cells + edges) };
  }

  /** The numbers on the lattice, computed from those of a histogram on the grid. */
  addUp(histogram) {
    const { east, north, rows, columns } = this;
    const { endpoints, vertical, horizontal } = histogram;
    const wide = histogram.columns;
    const [a, v, h] = [new Float64Array(rows * columns), new Float64Array(rows * (columns - 1)), new Float64Array((rows - 1) * columns)];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        for (let x = east[column]; x < east[column + 1]; x++) {
          for (let y = north[row]; y < north[row + 1]; y++) a[row * columns + column] += endpoints[y * wide + x];
          if (row < rows - 1) h[row * columns + column] += horizontal[(north[row + 1] - 1) * wide + x];
        }
        if (column < columns - 1) {
          for (let y = north[row]; y < north[row + 1]; y++) v[row * (columns - 1) + column] += vertical[y * (wide - 1) + east[column + 1] - 1];
        }
      }
    }
    return { endpoints: a, vertical: v, horizontal: h };
  }

  /** What each corner of a rectangle adds to its answer: tables for north-east, north-west, south-east and south-west. */
  corners({ endpoints, vertical, horizontal }) {
    const { rows, columns } = this;
    const width = columns + 1;
    const tables = Array.from({ length: 4 }, () => new Float64Array((rows + 1) * width));
    const [ends, across, along] = Array.from({ length: 3 }, () => new Float64Array((rows + 1) * width));
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const at = (row + 1) * width + column + 1;
        ends[at] = endpoints[row * columns + column] + ends[at - width];
        if (column < columns - 1) across[at] = vertical[row * (columns - 1) + column] + across[at - width];
        if (row < rows - 1) along[at] = horizontal[row * columns + column] + along[at - 1];
      }
    }
    for (let row = 1; row <= rows; row++) for (let column = 1; column <= columns; column++) ends[row * width + column] += ends[row * width + column - 1];
    for (let i = 0; i < ends.length; i++) {
      const [a, v, h] = [ends[i], across[i] / 2, along[i] / 2];
      [tables[0][i], tables[1][i], tables[2][i], tables[3][i]] = [a + v + h, v - a - h, h - a - v, a - v - h];
    }
    return tables;
  }

  /** The answer of the refined histogram with these corners to a rectangle of the grid. */
  answerBy(tables, [west, south, east, north]) {
    return [[north, east], [north, west], [south, east], [south, west]].reduce(
      (sum, [row, column], i) => sum + this.#interpolated(tables[i], place(this.north, row), place(this.east, column)), 0);
  }

  #interpolated(table, [row, up], [column, right]) {
    const at = row * (this.columns + 1) + column;
    const low = table[at] * (1 - right) + table[at + 1] * right;
    const above = at + this.columns + 1;
    const high = table[above] * (1 - right) + table[above + 1] * right;
    return low * (1 - up) + high * up;
  }

  /** A line or ring in cells of the grid, in coarse cells. */
  inCoarseCells(line) {
    return line.map((value, i) => within(i % 2 ? this.north : this.east, value));
  }
}

/** The last of increasing lines that is not beyond a value, other than the final one. */
export function cellOf(lines, at) {
  let [low, high] = [0, lines.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (lines[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

function place(lines, at) {
  const cell = cellOf(lines, at);
  return [cell, (at - lines[cell]) / (lines[cell + 1] - lines[cell])];
}

/** np.interp of a value among lines, to their indices. */
function within(lines, value) {
  if (value <= lines[0]) return 0;
  if (value >= lines.at(-1)) return lines.length - 1;
  const cell = cellOf(lines, value);
  return (1 / (lines[cell + 1] - lines[cell])) * (value - lines[cell]) + cell;
}

/** Weights that interpolate values from the middles of coarse cells to the middles of cells, [coarse cell, weight of the next]. */
export function interpolation(lines) {
  const middles = lines.slice(1).map((line, i) => (line + lines[i]) / 2);
  return Array.from({ length: lines.at(-1) }, (_, i) => {
    const at = i + 0.5;
    if (at <= middles[0]) return [0, 0];
    if (at >= middles.at(-1)) return [middles.length - 1, 0];
    const cell = cellOf(middles, at);
    return [cell, (1 / (middles[cell + 1] - middles[cell])) * (at - middles[cell])];
  });
}
