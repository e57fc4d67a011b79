// Answers from the numbers that the page itself contains, without a server: see source.js.

import { Lattice } from "./engine/lattice.js";
import { openRelease } from "./engine/release.js";

const MOST_BLOCKS = 512; // along a side of the picture
const FEWEST_PIXELS = 512;
const MERCATOR_END = 85.0511287798066; // degrees north and south
const AT_A_TIME = 30; // milliseconds of work before the page may do something else

export async function localSource(told) {
  const abouts = JSON.parse(told);
  const releases = await Promise.all(abouts.map(openRelease));
  const pictures = releases.map(makePictures);
  const { planar } = abouts[0];

  function breather() {
    let start = performance.now();
    return async () => {
      if (performance.now() - start < AT_A_TIME) return;
      await new Promise((done) => setTimeout(done));
      start = performance.now();
    };
  }

  function flowsOf(n) {
    if (!releases[n].flows) throw new Error("This release has no flows.");
    return releases[n].flows;
  }

  return {
    served: false,
    planar,
    releases: async () => abouts.map(({ info }) => info),
    background: async () => ({ tiles: null, attribution: "" }),
    count: async (n, sides, slice) => releases[n].count(sides.map(Number), slice),
    flowLattice: async (n) => flowsOf(n).lattice(),
    layer: async (n, slice) => pictures[n](slice, planar),
    ask: async (n, path, body, { slice }) => {
      const geojson = JSON.parse(body);
      if (path.startsWith("flow")) return flowsOf(n).answer(geojson, path, slice, breather());
      return path === "profile" ? releases[n].profile(geojson) : releases[n].answer(geojson, path, slice, breather());
    },
  };
}

const mercator = (latitude) => Math.asinh(Math.tan((latitude * Math.PI) / 180));

/** The pictures of a release, as the server makes them: see dqam/explorer/layer.py. */
function makePictures(release) {
  const { rows, columns, bounds: [west, south, east, north] } = release.grid;
  const lattice = Lattice.even(rows, columns, Math.min(MOST_BLOCKS, Math.max(rows, columns)));

  /** For each pixel along one side, the block that its centre is in. */
  function blocksAt(pixels, cellOf, lines) {
    return Array.from({ length: pixels }, (_, i) => lines.findLastIndex((line) => line <= Math.min(Math.max(cellOf(i), 0), lines.at(-1) - 1e-9)));
  }

  return (slice, planar) => {
    const blocks = release.blocks(lattice, slice);
    const [width, height] = [lattice.columns, lattice.rows].map((some) => some * Math.max(2, Math.ceil(FEWEST_PIXELS / some)));
    const [top, bottom] = planar ? [north, south] : [Math.min(north, MERCATOR_END), Math.max(south, -MERCATOR_END)];
    const [high, low] = planar ? [top, bottom] : [mercator(top), mercator(bottom)];
    const level = (i) => high - (i + 0.5) * ((high - low) / height);
    const up = blocksAt(height, (i) => (((planar ? level(i) : (Math.atan(Math.sinh(level(i))) * 180) / Math.PI) - south) / (north - south)) * rows, lattice.north);
    const along = blocksAt(width, (i) => ((i + 0.5) / width) * columns, lattice.east);
    const values = new Float32Array(width * height);
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) values[y * width + x] = blocks[up[y] * lattice.columns + along[x]];
    const longest = (lines) => Math.max(...lines.slice(1).map((line, i) => line - lines[i]));
    const facts = {
      width, height, bounds: [west, bottom, east, top], block: [longest(lattice.north), longest(lattice.east)],
      largest: blocks.reduce((a, b) => Math.max(a, b)), trips: release.trips(slice),
      get largest_of_slices() { // takes long, and only slices need it
        return release.largestOfSlices(lattice);
      },
    };
    return { facts, values };
  };
}
