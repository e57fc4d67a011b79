// The spatial histogram and its answers to rectangles of cells, as in dqam/geometry/histogram.py, number by number.

/** Round to the nearest whole number, and halves to the even one. */
export function rint(x) {
  const rounded = Math.round(x);
  return Math.abs(x % 1) === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

export function clip(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

/** The sum of the edges of each cell. */
function edgesAround({ rows, columns, vertical, horizontal }) {
  const around = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      if (column < columns - 1) sum += vertical[row * (columns - 1) + column];
      if (column > 0) sum += vertical[row * (columns - 1) + column - 1];
      if (row < rows - 1) sum += horizontal[row * columns + column];
      if (row > 0) sum += horizontal[(row - 1) * columns + column];
      around[row * columns + column] = sum;
    }
  }
  return around;
}

/** Visits of cells (faces) and crossings of the edges between them; `whole` is the answer for all cells. */
export class Histogram {
  constructor({ rows, columns, faces, vertical, horizontal, total = null }) {
    Object.assign(this, { rows, columns, faces, vertical, horizontal, total });
  }

  /** The histogram with these endpoints and edges. */
  static fromFlux(rows, columns, endpoints, vertical, horizontal) {
    const around = edgesAround({ rows, columns, vertical, horizontal });
    return new Histogram({ rows, columns, faces: endpoints.map((ends, i) => ends + around[i] / 2), vertical, horizontal });
  }

  get endpoints() {
    return (this.#endpoints ??= edgesAround(this).map((edges, i) => this.faces[i] - edges / 2));
  }

  #endpoints = null;

  /** Running sums of faces minus edges, which are laid out together. */
  get table() {
    return (this.#table ??= this.#sums());
  }

  #table = null;

  #sums() {
    const { rows, columns, faces, vertical, horizontal } = this;
    const width = 2 * columns;
    const table = new Float64Array(2 * rows * width);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const at = (2 * row + 1) * width + 2 * column + 1;
        table[at] = faces[row * columns + column];
        if (column < columns - 1) table[at + 1] = -vertical[row * (columns - 1) + column];
        if (row < rows - 1) table[at + width] = -horizontal[row * columns + column];
      }
    }
    for (let i = width; i < table.length; i++) table[i] += table[i - width];
    for (let i = 1; i < table.length; i++) if (i % width) table[i] += table[i - 1];
    return table;
  }

  /** The answer of this histogram alone to a rectangle of cells. */
  sum([west, south, east, north]) {
    const { table } = this;
    const width = 2 * this.columns;
    const [left, right, low, high] = [2 * west, 2 * east - 1, 2 * south * width, (2 * north - 1) * width];
    return table[high + right] - table[low + right] - table[high + left] + table[low + left];
  }

  /** The answer to a rectangle of cells, given as grid lines west, south, east and north. */
  answer(rectangle) {
    return this.sum(rectangle);
  }

  get everywhere() {
    return [0, 0, this.columns, this.rows];
  }

  /** The histograms to integrate along borders, the one for small shapes first. */
  get scales() {
    return [this];
  }
}

/** A histogram for small rectangles, joined with another one for large rectangles so that answers stay monotone. */
export class TwoScaleHistogram extends Histogram {
  constructor(small, large, offset, side) {
    super(small);
    Object.assign(this, { large, offset, side });
    this.most = large.total + offset;
    this.total = Math.min(small.total, this.most);
  }

  answer(rectangle) {
    const [west, south, east, north] = rectangle;
    let found = this.sum(rectangle);
    if (east - west > this.side || north - south > this.side) {
      const limit = Math.min(found, this.large.sum(rectangle) + this.offset);
      found = Math.max(limit, this.#largestInside(rectangle));
    }
    return Math.min(found, this.most);
  }

  get scales() {
    return [this, this.large];
  }

  /** The largest answer to a small rectangle inside this one. */
  #largestInside([west, south, east, north]) {
    const { side } = this;
    const [wide, high] = [Math.min(east - west, side), Math.min(north - south, side)];
    let largest = -Infinity;
    if (wide < side || high < side) {
      for (let y = south; y + high <= north; y++) {
        for (let x = west; x + wide <= east; x++) largest = Math.max(largest, this.sum([x, y, x + wide, y + high]));
      }
      return largest;
    }
    const length = east - west - side + 1; // number of places along a row
    const level = 31 - Math.clz32(length);
    const { values, columns } = (this.#maxima ??= this.#windowMaxima())[level];
    for (let row = south; row + side <= north; row++) {
      const last = west + length - (1 << level);
      largest = Math.max(largest, values[row * columns + west], values[row * columns + last]);
    }
    return largest;
  }

  #maxima = null;

  /** Tables of the largest answer of 1, 2, 4, ... neighbouring places of a small square, along each row. */
  #windowMaxima() {
    const { side } = this;
    const [rows, columns] = [this.rows - side + 1, this.columns - side + 1];
    const first = new Float64Array(rows * columns);
    for (let i = 0; i < first.length; i++) {
      const [x, y] = [i % columns, Math.floor(i / columns)];
      first[i] = this.sum([x, y, x + side, y + side]);
    }
    const tables = [{ values: first, columns }];
    while (2 ** tables.length <= columns) {
      const step = 2 ** (tables.length - 1);
      const { values, columns: before } = tables.at(-1);
      const after = before - step;
      const larger = new Float64Array(rows * after);
      for (let i = 0; i < larger.length; i++) {
        const at = Math.floor(i / after) * before + (i % after);
        larger[i] = Math.max(values[at], values[at + step]);
      }
      tables.push({ values: larger, columns: after });
    }
    return tables;
  }
}
