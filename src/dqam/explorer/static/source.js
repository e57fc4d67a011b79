// Where answers come from: the server that sent the page, or numbers that the page carries. Both answer the same questions:
//   releases()                      the facts about each release
//   background()                    the tiles of the background map
//   layer(n, slice)                 the picture of a release: { facts, values }
//   count(n, sides, slice)          a rectangle
//   ask(n, path, body, { crs, slice })   GeoJSON: "areas", "lines" or "profile"; or what flows are asked: "flows" or "flows/largest"
//   flowLattice(n)                  the corners of the cells in which flows are shown
// `served` says whether it is the server, and `planar` which coordinates are used instead of longitude and latitude, if any.

import { localSource } from "./local.js";

const SIDES = ["west", "south", "east", "north"];

export function openSource() {
  const carried = document.getElementById("carried");
  return carried ? localSource(carried.textContent) : serverSource();
}

async function get(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The server does not respond. Is it still running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.error ?? `The server responded with status ${answer.status}.`);
}

const json = (address, options) => get(address, options).then((answer) => answer.json());

function queried(address, values) {
  const asked = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null));
  return asked.size ? `${address}?${asked}` : address;
}

function serverSource() {
  return {
    served: true,
    planar: null,
    releases: () => json("api/releases"),
    background: () => json("api/background"),
    count: (n, sides, slice) => json(queried(`api/releases/${n}/count`, { ...Object.fromEntries(SIDES.map((name, i) => [name, String(sides[i])])), slices: slice })),
    flowLattice: (n) => json(`api/releases/${n}/flows/lattice`),
    layer: async (n, slice) => {
      const [facts, bytes] = await Promise.all([
        json(queried(`api/releases/${n}/layer/facts`, { slices: slice })),
        get(queried(`api/releases/${n}/layer`, { slices: slice })).then((answer) => answer.arrayBuffer()),
      ]);
      return { facts, values: new Float32Array(bytes) };
    },
    ask: (n, path, body, { crs = null, slice = null }) =>
      json(queried(`api/releases/${n}/${path}`, { crs, slices: slice }), { method: "POST", headers: { "Content-Type": "application/geo+json" }, body }),
  };
}
