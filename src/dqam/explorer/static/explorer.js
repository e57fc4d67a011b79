// The page: a map of releases, rectangles, polygons and lines on it, and the answers of the releases to them.

import { RECTANGLES, differenceScale, tripsScale } from "./colours.js";
import { decimals, height as heightOf, planeOptions, unitWords } from "./coordinates.js";
import { makeFlows } from "./flows.js";
import { answerTo } from "./geojson.js";
import { graticule } from "./graticule.js";
import { makeProfiles } from "./profile.js";
import { makeSketch, outlineOf } from "./sketch.js";
import { makeSlices, ruleWords } from "./slices.js";
import { openSource } from "./source.js";
import { makeZones } from "./zones.js";

const $ = (id) => document.getElementById(id);
const SIDES = ["west", "south", "east", "north"];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const QUIET = 40; // milliseconds between two requests while a rectangle is being drawn
const MOST = 50; // rectangles, polygons and lines
const LONGEST = 4000; // characters of an address
const REST = 150; // milliseconds after which a rectangle counts as settled
const MOST_LAYERS = 32; // that are kept

const state = {
  releases: [],
  show: 0, // the release on the map
  against: null, // the one it is compared with
  layer: "first", // or second, or difference
  slice: null, // the slice that is shown; null for all
  rectangles: [], // { name, colour, sides, answers: Map of release to answer, problem, drawn }
  shapes: [], // polygons and lines: { kind, name, colour, corners, answers, problem, drawn }
  selected: null,
  theme: null, // light or dark, if the user chose
  opacity: 85,
};
const layers = new Map(); // of slices of releases: promises of { facts, values }
const sliceTrips = new Map(); // all trips in slices of releases
let source, map, picture, painted, handles, zones, sketch, slices, profiles, flows;

/* Words and elements */

function make(tag, about = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...inside.filter((part) => part !== null));
  return made;
}

function whole(value) {
  return Math.round(value).toLocaleString("en");
}

function signed(value, spell = whole) {
  return `${value < 0 ? "−" : "+"}${spell(Math.abs(value))}`;
}

function percent(share) {
  const value = share * 100;
  return `${value.toFixed(value !== 0 && Math.abs(value) < 9.95 ? 1 : 0)} %`;
}

function interval(answer) {
  return answer.low === null ? "no confidence interval" : `${whole(answer.low)} to ${whole(answer.high)}`;
}

function figures(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

/** What a rectangle, polygon or line is called. */
function titleOf({ kind, name }) {
  return `${{ polygon: "Polygon", line: "Line" }[kind] ?? "Rectangle"} ${name}`;
}

function shapeSize({ kind }, { cells, square_metres: area, metres }) {
  if (kind === "line") return metres >= 995 ? `${figures(metres / 1000)} km` : `${figures(metres)} m`;
  const inCells = `${figures(cells)} ${cells === 1 ? "cell" : "cells"}`;
  if (area === null) return inCells;
  return `${area >= 1e5 ? `${figures(area / 1e6)} km²` : `${figures(area)} m²`} (${inCells})`;
}

/** The sides of a rectangle of whole cells, on the ground and in cells. */
function sizeOf({ metres, cells: [columns, rows] }) {
  const inCells = `${whole(columns)} × ${whole(rows)} ${columns * rows === 1 ? "cell" : "cells"}`;
  if (metres.includes(null)) return inCells;
  const large = Math.max(...metres) >= 995;
  return `${metres.map((side) => figures(side / (large ? 1000 : 1))).join(" × ")} ${large ? "km" : "m"} (${inCells})`;
}

function theme() {
  return state.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function complain(sentence) {
  $("problem").textContent = sentence ?? "";
  $("problem").hidden = !sentence;
  if (sentence) $("problem").scrollIntoView({ block: "nearest" });
}

let saying;
function say(sentence) {
  clearTimeout(saying);
  saying = setTimeout(() => ($("said").textContent = sentence), 300);
}

/* Questions and answers */

/** The answer of a release for a rectangle, polygon or line. */
async function question(n, { kind, sides, corners }, slice) {
  if (!kind) return source.count(n, sides, slice);
  const path = kind === "polygon" ? "areas" : "lines";
  const told = await answerTo(source, n, { path, body: JSON.stringify(geometryOf(kind, corners)), slice }, `This ${kind}`);
  const found = told.features[0].properties;
  return { ...found, value: found.trips ?? found.crossings, confidence: told.confidence };
}

function geometryOf(kind, corners) {
  return kind === "polygon" ? { type: "Polygon", coordinates: [[...corners, corners[0]]] } : { type: "LineString", coordinates: corners };
}

/** The answers of a release in every slice for a rectangle, polygon or line. */
async function profileOf(n, { kind, corners, answers }) {
  if (kind) return answerTo(source, n, { path: "profile", body: JSON.stringify(geometryOf(kind, corners)) }, `This ${kind}`);
  const [west, south, east, north] = answers.get(n).grid_bounds;
  const ring = [[west, south], [east, south], [east, north], [west, north]];
  return answerTo(source, n, { path: "profile", crs: "grid", body: JSON.stringify(geometryOf("polygon", ring)) }, "This rectangle");
}

/** The releases whose answers are shown, the one on the map first. */
function compared() {
  return state.against === null || (state.slice !== null && !sameSlices()) ? [state.show] : [state.show, state.against];
}

function sameSlices() {
  const [a, b] = [state.releases[state.show], state.releases[state.against]];
  return a.sliced_by === b.sliced_by && a.timezone === b.timezone;
}

/** Whether the two releases have the same unit and count the same: all trips, or at most as many of each person. */
function sameUnit() {
  const [a, b] = [state.releases[state.show], state.releases[state.against]];
  return a.compared_as === b.compared_as;
}

/** Why the two releases are not compared, in sentences; empty if they are. */
function whyUnlike() {
  if (state.against === null) return "";
  const [a, b] = [state.show, state.against].map((n) => state.releases[n]);
  const most = ({ unit }) => (unit.max_trips === 1 ? "one trip" : `at most ${unit.max_trips} trips`);
  const counts = (release) =>
    release.unit.name === "trip" ? `${release.name} counts all trips`
    : release.scaled_up ? `${release.name} estimates all trips from ${most(release)} of each person`
    : `${release.name} counts ${most(release)} of each person`;
  return [
    sameUnit() ? "" : `${counts(a)}, and ${counts(b)}. Such numbers cannot be compared, so no difference is shown.`,
    state.slice === null || sameSlices() ? "" : `${b.name} does not have the same slices, so it is shown only for All.`,
  ].filter(Boolean).join(" ");
}

function sameGrid(n, m) {
  const [a, b] = [state.releases[n].grid, state.releases[m].grid];
  return a.crs === b.crs && a.rows === b.rows && a.columns === b.columns && String(a.bounds) === String(b.bounds);
}

/** Request the answers for a rectangle as it is now; while a request is running, only the latest state is asked next. */
async function ask(rectangle) {
  if (rectangle.asking) {
    rectangle.again = true;
    return rectangle.asking;
  }
  rectangle.asking = (async () => {
    do {
      rectangle.again = false;
      const [sides, wanted, slice] = [rectangle.sides, compared(), state.slice];
      const answers = await Promise.allSettled(wanted.map((n) => question(n, rectangle, slice)));
      if (slice !== state.slice) {
        rectangle.again = true;
        continue;
      }
      rectangle.answers = new Map(wanted.map((n, i) => [n, answers[i].value]).filter(([, answer]) => answer));
      rectangle.answered = sides;
      const problems = wanted.flatMap((n, i) => (answers[i].reason ? [[n, answers[i].reason.message]] : []));
      const whose = (n) => (wanted.length > 1 ? `${state.releases[n].name}: ` : "");
      rectangle.problem = problems.map(([n, sentence]) => whose(n) + sentence).join(" ") || null;
      showAnswers();
      if (rectangle.again) await new Promise((done) => setTimeout(done, QUIET));
    } while (rectangle.again);
    rectangle.asking = null;
    askProfiles(rectangle);
  })();
  return rectangle.asking;
}

/** What changes when a rectangle, polygon or line moves. */
function whereabouts({ sides, corners }) {
  return sides ?? corners;
}

/** Request the slices of a rectangle, polygon or line once it has settled. */
async function askProfiles(one) {
  const place = whereabouts(one);
  const missing = () => compared().filter((n) => state.releases[n].slices.length && one.answers.has(n) && one.profiles.get(n)?.place !== place);
  if (!missing().length) return null;
  if (one.profiling?.place === place) return one.profiling.done;
  const settled = () => place === whereabouts(one) && !one.asking && !drawing.from && !handles?.dragged;
  const done = (async () => {
    await new Promise((rested) => setTimeout(rested, one.kind ? 0 : REST));
    while (settled() && missing().length) {
      const wanted = missing();
      const found = await Promise.allSettled(wanted.map((n) => profileOf(n, one)));
      if (place !== whereabouts(one)) break;
      wanted.forEach((n, i) => one.profiles.set(n, { place, ...(found[i].value ?? { problem: found[i].reason.message }) }));
    }
    if (one.profiling?.place === place) one.profiling = null;
    if (settled()) showAnswers();
  })();
  one.profiling = { place, done };
  return done;
}

/** What a profile says about a slice, or about all. */
function fromProfile({ slices: names, trips, crossings, low, high, total }, slice) {
  const i = names.indexOf(slice);
  return slice === null ? total : { value: (trips ?? crossings)[i], low: low[i], high: high[i] };
}

/** The profile of a rectangle, polygon or line as it is now, if it is there. */
function profileNow(one, n) {
  const profile = one.profiles.get(n);
  return profile?.place === whereabouts(one) && profile.slices ? profile : null;
}

/** Show a slice, or all with null. */
function chooseSlice(slice, byHand) {
  state.slice = slice;
  if (compared().length < 2) state.layer = "first";
  for (const one of [...state.rectangles, ...state.shapes]) {
    const known = compared().every((n) => one.answers.has(n) && profileNow(one, n));
    if (known && !one.asking) one.answers = new Map(compared().map((n) => [n, { ...one.answers.get(n), ...fromProfile(profileNow(one, n), slice) }]));
    else ask(one);
  }
  showAnswers();
  showLayerChoice();
  keepAddress();
  zones.askAgain(!byHand);
  flows.follow(!byHand);
  if (byHand && state.selected?.answers.size) announce(state.selected);
  return paint();
}

/* Rectangles */

function freeName() {
  const used = new Set(state.rectangles.map((one) => one.name));
  for (let i = 0; ; i++) {
    const name = String.fromCharCode(65 + (i % 26)) + (i < 26 ? "" : Math.floor(i / 26));
    if (!used.has(name)) return [name, RECTANGLES[i % RECTANGLES.length]];
  }
}

function full() {
  if (state.rectangles.length + state.shapes.length < MOST) return false;
  complain(`There are already ${MOST} rectangles, polygons and lines. Remove some first.`);
  return true;
}

function add(sides) {
  if (full()) return null;
  const [name, colour] = freeName();
  const rectangle = { name, colour, sides, answers: new Map(), profiles: new Map(), problem: null, drawn: null };
  state.rectangles.push(rectangle);
  return rectangle;
}

function remove(rectangle) {
  const focused = document.activeElement?.closest("#answers li")?.dataset.name === rectangle.name;
  state.rectangles = state.rectangles.filter((one) => one !== rectangle);
  if (state.selected === rectangle) state.selected = state.rectangles.at(-1) ?? null;
  rectangle.drawn?.remove();
  refresh();
  if (focused) ($("answers").querySelector(".chip") ?? $("draw")).focus();
  say(`Rectangle ${rectangle.name} removed.`);
}

/* Polygons and lines */

function addShape(kind, corners) {
  if (full()) return null;
  const used = new Set(state.shapes.map((one) => one.name));
  let i = 1;
  while (used.has(kind[0].toUpperCase() + i)) i++;
  const colour = RECTANGLES[(state.rectangles.length + state.shapes.length) % RECTANGLES.length];
  const shape = { kind, name: kind[0].toUpperCase() + i, colour, corners, answers: new Map(), profiles: new Map(), problem: null };
  state.shapes.push(shape);
  shape.drawn = outlineOf(shape, () => drawing.armed || seek(shape)).addTo(map);
  return shape;
}

async function finishShape(kind, corners) {
  const shape = addShape(kind, corners);
  if (!shape) return;
  await ask(shape);
  if (shape.answers.size) {
    refresh();
    announce(shape);
    seek(shape);
  } else {
    removeShape(shape);
    complain(shape.problem);
  }
}

function removeShape(shape) {
  state.shapes = state.shapes.filter((one) => one !== shape);
  shape.drawn.remove();
  refresh();
  say(`${titleOf(shape)} removed.`);
}

/** Bring the card of a rectangle, polygon or line into view. */
function seek(shape) {
  $("answers").querySelector(`li[data-name="${shape.name}"]`)?.scrollIntoView({ block: "nearest" });
}

function showSketching() {
  for (const kind of ["polygon", "line"]) {
    for (const button of document.querySelectorAll(`button.tool-${kind}`)) button.setAttribute("aria-pressed", String(sketch.kind() === kind));
  }
}

function beginSketch(kind) {
  arm(false);
  if (!full()) sketch.begin(kind);
}

function select(rectangle) {
  if (state.selected === rectangle) return;
  state.selected = rectangle;
  complain(null);
  refresh();
}

function move(rectangle, sides) {
  rectangle.sides = sides;
  drawRectangles();
  showSides();
  keepAddress();
  return ask(rectangle).then(() => announce(rectangle));
}

function announce(rectangle) {
  const words = compared().filter((n) => rectangle.answers.has(n)).map((n) => {
    const answer = rectangle.answers.get(n);
    const range = answer.low === null ? "" : `, between ${whole(answer.low)} and ${whole(answer.high)}`;
    return `${state.against === null ? "" : `${state.releases[n].name}: `}${whole(answer.value)} ${rectangle.kind === "line" ? "crossings" : "trips"}${range}`;
  });
  const answered = words.length ? `${titleOf(rectangle)}${inSlice()}: ${words.join("; ")}. ` : "";
  say(answered + (rectangle.problem ?? ""));
}

/** The chosen slice, to be put behind other words. */
function inSlice() {
  return state.slice === null ? "" : `, ${slices.label(state.slice)}`;
}

function nextTo(value, all) {
  return Math.min(Math.max(value, all[0]), all[1]);
}

/** Move or resize the selected rectangle by cells, within the map. */
function step(rectangle, [dx, dy], resize) {
  const { degrees, cell_degrees: [wide, high] } = state.releases[state.show].grid;
  let [west, south, east, north] = rectangle.sides;
  [dx, dy] = [dx * wide, dy * high];
  if (resize) {
    east = nextTo(Math.max(east + dx, west + wide), [west, degrees[2]]);
    north = nextTo(Math.max(north + dy, south + high), [south, degrees[3]]);
  } else {
    dx = nextTo(dx, [Math.min(0, degrees[0] - west), Math.max(0, degrees[2] - east)]);
    dy = nextTo(dy, [Math.min(0, degrees[1] - south), Math.max(0, degrees[3] - north)]);
    [west, south, east, north] = [west + dx, south + dy, east + dx, north + dy];
  }
  move(rectangle, [west, south, east, north]);
}

/** Add a rectangle of whole cells at the centre of the view. */
function addAtCentre() {
  const { degrees: [west, south, east, north], cell_degrees: [wide, high], rows, columns } = state.releases[state.show].grid;
  const seen = map.getBounds();
  const sides = [[west, east, wide, columns, seen.getWest(), seen.getEast()], [south, north, high, rows, seen.getSouth(), seen.getNorth()]].map(
    ([low, , cell, cells, from, to]) => {
      const size = nextTo(Math.round((to - from) / 6 / cell), [1, cells]);
      const start = nextTo(Math.round(((from + to) / 2 - low) / cell - size / 2), [0, cells - size]);
      return [low + start * cell, low + (start + size) * cell];
    });
  const rectangle = add([sides[0][0], sides[1][0], sides[0][1], sides[1][1]]);
  if (!rectangle) return;
  select(rectangle);
  ask(rectangle).then(() => {
    announce(rectangle);
    seek(rectangle);
  });
}

/* On the map */

const Picture = L.ImageOverlay.extend({
  _initImage() {
    const canvas = (this._image = this._url);
    canvas.classList.add("leaflet-image-layer", "picture");
    if (this._zoomAnimated) canvas.classList.add("leaflet-zoom-animated");
  },
});

function fetchLayer(n, slice) {
  const key = JSON.stringify([n, slice]);
  const both = layers.get(key) ?? source.layer(n, slice).then((layer) => {
    sliceTrips.set(key, layer.facts.trips);
    return layer;
  });
  both.catch(() => layers.delete(key));
  layers.delete(key);
  layers.set(key, both); // the last one used
  if (layers.size > MOST_LAYERS) layers.delete(layers.keys().next().value);
  return both;
}

/** All trips of a release in the chosen slice; null while they are not known. */
function tripsOf(n) {
  return state.slice === null ? state.releases[n].trips : sliceTrips.get(JSON.stringify([n, state.slice])) ?? null;
}

/** The 99.9 % quantile of the sizes of differences, as few cells differ more. */
function usualSize(differences) {
  const sizes = differences.map(Math.abs).filter((value) => !Number.isNaN(value)).sort();
  return sizes[Math.floor(sizes.length * 0.999)] ?? 0;
}

/** Paint the chosen layer, on one scale for all releases that are compared. */
async function paint() {
  const [mode, ids, colours, slice] = [state.layer, compared(), theme(), state.slice];
  const current = () => mode === state.layer && String(ids) === String(compared()) && colours === theme() && slice === state.slice;
  let all, everything;
  try {
    all = await Promise.all(ids.map((n) => fetchLayer(n, slice)));
    everything = mode === "difference" ? await Promise.all(ids.map((n) => fetchLayer(n, null))) : all;
  } catch (error) {
    return current() ? complain(error.message) : undefined;
  }
  if (!current()) return;
  const [first, second] = all;
  const { facts } = mode === "second" ? second : first;
  let values = (mode === "second" ? second : first).values;
  let scale;
  if (mode === "difference") {
    const minus = (one, other) => other.values.map((value, i) => value - one.values[i]);
    values = minus(first, second);
    const share = slice === null ? 1 : Math.min(1, 2 * Math.max(...all.map((one, i) => one.facts.largest_of_slices / everything[i].facts.largest)));
    scale = differenceScale(usualSize(minus(...everything)) * share, colours); // the same for every slice
  } else {
    const scaled = state.against === null || sameUnit() ? all : [mode === "second" ? second : first];
    scale = tripsScale(Math.max(...scaled.map(({ facts: one }) => (slice === null ? one.largest : one.largest_of_slices))), colours);
  }
  const canvas = make("canvas", { width: facts.width, height: facts.height });
  const image = new ImageData(facts.width, facts.height);
  const pixels = new Uint32Array(image.data.buffer);
  let [before, pixel] = [NaN, 0];
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (Number.isNaN(value)) continue;
    if (value !== before) {
      const [r, g, b, a] = scale.colour(value);
      pixel = ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
      before = value;
    }
    pixels[i] = pixel;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  const [west, south, east, north] = facts.bounds;
  picture?.remove();
  picture = new Picture(canvas, [[south, west], [north, east]], { opacity: state.opacity / 100, zIndex: 1 }).addTo(map);
  painted = { facts, values, mode };
  showLegend(scale, facts, mode);
  zones.showAgain();
  flows.showAgain();
  $("map").dataset.painted = `${mode} ${ids} ${colours}`;
  $("map").dataset.slice = slice ?? "";
  if (slice !== null) {
    showFacts();
    showAnswers();
  }
}

function showLegend(scale, facts, mode) {
  const where = String(facts.block) === "1,1" ? "per cell" : `per ${facts.block[0]} × ${facts.block[1]} cells`;
  drawScale(scale, (mode === "difference"
    ? `Trips ${where}: ${state.releases[state.against].name} − ${state.releases[state.show].name}` : `Distinct trips ${where}`) + inSlice());
}

function drawScale(scale, title) {
  $("legend-title").textContent = title.replaceAll("–", "\u2060–\u2060"); // no line breaks within hours
  $("here").textContent = "";
  const [canvas, context] = [$("ramp"), $("ramp").getContext("2d")];
  context.clearRect(0, 0, canvas.width, 1);
  for (let x = 0; x < canvas.width; x++) {
    const [r, g, b, a] = scale.at((x + 0.5) / canvas.width);
    context.fillStyle = `rgba(${r | 0}, ${g | 0}, ${b | 0}, ${a / 255})`;
    context.fillRect(x, 0, 1, 1);
  }
  $("ticks").replaceChildren(...scale.ticks.map(({ place, words }) => {
    const tick = make("span", {}, words);
    tick.style.left = `${place * 100}%`;
    if (place < 0.06) tick.className = "first";
    if (place > 0.94) tick.className = "last";
    return tick;
  }));
  spaceTicks();
}

/** Hide ticks whose labels would touch that of a rounder number. */
function spaceTicks() {
  const kept = [];
  const firstDigit = (tick) => Number(tick.textContent.match(/\d/)[0]);
  const byRoundness = [...$("ticks").children].sort((a, b) => [0, 1, 5, 2].indexOf(firstDigit(a)) - [0, 1, 5, 2].indexOf(firstDigit(b)));
  for (const tick of byRoundness) {
    tick.hidden = false;
    const { left, right } = tick.getBoundingClientRect();
    tick.hidden = kept.some((one) => left < one.right + 6 && one.left < right + 6);
    if (!tick.hidden) kept.push({ left, right });
  }
}

/** The value of the layer at a place. */
function valueAt({ lat, lng }) {
  if (!painted) return NaN;
  const { facts: { width, height, bounds: [west, south, east, north] }, values } = painted;
  const mercator = (latitude) => heightOf(latitude, source.planar);
  const column = Math.floor(((lng - west) / (east - west)) * width);
  const row = Math.floor(((mercator(north) - mercator(lat)) / (mercator(north) - mercator(south))) * height);
  return column < 0 || column >= width || row < 0 || row >= height ? NaN : values[row * width + column];
}

function showHere({ latlng }) {
  const flow = flows.here(latlng);
  if (flow !== undefined) return ($("here").textContent = flow);
  const zone = zones.under();
  if (zone !== undefined) return ($("here").textContent = zone && !zone.outside ? `here ${whole(zone.number)}` : "");
  const value = valueAt(latlng);
  const words = Math.abs(value) < 9.95 ? value.toFixed(1) : whole(value);
  $("here").textContent = Number.isNaN(value) ? "" : `here ${painted.mode === "difference" && value > 0 ? "+" : ""}${words}`;
}

function corners([west, south, east, north]) {
  return [[south, west], [north, east]];
}

function drawRectangles() {
  for (const rectangle of state.rectangles) {
    rectangle.drawn?.remove();
    const chosen = rectangle === state.selected;
    const bounds = corners(rectangle.sides);
    const answer = rectangle.answered === rectangle.sides && (rectangle.answers.get(state.show) ?? rectangle.answers.get(state.against));
    const group = L.layerGroup();
    if (answer && (answer.grown || answer.cut)) {
      const ring = answer.outline.map(([x, y]) => [y, x]);
      L.polygon(ring, { interactive: false, fill: false, weight: 3.5, opacity: 0.8, className: "casing" }).addTo(group);
      L.polygon(ring, { interactive: false, fill: false, weight: 1.5, color: rectangle.colour, dashArray: "5 4", className: "answered" }).addTo(group);
    }
    L.rectangle(bounds, { interactive: false, fill: false, weight: chosen ? 6 : 4.5, className: "casing" }).addTo(group);
    L.rectangle(bounds, {
      color: rectangle.colour, weight: chosen ? 3 : 2, fillColor: rectangle.colour, fillOpacity: chosen ? 0.1 : 0.03, className: "asked",
    }).on("click", (event) => {
      L.DomEvent.stopPropagation(event);
      if (performance.now() - drawing.ended > 300) select(rectangle);
    }).addTo(group);
    const icon = L.divIcon({ className: `tag${chosen ? " chosen" : ""}`, iconSize: [22, 20], iconAnchor: chosen ? [-10, 22] : [1, 20] });
    const tag = L.marker([rectangle.sides[3], rectangle.sides[0]], { icon, keyboard: false, title: `Rectangle ${rectangle.name}` })
      .on("click", () => select(rectangle)).addTo(group);
    rectangle.drawn = group.addTo(map);
    tag.getElement().textContent = rectangle.name;
    tag.getElement().style.backgroundColor = rectangle.colour;
  }
  showHandles();
}

/** Show the corners of the selected rectangle, which can be dragged. */
function showHandles() {
  if (handles?.dragged) return;
  handles?.remove();
  handles = null;
  const rectangle = state.selected;
  if (!rectangle || !state.rectangles.includes(rectangle) || drawing.from) return;
  handles = L.layerGroup().addTo(map);
  for (const [x, y] of [[0, 1], [0, 3], [2, 1], [2, 3]]) {
    const icon = L.divIcon({ className: "handle", iconSize: [14, 14] });
    const handle = L.marker([rectangle.sides[y], rectangle.sides[x]], { icon, draggable: true, keyboard: false });
    const fixed = [rectangle.sides[2 - x], rectangle.sides[4 - y]];
    handle.on("dragstart", () => (handles.dragged = true));
    handle.on("drag", ({ latlng }) => move(rectangle, between(L.latLng(fixed[1], fixed[0]), latlng)));
    handle.on("dragend", () => {
      handles.dragged = false;
      refresh();
      askProfiles(rectangle);
    });
    handle.addTo(handles);
    handle.getElement().style.borderColor = rectangle.colour;
  }
}

/** The rectangle between two corners, with as many decimals as can be told apart at this zoom. */
function between(a, b) {
  const digits = decimals(map.getZoom(), source.planar);
  const round = (value) => Number(value.toFixed(digits));
  return [Math.min(a.lng, b.lng), Math.min(a.lat, b.lat), Math.max(a.lng, b.lng), Math.max(a.lat, b.lat)].map(round);
}

/* Drawing */

const drawing = { armed: false, from: null, rectangle: null, before: null, pointer: null, ended: 0 };

function arm(armed) {
  if (armed) sketch.stop();
  drawing.armed = armed;
  $("draw").setAttribute("aria-pressed", String(armed));
  $("map").querySelector(".draw").setAttribute("aria-pressed", String(armed));
  $("draw").textContent = armed ? "Drag on the map…" : "Draw on the map";
  $("map").classList.toggle("drawing", armed);
}

function placeOf(event) {
  return map.mouseEventToLatLng(event);
}

function startDrawing(event) {
  if (event.button !== 0 || sketch.kind() || !(drawing.armed || event.shiftKey) || event.target.closest(".leaflet-control")) return;
  event.preventDefault();
  event.stopPropagation();
  complain(null);
  map.dragging.disable();
  $("map").setPointerCapture(event.pointerId);
  Object.assign(drawing, { from: placeOf(event), before: state.selected, pointer: event.pointerId, at: [event.clientX, event.clientY] });
}

function goOnDrawing(event) {
  if (!drawing.from || event.pointerId !== drawing.pointer) return;
  event.preventDefault();
  const far = Math.max(Math.abs(event.clientX - drawing.at[0]), Math.abs(event.clientY - drawing.at[1])) > 3;
  const sides = between(drawing.from, placeOf(event));
  if (!drawing.rectangle && far) {
    drawing.rectangle = add(sides);
    if (!drawing.rectangle) return stopDrawing();
    state.selected = drawing.rectangle;
    refresh();
  }
  if (drawing.rectangle) {
    move(drawing.rectangle, sides);
    showReadout(event);
  }
}

async function finishDrawing(event) {
  if (!drawing.from || event.pointerId !== drawing.pointer) return;
  const rectangle = drawing.rectangle;
  stopDrawing();
  if (!rectangle) return;
  await rectangle.asking;
  if (rectangle.problem && !rectangle.answers.size) {
    const sentence = rectangle.problem;
    remove(rectangle);
    complain(sentence);
  } else {
    refresh();
    announce(rectangle);
    seek(rectangle);
    askProfiles(rectangle);
  }
}

function stopDrawing() {
  if (drawing.pointer !== null && $("map").hasPointerCapture(drawing.pointer)) $("map").releasePointerCapture(drawing.pointer);
  Object.assign(drawing, { from: null, rectangle: null, pointer: null, ended: performance.now() });
  map.dragging.enable();
  $("readout").hidden = true;
  arm(false);
  refresh();
}

function cancelDrawing() {
  const { rectangle, before } = drawing;
  if (rectangle) {
    remove(rectangle);
    state.selected = before;
  }
  stopDrawing();
}

function showReadout({ clientX, clientY }) {
  const [readout, box] = [$("readout"), $("map").getBoundingClientRect()];
  readout.hidden = false;
  const [x, y] = [clientX - box.left, clientY - box.top];
  readout.style.left = `${Math.min(x + 16, box.width - readout.offsetWidth - 8)}px`;
  readout.style.top = `${Math.min(y + 16, box.height - readout.offsetHeight - 8)}px`;
}

function fillReadout() {
  const rectangle = drawing.rectangle;
  if (!rectangle) return;
  const answer = rectangle.answers.get(state.show);
  const words = rectangle.problem && !answer ? [rectangle.problem] : answer ? [make("strong", {}, whole(answer.value)), " trips", make("small", {}, interval(answer))] : ["…"];
  $("readout").replaceChildren(...words);
}

/* The panel */

function bar(answer, longest, colour) {
  const range = make("span", { className: "range" });
  const mark = make("span", { className: "mark" });
  const [low, high] = answer.low === null ? [answer.value, answer.value] : [answer.low, answer.high];
  range.style.left = `${(low / longest) * 100}%`;
  range.style.width = `${((high - low) / longest) * 100}%`;
  range.style.backgroundColor = colour;
  mark.style.left = `${(answer.value / longest) * 100}%`;
  return make("div", { className: "bar", "aria-hidden": "true" }, range, mark);
}

function shareOf(answer, release) {
  const trips = tripsOf(release.n);
  return trips?.value > 0 ? `${percent(answer.value / trips.value)} of all trips${inSlice()}` : "";
}

function answerRow(rectangle, n, longest) {
  const answer = rectangle.answers.get(n);
  const release = state.releases[n];
  return make(
    "div", { className: "row" },
    state.against === null ? null : make("span", { className: "whose" }, release.name),
    make("div", { className: "number" },
      make("strong", { "data-value": String(answer.value), "data-release": String(n) }, whole(answer.value)),
      make("span", { className: "interval" }, interval(answer))),
    bar(answer, longest, rectangle.colour),
    state.against === null || rectangle.kind === "line" ? null : make("span", { className: "share" }, shareOf(answer, release)));
}

function differenceRow(rectangle) {
  const [first, second] = compared().map((n) => rectangle.answers.get(n));
  const difference = second.value - first.value;
  const share = first.value > 0 ? ` (${signed(difference / first.value, percent)})` : "";
  const known = first.low !== null && second.low !== null;
  const apart = first.high < second.low || second.high < first.low;
  return make(
    "div", { className: "row difference" },
    make("span", { className: "whose" }, `Difference: ${state.releases[state.against].name} − ${state.releases[state.show].name}`),
    make("div", { className: "number" }, make("strong", { "data-difference": String(difference) }, signed(difference) + share)),
    make("span", { className: "share" }, known ? (apart ? "confidence intervals do not overlap" : "confidence intervals overlap") : ""));
}

function card(rectangle, longest) {
  const known = compared().filter((n) => rectangle.answers.has(n));
  const answer = rectangle.answers.get(known[0]);
  const choose = () => (rectangle.kind ? fitTo(rectangle.corners.map(([x, y]) => [y, x])) : select(rectangle));
  const chip = make("button", {
    type: "button", className: "chip", "aria-label": `${rectangle.kind ? "Show" : "Select"} ${rectangle.kind ?? "rectangle"} ${rectangle.name}`, onclick: choose,
    ...(rectangle.kind ? {} : { "aria-pressed": String(rectangle === state.selected) }),
  }, rectangle.name);
  chip.style.backgroundColor = rectangle.colour;
  const close = make("button", {
    type: "button", className: "close", "aria-label": `Remove ${rectangle.kind ?? "rectangle"} ${rectangle.name}`, onclick: () => (rectangle.kind ? removeShape : remove)(rectangle),
  }, "×");
  const rows = known.map((n) => answerRow(rectangle, n, longest(n)));
  if (known.length === 2 && sameUnit()) rows.push(differenceRow(rectangle));
  const about = [];
  if (answer) {
    if (rectangle.kind === "line") about.push("crossings, not distinct trips");
    else if (state.against === null) about.push(shareOf(answer, state.releases[state.show]));
    about.push(rectangle.kind ? shapeSize(rectangle, answer) : sizeOf(answer));
    const profile = state.slice === null ? null : profileNow(rectangle, known[0]);
    if (profile) about.push(`${whole(profile.total.value)} in all slices`);
    if (answer.grown) about.push("extended to whole cells");
    if (answer.cut) about.push("clipped to the map");
    if (answer.repaired) about.push("crosses itself; repaired");
  }
  const made = make(
    "li", { className: `answer${rectangle === state.selected ? " chosen" : ""}`, "data-name": rectangle.name },
    chip,
    make("div", { className: "rows" }, ...rows,
      rectangle.problem ? make("p", { className: "problem" }, rectangle.problem) : null,
      known.length ? make("p", { className: "note" }, about.filter(Boolean).join(" · ").replaceAll(" km", "\u00a0km").replaceAll(" × ", "\u00a0×\u00a0")) : null),
    close);
  made.addEventListener("click", (event) => event.target.closest("button") ?? choose());
  return made;
}

function showAnswers() {
  const focused = document.activeElement?.closest("#answers li")?.dataset.name;
  const role = document.activeElement?.className;
  const all = [...state.rectangles, ...state.shapes];
  const apart = state.against !== null && !sameUnit(); // then bars have a scale for each release
  const longest = (n) => Math.max(1, ...all.flatMap((one) => [...one.answers].filter(([of]) => !apart || of === n)).map(([, answer]) => answer.high ?? answer.value));
  showProfiles(all);
  $("answers").replaceChildren(...all.map((one) => card(one, longest)));
  $("answers-title").textContent = all.some((one) => one.kind === "line") ? "Answers" : "Distinct trips";
  $("empty").hidden = all.length > 0;
  $("copy").hidden = $("clear").hidden = $("hint").hidden = all.length === 0;
  if (focused) $("answers").querySelector(`li[data-name="${focused}"] .${role}`)?.focus();
  fillReadout();
  drawRectangles();
  flows.follow();
}

/** The rectangles and polygons, with their borders once they are answered. */
function flowAreas() {
  return [...state.rectangles, ...state.shapes].filter(({ kind }) => kind !== "line").map((one) => {
    const border = one.kind ? one.corners : one.answers.get(state.show)?.outline;
    return { name: one.name, title: titleOf(one), colour: one.colour, ring: border ? [...border, border[0]] : null, chosen: one === state.selected };
  });
}

/** Charts of all that has slices; those of a release that it is compared with are dashed. */
function showProfiles(all) {
  const drawn = state.against === null || sameUnit() ? compared().filter((n) => n === state.show || sameSlices()) : [state.show];
  const release = state.releases[state.show];
  profiles.show(release, all.flatMap((one) => drawn.filter((n) => profileNow(one, n)).map((n) => {
    const { trips, crossings, low, high, total } = profileNow(one, n);
    const whose = drawn.length > 1 ? state.releases[n].name : "";
    return {
      counted: trips ? "trips" : "crossings", title: titleOf(one) + (whose && `, ${whose}`), name: one.name, whose, colour: one.colour,
      dashed: n !== state.show, values: trips ?? crossings, low, high, total,
    };
  })), state.slice);
}

function showSides() {
  const rectangle = state.selected;
  $("change").hidden = !rectangle;
  if (!rectangle) return;
  $("change").textContent = `Change ${rectangle.name}`;
  SIDES.forEach((name, i) => {
    if (document.activeElement !== $(name)) $(name).value = String(rectangle.sides[i]);
  });
}

function refresh() {
  showAnswers();
  showSides();
  keepAddress();
}

function typed() {
  return SIDES.map((name) => $(name).value.trim().replace("−", "-").replace(/^(-?\d+),(\d+)$/, "$1.$2"));
}

function allNumbers(sides) {
  const fine = sides.every((side) => side && Number.isFinite(Number(side)));
  if (!fine) complain(`Enter a number ${source.planar ? "in" : "of"} ${unitWords(source.planar)} for each side: west, south, east and north.`);
  return fine;
}

async function addTyped(event) {
  event.preventDefault();
  complain(null);
  const sides = typed();
  if (!allNumbers(sides)) return;
  try {
    await source.count(state.show, sides, state.slice);
  } catch (error) {
    return complain(error.message);
  }
  const rectangle = add(sides.map(Number));
  if (!rectangle) return;
  select(rectangle);
  await ask(rectangle);
  announce(rectangle);
  seek(rectangle);
}

async function changeTyped() {
  const rectangle = state.selected;
  if (!rectangle) return;
  complain(null);
  const sides = typed();
  if (!allNumbers(sides)) return;
  try {
    await source.count(state.show, sides, state.slice);
  } catch (error) {
    return complain(error.message);
  }
  await move(rectangle, sides.map(Number));
}

/** What the numbers count, for readers of a CSV file. */
function counted(release, crossings) {
  return `${release.private ? "" : "NOT PRIVATE: "}${crossings ? "crossings" : "distinct trips"}, ${release.counted}`;
}

function csv() {
  const sliced = compared().some((n) => state.releases[n].slices.length);
  const head = ["name", "release", ...(sliced ? ["slice"] : []), ...SIDES, ...SIDES.map((name) => `answered_${name}`), "value", "low", "high", "confidence", "counted", "wkt"];
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  /** The name and the answer of all slices together and of each slice; only what is shown if there are none. */
  const bySlice = (one, n) => {
    const [answer, profile] = [one.answers.get(n), profileNow(one, n)];
    if (!sliced) return [[[], answer]];
    if (!profile) return [[[quoted(state.slice ?? "all")], answer]];
    return [null, ...profile.slices].map((name) => [[quoted(name ?? "all")], { ...answer, ...fromProfile(profile, name) }]);
  };
  const rows = state.rectangles.flatMap((one) => compared().filter((n) => one.answers.has(n)).flatMap((n) => bySlice(one, n).map(([slice, answer]) => {
    return [one.name, quoted(state.releases[n].name), ...slice, ...one.sides, ...answer.bounds, answer.value, answer.low ?? "", answer.high ?? "", answer.confidence, quoted(counted(state.releases[n], false)), ""];
  })));
  const none = Array(8).fill("");
  rows.push(...state.shapes.flatMap((one) => compared().filter((n) => one.answers.has(n)).flatMap((n) => bySlice(one, n).map(([slice, answer]) => {
    const places = one.corners.map((corner) => corner.join(" "));
    const wkt = one.kind === "line" ? `LINESTRING (${places.join(", ")})` : `POLYGON ((${[...places, places[0]].join(", ")}))`;
    const words = counted(state.releases[n], one.kind === "line");
    return [one.name, quoted(state.releases[n].name), ...slice, ...none, answer.value, answer.low ?? "", answer.high ?? "", answer.confidence, quoted(words), quoted(wkt)];
  }))));
  return [head, ...rows].map((row) => row.join(",")).join("\n") + "\n";
}

async function copy() {
  await Promise.all([...state.rectangles, ...state.shapes].map(askProfiles));
  const text = csv();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { value: text, className: "unseen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  $("copy").textContent = "Copied";
  say("Copied as CSV.");
  setTimeout(() => ($("copy").textContent = "Copy as CSV"), 1500);
}

/* Releases */

function showRelease() {
  const release = state.releases[state.show];
  const seen = compared().map((n) => state.releases[n]);
  document.title = `${release.title} · dqam explorer`;
  $("release-title").textContent = release.title;
  $("promise").textContent = release.promise.replaceAll(" = ", "\u00a0=\u00a0");
  $("promise").className = release.private ? "promise" : "promise broken";
  showFacts();
  const open = seen.filter((one) => !one.private);
  $("banner").hidden = open.length === 0;
  $("banner").textContent = open.length ? `NOT PRIVATE: ${open.map((one) => one.name).join(" and ")} ${open.length > 1 ? "were" : "was"} made for tests and experiments. Do not publish ${open.length > 1 ? "them" : "it"}.` : "";
  $("choose").hidden = state.releases.length < 2;
  const options = (none) => [
    ...(none ? [make("option", { value: "" }, "nothing")] : []),
    ...state.releases.filter(({ n }) => !none || n !== state.show).map((one) => make("option", { value: String(one.n) }, one.name)),
  ];
  SIDES.forEach((name, i) => ($(name).placeholder = release.grid.degrees[i].toFixed(source.planar?.geographic === false ? 0 : 4)));
  $("show").replaceChildren(...options(false));
  $("show").value = String(state.show);
  $("against").replaceChildren(...options(true));
  $("against").value = state.against === null ? "" : String(state.against);
  showLayerChoice();
  explain(release);
}

function showFacts() {
  const release = state.releases[state.show];
  const words = release.unit.name === "trip" ? "trips in total" : `trips in total, ${release.counted}`;
  const range = ({ low, high }) => (low === null ? "" : ` (${whole(low)} to ${whole(high)})`);
  const some = state.slice === null ? null : tripsOf(state.show);
  $("all-trips").textContent = some
    ? `${whole(some.value)} trips${inSlice()}${range(some)}; ${whole(release.trips.value)} ${words}.` : `${whole(release.trips.value)} ${words}${range(release.trips)}.`;
}

function showLayerChoice() {
  const unlike = whyUnlike();
  if ($("unlike").textContent !== unlike && unlike) say(unlike);
  $("unlike").textContent = unlike;
  $("unlike").hidden = !unlike;
  $("layers").hidden = state.against === null || compared().length < 2;
  if ($("layers").hidden) return $("layers").replaceChildren();
  const same = comparable();
  const names = { first: state.releases[state.show].name, second: state.releases[state.against].name, difference: "Difference" };
  $("layers").replaceChildren(...Object.entries(names).map(([mode, name]) => {
    const input = make("input", { type: "radio", name: "layer", value: mode, checked: state.layer === mode, disabled: mode === "difference" && !same });
    input.addEventListener("change", () => chooseLayer(mode));
    const label = make("label", {}, input, make("span", {}, name));
    if (input.disabled) label.title = sameUnit() ? "The difference can only be shown for releases on the same grid." : unlike;
    return label;
  }));
}

/** Whether the difference of the two releases can be shown on the map. */
function comparable() {
  return sameGrid(state.show, state.against) && sameUnit();
}

function chooseLayer(mode) {
  state.layer = mode;
  $("layers").querySelector(`input[value=${mode}]`).checked = true;
  keepAddress();
  paint();
}

function chooseReleases(show, against) {
  const { grid: before, sliced_by: rule } = state.releases[state.show];
  state.show = show;
  state.against = against === show ? null : against;
  if (state.releases[show].sliced_by !== rule) state.slice = null;
  checkLayer();
  slices.show(state.releases[show], state.slice);
  if (String(before.degrees) !== String(state.releases[show].grid.degrees)) fit();
  showRelease();
  paint();
  refresh();
  [...state.rectangles, ...state.shapes].forEach(ask);
  zones.askAgain();
}

/** Show the first release if what was chosen cannot be shown. */
function checkLayer() {
  if (compared().length < 2 || (state.layer === "difference" && !comparable())) state.layer = "first";
}

function explain(release) {
  const { unit, epsilon, delta, grid } = release;
  const times = Math.exp(epsilon);
  const factor = times < 1e6 ? times.toPrecision(3).replace(/\.?0+$/, "") : times.toExponential(1);
  const whose = unit.name === "trip" ? "any one trip" : "any one person";
  const kept = unit.name === "trip" ? "" : ` Numbers are ${release.counted}.`;
  const facts = [
    ["Guarantee", release.promise],
    ...(source.planar ? [["Coordinates", `This page does not convert coordinates. All coordinates are ${unitWords(source.planar)}.`]] : []),
    ["File", release.name],
    ["Published", release.created.replace("T", " ").replace("+00:00", " UTC")],
    ["Mechanism", `${release.mechanism}, tuned for ${release.queries}`],
    ["Grid", `${grid.rows} × ${grid.columns} cells of ${whole(grid.cell_metres[0])} m × ${whole(grid.cell_metres[1])} m (${grid.crs.slice(0, 60)})`],
    ...(release.slices.length ? [["Slices", `${release.slices.length}, by ${ruleWords(release)}; every trip is in exactly one`]] : []),
    ...(release.gap ? [["Trips split", `at GPS gaps longer than ${release.gap}`]] : []),
    ["Flows", release.flows ? "how many trips go from one area to another" : "none; they are published with dqam publish --flows"],
    ["Publication id", release.id],
  ];
  const limit = delta === null
    ? `every possible map is at most ${factor} times as likely with that ${unit.name} as without, and vice versa (${factor} is e to the power of epsilon = ${epsilon})`
    : `any consequence that the map could have is at most ${factor} times as likely with that ${unit.name} as without, plus a probability of at most ${delta}, and vice versa (${factor} is e to the power of epsilon = ${epsilon}; ${delta} is delta)`;
  const promise = release.private
    ? `Noise was added before publication to hide whether ${whose} was in the data: ${limit}.${kept} This holds whatever else someone knows, and however many questions they ask here.`
    : "This release is NOT PRIVATE. Its noise came from a seed, and anyone who knows the seed can remove it.";
  $("about-words").replaceChildren(
    make("p", {}, "This map estimates how many distinct trips passed through any area. A trip that passes twice counts once, so parts do not add up to the whole."),
    make("p", {}, promise),
    make("p", {}, "Every number is an estimate. The ranges are 90 % confidence intervals; in some busy places they contain the true number less often. Rectangles are extended to whole cells; a dashed line shows them. Polygons are answered along their borders, which is an approximation. Lines count crossings, not distinct trips."),
    make("dl", {}, ...facts.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)])));
}

/* The address of the page */

let addressTimer;
let writtenAddress = "";
function keepAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 150);
}

function writeAddress() {
  if (drawing.from) return keepAddress();
  const { lat, lng } = map.getCenter();
  const parts = [`view=${lat.toFixed(5)},${lng.toFixed(5)},${map.getZoom()}`];
  if (state.show) parts.push(`release=${state.show}`);
  if (state.against !== null) parts.push(`with=${state.against}`, `layer=${state.layer}`);
  if (state.slice !== null) parts.push(`slice=${encodeURIComponent(state.slice)}`);
  if (state.rectangles.length) parts.push(`r=${state.rectangles.map((one) => one.sides.join(",")).join(";")}`);
  const sketches = ["polygon", "line"].flatMap((kind) => {
    const some = state.shapes.filter((one) => one.kind === kind);
    return some.length ? [`${kind}=${some.map((one) => one.corners.join(",")).join(";")}`] : [];
  });
  const fits = [...parts, ...sketches].join("&").length < LONGEST;
  if (fits) parts.push(...sketches);
  $("too-long").hidden = fits;
  const flow = flows.address();
  if (flow) parts.push(`flows=${flow}`);
  if (state.theme) parts.push(`theme=${state.theme}`);
  if (state.opacity !== 85) parts.push(`opacity=${state.opacity}`);
  writtenAddress = `#${parts.join("&")}`;
  if (location.protocol !== "about:") history.replaceState(null, "", writtenAddress); // a page within a notebook has no address
}

function numbers(text, wanted) {
  const found = (text ?? "").split(",").map(Number);
  return text && found.length === wanted && found.every(Number.isFinite) ? found : null;
}

/** Restore everything from the address; ignore what is invalid. */
function readAddress() {
  const told = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const release = (name) => {
    const n = told.get(name);
    return n !== null && /^\d+$/.test(n) && Number(n) < state.releases.length ? Number(n) : null;
  };
  state.show = release("release") ?? 0;
  state.against = release("with");
  if (state.against === state.show) state.against = null;
  state.layer = state.against !== null && ["second", "difference"].includes(told.get("layer")) ? told.get("layer") : "first";
  state.slice = state.releases[state.show].slices.includes(told.get("slice")) ? told.get("slice") : null;
  checkLayer();
  slices.stop();
  slices.show(state.releases[state.show], state.slice);
  state.theme = ["light", "dark"].includes(told.get("theme")) ? told.get("theme") : null;
  const opacity = numbers(told.get("opacity"), 1)?.[0];
  state.opacity = opacity === undefined ? 85 : Math.min(Math.max(opacity, 0), 100);
  state.rectangles.forEach((one) => one.drawn?.remove());
  state.rectangles = [];
  state.selected = null;
  for (const part of (told.get("r") ?? "").split(";").slice(0, MOST)) {
    const sides = numbers(part, 4);
    if (sides) state.selected = add(sides);
  }
  flows.restore(told.get("flows"));
  sketch.stop();
  state.shapes.forEach((one) => one.drawn.remove());
  state.shapes = [];
  for (const kind of ["polygon", "line"]) {
    for (const part of (told.get(kind) ?? "").split(";").slice(0, MOST)) {
      const flat = numbers(part, 2 * Math.floor(part.split(",").length / 2));
      if (flat && flat.length >= (kind === "polygon" ? 6 : 4)) addShape(kind, flat.flatMap((x, i) => (i % 2 ? [] : [[x, flat[i + 1]]])));
    }
  }
  const view = numbers(told.get("view"), 3);
  if (view && (source.planar || Math.abs(view[0]) <= 90)) map.setView([view[0], view[1]], view[2], { animate: false });
  else fit();
  $("opacity").value = String(state.opacity);
  showTheme();
  showRelease();
  refresh();
  paint();
  [...state.rectangles, ...state.shapes].forEach(ask);
  zones.askAgain();
}

/* Looks */

function fit() {
  fitTo(corners(state.releases[state.show].grid.degrees));
}

/** Zoom to bounds, with room for the buttons on the left and for the legend: above it or beside it, whichever is larger. */
function fitTo(bounds) {
  const { offsetWidth, offsetHeight } = $("legend");
  const [topLeft, ...rooms] = [[52, 24], [24, offsetHeight + 24], [offsetWidth + 24, 24]].map((pixels) => L.point(pixels));
  const [above, beside] = rooms.map((room) => map.getBoundsZoom(bounds, false, topLeft.add(room)));
  map.fitBounds(bounds, { animate: false, paddingTopLeft: topLeft, paddingBottomRight: rooms[beside > above ? 1 : 0] });
}

function showTheme() {
  document.documentElement.dataset.theme = theme();
  $("theme").textContent = theme() === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Use ${theme() === "dark" ? "light" : "dark"} colours`);
}

function chooseTheme() {
  state.theme = theme() === "dark" ? "light" : "dark";
  showTheme();
  keepAddress();
  paint();
}

/* Keys */

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const target = event.target;
  const writing = target.matches("input, select, textarea");
  const arrow = ARROWS[event.key];
  if (!writing && sketch.press(event, arrow)) return event.preventDefault();
  if (event.key === "Escape") {
    if (drawing.from) cancelDrawing();
    else if (drawing.armed) arm(false);
    else if (!writing) select(null);
    return;
  }
  if (writing) return;
  const rectangle = state.selected;
  if (arrow) {
    if (target.closest(".segments, .chart, .zones-table")) return;
    if (rectangle) step(rectangle, arrow, event.shiftKey);
    else if (target.id === "map" || target === document.body) map.panBy([arrow[0] * 90, -arrow[1] * 90]);
    else return;
  } else if (event.key === "r") addAtCentre();
  else if (event.key === "d") arm(!drawing.armed);
  else if (event.key === "p") beginSketch("polygon");
  else if (event.key === "l") beginSketch("line");
  else if (event.key === "?") $("help").showModal();
  else if (event.key === "t" && compared().length > 1) {
    const modes = [...$("layers").querySelectorAll("input:enabled")].map((input) => input.value);
    chooseLayer(modes[(modes.indexOf(state.layer) + 1) % modes.length]);
  } else if ((event.key === "," || event.key === ".") && state.releases[state.show].slices.length) slices.step(event.key === "." ? 1 : -1);
  else if (event.key === "f") flows.turn();
  else if (event.key === "s" && state.releases[state.show].slices.length) slices.toggle();
  else if ((event.key === "Delete" || event.key === "Backspace") && rectangle) remove(rectangle);
  else if (event.key === "+" || event.key === "=") map.zoomIn(1);
  else if (event.key === "-") map.zoomOut(1);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
}

/* Start */

function makeMap(background) {
  map = L.map("map", { keyboard: false, boxZoom: false, zoomSnap: 0.25, zoomDelta: 0.75, minZoom: 2, maxZoom: 20, attributionControl: false, ...(source.planar ? planeOptions(source.planar) : {}) });
  if (!source.planar || source.planar.unit === "metre") L.control.scale({ imperial: false, maxWidth: 140 }).addTo(map);
  const attribution = L.control.attribution({ prefix: '<a href="https://leafletjs.com" rel="noopener">Leaflet</a>', position: "bottomleft" }).addTo(map);
  const Tools = L.Control.extend({
    options: { position: "topleft" },
    onAdd() {
      const button = make("button", { type: "button", className: "whole", title: "Show the whole map (0)", "aria-label": "Show the whole map", onclick: fit });
      const draw = make("button", {
        type: "button", className: "draw", title: "Draw a rectangle (d)", "aria-label": "Draw a rectangle", "aria-pressed": "false",
        onclick: () => arm(!drawing.armed),
      });
      const tools = Object.entries({ polygon: "p", line: "l" }).map(([kind, key]) => make("button", {
        type: "button", className: `tool-${kind}`, title: `Draw a ${kind} (${key})`, "aria-label": `Draw a ${kind}`, "aria-pressed": "false",
        onclick: () => beginSketch(kind),
      }));
      const bar = make("div", { className: "leaflet-bar" }, button, draw, ...tools);
      L.DomEvent.disableClickPropagation(bar);
      return bar;
    },
  });
  new Tools().addTo(map);
  if (background.tiles) {
    L.tileLayer(background.tiles, { maxZoom: 20 }).addTo(map);
    const credit = make("span", {}, background.attribution);
    attribution.addAttribution(credit.innerHTML);
  } else {
    map.setView([0, 0], 2);
    if (!source.planar) graticule(map);
  }
  map.on("moveend", keepAddress);
  map.on("resize", spaceTicks);
  map.on("mousemove", showHere);
  map.on("mouseout", () => ($("here").textContent = ""));
  map.on("click", () => performance.now() - drawing.ended > 300 && !sketch.justEnded() && select(null));
  const surface = $("map");
  surface.addEventListener("pointerdown", startDrawing, true);
  surface.addEventListener("pointermove", goOnDrawing);
  surface.addEventListener("pointerup", finishDrawing);
  surface.addEventListener("pointercancel", () => drawing.from && cancelDrawing());
  for (const name of ["mousedown", "touchstart"]) {
    surface.addEventListener(name, (event) => drawing.from && event.stopPropagation(), true);
  }
}

function listen() {
  $("ask").addEventListener("submit", addTyped);
  $("change").addEventListener("click", changeTyped);
  $("draw").addEventListener("click", () => arm(!drawing.armed));
  $("copy").addEventListener("click", copy);
  $("clear").addEventListener("click", () => {
    [...state.rectangles].forEach(remove);
    [...state.shapes].forEach(removeShape);
  });
  for (const kind of ["polygon", "line"]) $(`draw-${kind}`).addEventListener("click", () => beginSketch(kind));
  $("theme").addEventListener("click", chooseTheme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("about-open").addEventListener("click", () => $("about").showModal());
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  $("show").addEventListener("change", () => {
    const [before, show] = [state.show, Number($("show").value)];
    chooseReleases(show, state.against === show ? before : state.against);
  });
  $("against").addEventListener("change", () => {
    const chosen = $("against").value;
    chooseReleases(state.show, chosen === "" ? null : Number(chosen));
  });
  $("opacity").addEventListener("input", () => {
    state.opacity = Number($("opacity").value);
    picture?.setOpacity(state.opacity / 100);
    zones.fade();
    flows.fade();
    keepAddress();
  });
  document.addEventListener("keydown", press);
  addEventListener("hashchange", () => location.hash !== writtenAddress && readAddress());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    showTheme();
    paint();
  });
}

async function start() {
  source = await openSource();
  const [releases, background] = await Promise.all([source.releases(), source.background()]);
  state.releases = releases;
  makeMap(background);
  const peak = () => fetchLayer(state.show, null).then(({ facts }) => facts.largest_of_slices / facts.largest);
  sketch = makeSketch({ map, complain, say, digits: () => decimals(map.getZoom(), source.planar), cell: () => state.releases[state.show].grid.cell_degrees, done: finishShape, changed: showSketching });
  zones = makeZones({
    map, source, make, whole, interval, complain, say, theme, counted, paint, drawScale, fitTo,
    opacity: () => state.opacity / 100, shown: () => state.releases[state.show], slice: () => state.slice,
    whose: () => (state.against === null ? "" : `: ${state.releases[state.show].name}`) + inSlice(),
    peak, clicked: (i) => !drawing.armed && performance.now() - drawing.ended > 300 && !sketch.justEnded() && flows.chooseZone(i), changed: () => flows.follow(),
  });
  flows = makeFlows({
    map, source, make, whole, figures, interval, complain, say, theme, paint, drawScale, keepAddress, inSlice, zones, peak, areas: flowAreas,
    opacity: () => state.opacity / 100, shown: () => state.releases[state.show], slice: () => state.slice,
  });
  slices = makeSlices({ map, make, changed: chooseSlice, soon: (name) => compared().forEach((n) => fetchLayer(n, name)) });
  profiles = makeProfiles({ place: $("profiles"), make, whole, interval, say, choose: (name) => slices.choose(name) });
  if (!source.served) document.querySelector('nav a[href="api"]').remove();
  if (source.planar) {
    $("sides-in").textContent = `Sides in ${unitWords(source.planar)}`;
    $("sides-in").classList.remove("unseen");
  }
  globalThis.dqam = source; // for questions in the console of the browser
  listen();
  readAddress();
}

start().catch((error) => complain(error.message));
