// Integrals along the borders of areas, and along lines, as in dqam/geometry/border.py, which explains them.

import { twiceArea } from "./polygons.js";

const RADIUS = 4; // cells: weights of neighbouring cells follow a normal distribution of standard deviation 1
const SMALL = 0.02;

/** Endpoints and crossings of histograms on one grid of rows x columns, { endpoints, vertical, horizontal } each. */
export class BorderFields {
  constructor(rows, columns, histograms, known = true) {
    Object.assign(this, { rows, columns, count: histograms.length });
    this.fields = histograms.map(({ endpoints, vertical, horizontal }) => {
      const [west, across, along] = [new Float64Array(rows * (columns + 1)), new Float64Array(rows * (columns + 1)), new Float64Array((rows + 1) * columns)];
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          const at = row * (columns + 1) + column + 1;
          west[at] = (column ? west[at - 1] : 0) + endpoints[row * columns + column];
          if (column < columns - 1) across[at] = vertical[row * (columns - 1) + column];
        }
      }
      along.set(horizontal, columns);
      return { west, across, along };
    });
    this.diagonal = known ? diagonalOf(rows, columns, this.fields[0]) : new Float64Array(rows * columns);
  }

  /** Integrate along a ring or line: endpoints inside, trips that cross, and steps that cross, of each histogram.
   *  `changes` says that the histograms after the first are small changes of it. */
  follow(line, changes = false) {
    const { rows, columns, count, fields, diagonal } = this;
    const [inside, crossings, staircase] = Array.from({ length: 3 }, () => new Float64Array(count));
    for (let corner = 0; corner + 3 < line.length; corner += 2) {
      const [x0, y0, x1, y1] = [line[corner], line[corner + 1], line[corner + 2], line[corner + 3]];
      const [dx, dy] = [x1 - x0, y1 - y0];
      let nextX = dx > 0 ? Math.floor(x0) + 1 : Math.ceil(x0) - 1; // the next grid lines
      let nextY = dy > 0 ? Math.floor(y0) + 1 : Math.ceil(y0) - 1;
      let at = 0; // the fraction of the side that has been followed
      while (at < 1) {
        const toX = dx !== 0 ? (nextX - x0) / dx : 2;
        const toY = dy !== 0 ? (nextY - y0) / dy : 2;
        const to = Math.min(toX, toY, 1);
        if (toX <= to) nextX += dx > 0 ? 1 : -1;
        if (toY <= to) nextY += dy > 0 ? 1 : -1;
        if (to <= at) continue;
        const [x, y] = [x0 + ((at + to) / 2) * dx, y0 + ((at + to) / 2) * dy];
        const [wide, high] = [(to - at) * dx, (to - at) * dy];
        at = to;
        const column = Math.min(Math.max(Math.floor(x), 0), columns - 1);
        const row = Math.min(Math.max(Math.floor(y), 0), rows - 1);
        const [right, up] = [x - column, y - row];
        const r = diagonal[row * columns + column];
        const [v0, h0] = [row * (columns + 1) + column, row * columns + column];
        let [acrossFirst, alongFirst, length] = [0, 0, 0];
        for (let k = 0; k < count; k++) {
          const { west, across, along } = fields[k];
          inside[k] += high * (west[v0] * (1 - right) + west[v0 + 1] * right);
          const v = high * (across[v0] * (1 - right) + across[v0 + 1] * right);
          const h = -wide * (along[h0] * (1 - up) + along[h0 + columns] * up);
          if (k === 0 || !changes) {
            [acrossFirst, alongFirst, length] = [v, h, Math.sqrt(v * v + h * h)];
            const oneWay = r > 0 ? Math.abs(v + h) : Math.abs(v - h);
            crossings[k] += Math.abs(r) * oneWay + (1 - Math.abs(r)) * length;
            staircase[k] += Math.abs(v) + Math.abs(h);
          } else if (length > 0) crossings[k] += (acrossFirst * v + alongFirst * h) / length;
        }
      }
    }
    if (twiceArea(line) < 0) for (let k = 0; k < count; k++) inside[k] *= -1;
    return { inside, crossings, staircase };
  }
}

/** The direction of trips in each cell: 1 for north-east or south-west, -1 for north-west or south-east, 0 if unknown. */
function diagonalOf(rows, columns, { across, along }) {
  const fields = Array.from({ length: 5 }, () => new Float64Array(rows * columns));
  const [both, easts, norths, acrosses, alongs] = fields;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const [i, v, h] = [row * columns + column, row * (columns + 1) + column, row * columns + column];
      const east = column === 0 || column === columns - 1 ? 0 : across[v] - across[v + 1];
      const north = row === 0 || row === rows - 1 ? 0 : along[h + columns] - along[h];
      both[i] = east * north;
      easts[i] = east * east;
      norths[i] = north * north;
      acrosses[i] = (across[v] * across[v] + across[v + 1] * across[v + 1]) / 2;
      alongs[i] = (along[h + columns] * along[h + columns] + along[h] * along[h]) / 2;
    }
  }
  for (const field of fields) smooth(field, rows, columns);
  return both.map((value, i) => {
    const size = Math.sqrt((easts[i] + SMALL * acrosses[i]) * (norths[i] + SMALL * alongs[i]));
    return size > 0 ? value / size : 0;
  });
}

/** Weighted means of neighbouring cells, in place; beyond the border, the map is mirrored. */
function smooth(field, rows, columns) {
  const weights = Array.from({ length: 2 * RADIUS + 1 }, (_, i) => Math.exp(-0.5 * (i - RADIUS) ** 2));
  const sum = weights.reduce((a, b) => a + b);
  for (let i = 0; i < weights.length; i++) weights[i] /= sum;
  for (const [lines, length, from, step] of [[columns, rows, 1, columns], [rows, columns, columns, 1]]) {
    const mirrored = Array.from({ length: length + 2 * RADIUS }, (_, i) => {
      const place = (((i - RADIUS) % (2 * length)) + 2 * length) % (2 * length);
      return place < length ? place : 2 * length - 1 - place;
    });
    const line = new Float64Array(mirrored.length);
    for (let n = 0; n < lines; n++) {
      for (let i = 0; i < line.length; i++) line[i] = field[n * from + mirrored[i] * step];
      for (let i = 0; i < length; i++) {
        let mean = line[i + RADIUS] * weights[RADIUS];
        for (let j = 0; j < RADIUS; j++) mean += (line[i + j] + line[i + 2 * RADIUS - j]) * weights[j];
        field[n * from + i * step] = mean;
      }
    }
  }
}
