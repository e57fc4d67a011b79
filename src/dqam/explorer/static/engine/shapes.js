// The answers of a histogram to areas of any shape and to lines, as in dqam/geometry/area_answers.py, which explains them.

import { BorderFields } from "./border.js";
import { TwoScaleHistogram } from "./histogram.js";
import { areaOf, boundsOf, hullOf } from "./polygons.js";

const borders = new WeakMap(); // of histograms

function borderOf(histogram) {
  if (!borders.has(histogram)) borders.set(histogram, new BorderFields(histogram.rows, histogram.columns, histogram.scales));
  return borders.get(histogram);
}

/** { value, unknown } of what was placed on the grid: a rectangle of cells, an area or a line; null outside the grid. */
export function answerShape(histogram, { kind, cells, shape, rectangle, isBox }) {
  if (kind === "rectangle" || isBox) return { value: histogram.answer(cells ?? rectangle), unknown: 0 };
  if (!shape) return null;
  if (kind === "line") {
    const sums = shape.map((line) => borderOf(histogram).follow(line));
    const value = sums.reduce((sum, { crossings }) => sum + crossings[0], 0);
    return { value, unknown: sums.reduce((sum, { crossings, staircase }) => sum + (staircase[0] - crossings[0]), 0) };
  }
  const { value, unknown } = answerPolygons(histogram, shape);
  return { value: Math.min(value, histogram.answer(rectangle)), unknown };
}

function answerPolygons(histogram, polygons) {
  const parts = polygons.map(([shell, ...holes]) => {
    const found = answerShell(histogram, shell);
    for (const hole of holes) {
      const within = answerHole(histogram, hole);
      found.value += -within;
      found.unknown += within;
    }
    return found;
  });
  if (parts.length === 1) return parts[0];
  const values = parts.map(({ value }) => Math.max(value, 0));
  const largest = Math.max(0, ...values);
  const around = Math.max(answerRing(histogram, hullOf(polygons.map(([shell]) => shell))).value, 0, largest);
  let [sum, spread, missed] = [0, 0, 1];
  parts.forEach(({ unknown }, i) => {
    sum += values[i];
    spread += unknown;
    missed *= 1 - Math.min(around > 0 ? values[i] / around : 0, 1);
  });
  const value = around * (1 - missed);
  return { value, unknown: spread + Math.min(sum - value, value - largest) };
}

function answerShell(histogram, shell) {
  const found = answerRing(histogram, shell);
  const hull = hullOf([shell]);
  if (areaOf([[hull]]) > areaOf([[shell]]) * (1 + 1e-9)) {
    const around = answerRing(histogram, hull).value;
    found.unknown += Math.max(found.value - around, 0);
    found.value = Math.min(found.value, around);
  }
  return found;
}

/** Endpoints inside plus half of the crossings of the border; and how far that is from a staircase of cells. */
function answerRing(histogram, ring) {
  const { inside, crossings, staircase } = borderOf(histogram).follow(ring);
  const [value, unknown] = [inside.map((ends, k) => ends + crossings[k] / 2), staircase.map((steps, k) => (steps - crossings[k]) / 2)];
  if (!(histogram instanceof TwoScaleHistogram)) return { value: value[0], unknown: unknown[0] };
  const [west, south, east, north] = boundsOf([ring]);
  const other = value[1] + histogram.offset;
  const large = (east - west > histogram.side || north - south > histogram.side) && other < value[0];
  return { value: Math.min(large ? other : value[0], histogram.most), unknown: unknown[large ? 1 : 0] };
}

/** The trips that stay in a hole. */
function answerHole(histogram, ring) {
  const { inside, crossings } = borderOf(histogram).follow(ring);
  const [ends, crossed] = [Math.max(inside.at(-1), 0), crossings.at(-1) / 2];
  return ends > 0 ? ends ** 2 / (ends + crossed) : 0;
}
