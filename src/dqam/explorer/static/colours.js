// Colour scales for any colour vision: viridis for trips, orange to blue for differences.

const VIRIDIS = [
  "#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c",
  "#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725",
].map(rgb);
const DIVERGING = {
  light: ["#8c3b00", "#d97b1c", "#f3d9b8", "#c3d7ee", "#3f7fc1", "#0b3c7a"].map(rgb),
  dark: ["#ffb454", "#c9762a", "#4a3a2c", "#2c3a4e", "#4a8fdc", "#9fd0ff"].map(rgb),
};
const DECADES = 3.5; // that a scale of trips shows, at most

export const RECTANGLES = ["#c25400", "#0072b2", "#c2377f", "#8a6500", "#5a4fcf", "#a83232", "#3d6b99", "#7a4a9e"];

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixed(table, share) {
  const at = Math.min(Math.max(share, 0), 1) * (table.length - 1);
  const low = Math.min(Math.floor(at), table.length - 2);
  return table[low].map((value, i) => value + (table[low + 1][i] - value) * (at - low));
}

/** A colour closer to white for small shares, so that few trips look faint on a light map. */
function paler(colour, share) {
  const white = 0.6 * (1 - Math.min(Math.max(share, 0), 1)) ** 2;
  return colour.map((value) => value + (255 - value) * white);
}

/** Round numbers from low to high that are far enough apart on a scale: powers of ten first, then 5 and 2 times these. */
function roundNumbers(low, high, place, apart) {
  const kept = [];
  for (const step of [1, 5, 2]) {
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      const number = Number(`${step}e${power}`);
      const fits = number >= low * 0.999 && number <= high * 1.001;
      if (fits && kept.every((one) => Math.abs(place(one) - place(number)) >= apart)) kept.push(number);
    }
  }
  return kept.sort((a, b) => a - b);
}

/** Trips on a log scale: `place` of a number from 0 to 1, its colour as [r, g, b, a], and ticks. */
export function tripsScale(largest, theme) {
  const high = Math.max(largest, 2);
  const low = Math.max(Math.min(1, high / 10), 10 ** Math.ceil(Math.log10(high) - DECADES));
  const wide = Math.log(high / low);
  const place = (value) => Math.log(Math.max(value, 1e-9) / low) / wide;
  return {
    place,
    at: (share) => [...(theme === "dark" ? mixed(VIRIDIS, 0.08 + 0.92 * share) : paler(mixed(VIRIDIS, 1 - share), share)), 255],
    colour(value) {
      const share = place(value);
      return share >= 0 ? this.at(share) : [...this.at(0).slice(0, 3), 255 * Math.max(0, value / low) ** 2];
    },
    ticks: roundNumbers(low, high, place, 0.15).map((value) => ({ place: place(value), words: value.toLocaleString("en") })),
  };
}

/** Differences, symmetric around 0: linear near it, logarithmic beyond; transparent at 0. */
export function differenceScale(largest, theme) {
  const high = Math.max(largest, 2);
  const near = Math.max(high / 50, 0.5);
  const bent = (value) => Math.sign(value) * Math.log1p(Math.abs(value) / near);
  const place = (value) => 0.5 + bent(value) / bent(high) / 2;
  const sides = roundNumbers(near * 2, high, place, 0.14);
  return {
    place,
    at: (share) => [...mixed(DIVERGING[theme], share), 255 * Math.min(1, Math.abs(share - 0.5) * 5)],
    colour(value) {
      return this.at(Math.min(Math.max(place(value), 0), 1));
    },
    ticks: [...sides.map((value) => -value).reverse(), 0, ...sides].map((value) => ({
      place: place(value),
      words: (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toLocaleString("en"),
    })),
  };
}
