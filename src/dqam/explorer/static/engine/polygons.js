// Polygons in cells of a grid: whether they are valid, their convex hulls, and the parts of them within the grid.
// A ring or line is a Float64Array x0, y0, x1, y1, ...; rings end where they begin. A polygon is a list of rings, the
// shell first; a shape is a list of polygons.

import { meeting, orientation } from "./exact.js";

/** Twice the area inside a ring, positive if it is counterclockwise. */
export function twiceArea(ring) {
  let twice = 0;
  for (let i = 0; i + 3 < ring.length; i += 2) {
    twice += (ring[i] - ring[0]) * (ring[i + 3] - ring[i + 1]) - (ring[i + 2] - ring[i]) * (ring[i + 1] - ring[1]);
  }
  return twice;
}

export function areaOf(polygons) {
  let area = 0;
  for (const [shell, ...holes] of polygons) area += holes.reduce((rest, hole) => rest - Math.abs(twiceArea(hole)) / 2, Math.abs(twiceArea(shell)) / 2);
  return area;
}

export function lengthOf(lines, [wide, high] = [1, 1]) {
  let length = 0;
  for (const line of lines) {
    for (let i = 0; i + 3 < line.length; i += 2) length += Math.sqrt(((line[i + 2] - line[i]) * wide) ** 2 + ((line[i + 3] - line[i + 1]) * high) ** 2);
  }
  return length;
}

/** West, south, east and north of lines or rings. */
export function boundsOf(lines) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (const line of lines) {
    for (let i = 0; i < line.length; i += 2) {
      bounds[0] = Math.min(bounds[0], line[i]);
      bounds[1] = Math.min(bounds[1], line[i + 1]);
      bounds[2] = Math.max(bounds[2], line[i]);
      bounds[3] = Math.max(bounds[3], line[i + 1]);
    }
  }
  return bounds;
}

/** The convex hull of rings, as a ring without corners on its sides. */
export function hullOf(rings) {
  const points = rings.flatMap((ring) => Array.from({ length: ring.length / 2 }, (_, i) => [ring[2 * i], ring[2 * i + 1]]));
  points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (some) => {
    const hull = [];
    for (const point of some) {
      while (hull.length > 1 && orientation(...hull.at(-2), ...hull.at(-1), ...point) <= 0) hull.pop();
      const last = hull.at(-1);
      if (!last || last[0] !== point[0] || last[1] !== point[1]) hull.push(point);
    }
    return hull;
  };
  return new Float64Array([...half(points).slice(0, -1), ...half(points.reverse())].flat());
}

/** 1 if a point is inside a ring, -1 if it is outside, 0 if it is on it. */
function locate(ring, x, y) {
  let inside = false;
  for (let i = 0; i + 3 < ring.length; i += 2) {
    const [ax, ay, bx, by] = [ring[i], ring[i + 1], ring[i + 2], ring[i + 3]];
    if ((ax === x && ay === y) || (bx === x && by === y)) return 0;
    if (ay === y && by === y && Math.min(ax, bx) <= x && x <= Math.max(ax, bx)) return 0;
    if (ay <= y === by <= y) continue;
    const side = orientation(ax, ay, bx, by, x, y);
    if (side === 0) return 0;
    if (side > 0 === by > ay) inside = !inside;
  }
  return inside ? 1 : -1;
}

/** Where one ring lies that does not cross another: 1 inside it, -1 outside, 0 if that cannot be told. */
function locateRing(other, ring) {
  for (let i = 0; i < ring.length; i += 2) {
    const place = locate(other, ring[i], ring[i + 1]);
    if (place) return place;
  }
  return 0;
}

function withoutRepeats(ring) {
  const kept = [];
  for (let i = 0; i < ring.length; i += 2) if (!i || ring[i] !== ring[i - 2] || ring[i + 1] !== ring[i - 1]) kept.push(ring[i], ring[i + 1]);
  return new Float64Array(kept);
}

/** Whether the way from b1 over p to b2 crosses the way from a1 over p to a2. */
function crossesAt(p, a1, a2, b1, b2) {
  const turn = orientation(...p, ...a1, ...a2);
  const inside = (b) => {
    const [from, to] = [orientation(...p, ...a1, ...b) > 0, orientation(...p, ...b, ...a2) > 0];
    if (turn === 0) return from;
    return turn > 0 ? from && to : from || to;
  };
  return inside(b1) !== inside(b2);
}

/** Whether polygons are valid by the rules of OGC: rings that neither cross nor overlap, holes within shells, parts apart. */
export function isValid(polygons) {
  return touchesOf(polygons) !== null;
}

/** The points where rings of valid polygons touch, by name: { point, rings }, the numbers of the rings; null if the
 *  polygons are not valid. */
function touchesOf(polygons) {
  const rings = [];
  polygons.forEach((polygon, part) => polygon.forEach((ring) => rings.push({ part, ring: withoutRepeats(ring) })));
  if (rings.some(({ ring }) => ring.length < 8)) return null;
  const count = rings.map(({ ring }) => ring.length / 2 - 1);
  const sides = [];
  rings.forEach(({ ring }, r) => {
    for (let i = 0; i < count[r]; i++) {
      const [x0, y0, x1, y1] = ring.subarray(2 * i, 2 * i + 4);
      sides.push({ r, i, x0, y0, x1, y1, west: Math.min(x0, x1), east: Math.max(x0, x1), south: Math.min(y0, y1), north: Math.max(y0, y1) });
    }
  });
  sides.sort((a, b) => a.west - b.west);
  const touches = new Map();
  for (let at = 0; at < sides.length; at++) {
    const a = sides[at];
    for (let next = at + 1; next < sides.length && sides[next].west <= a.east; next++) {
      const b = sides[next];
      if (b.south > a.north || b.north < a.south) continue;
      const [o1, o2] = [orientation(a.x0, a.y0, a.x1, a.y1, b.x0, b.y0), orientation(a.x0, a.y0, a.x1, a.y1, b.x1, b.y1)];
      if (o1 * o2 > 0) continue;
      const [o3, o4] = [orientation(b.x0, b.y0, b.x1, b.y1, a.x0, a.y0), orientation(b.x0, b.y0, b.x1, b.y1, a.x1, a.y1)];
      if (o3 * o4 > 0) continue;
      if (o1 * o2 < 0 && o3 * o4 < 0) return null;
      if (o1 === 0 && o2 === 0) {
        const wide = Math.min(a.east, b.east) - Math.max(a.west, b.west);
        const high = Math.min(a.north, b.north) - Math.max(a.south, b.south);
        if (wide > 0 || high > 0) return null; // they overlap
      }
      if (a.r === b.r) {
        const apart = Math.abs(a.i - b.i);
        if (apart !== 1 && apart !== count[a.r] - 1) return null; // a ring that touches itself
        continue;
      }
      const within = ({ west, east, south, north }, x, y) => west <= x && x <= east && south <= y && y <= north;
      let p = null;
      if (o1 === 0 && within(a, b.x0, b.y0)) p = [b.x0, b.y0];
      else if (o2 === 0 && within(a, b.x1, b.y1)) p = [b.x1, b.y1];
      else if (o3 === 0 && within(b, a.x0, a.y0)) p = [a.x0, a.y0];
      else if (o4 === 0 && within(b, a.x1, a.y1)) p = [a.x1, a.y1];
      if (!p) continue;
      const around = ({ r, i, x0, y0, x1, y1 }) => {
        const corner = (k) => [...rings[r].ring.subarray(2 * k, 2 * k + 2)];
        if (x0 === p[0] && y0 === p[1]) return [corner((i - 1 + count[r]) % count[r]), [x1, y1]];
        if (x1 === p[0] && y1 === p[1]) return [[x0, y0], corner((i + 1) % count[r] + 1)];
        return [[x0, y0], [x1, y1]];
      };
      if (crossesAt(p, ...around(a), ...around(b))) return null;
      const place = `${p}`;
      touches.set(place, touches.get(place) ?? { point: p, rings: new Set() });
      touches.get(place).rings.add(a.r).add(b.r);
    }
  }
  const boxes = rings.map(({ ring }) => boundsOf([ring]));
  const apart = (one, other) => boxes[one][0] > boxes[other][2] || boxes[other][0] > boxes[one][2] || boxes[one][1] > boxes[other][3] || boxes[other][1] > boxes[one][3];
  const first = new Map(); // the shell of each part
  rings.forEach(({ part }, r) => first.has(part) || first.set(part, r));
  const holes = rings.map(({ part }, r) => [part, r]).filter(([part, r]) => first.get(part) !== r);
  for (const [part, hole] of holes) {
    if (locateRing(rings[first.get(part)].ring, rings[hole].ring) !== 1) return null;
    for (const [same, other] of holes) {
      if (same === part && other !== hole && !apart(hole, other) && locateRing(rings[other].ring, rings[hole].ring) !== -1) return null;
    }
  }
  for (const [part, one] of first) {
    for (const [owner, other] of first) {
      if (owner === part || apart(one, other) || locateRing(rings[other].ring, rings[one].ring) === -1) continue;
      if (!holes.some(([of, hole]) => of === owner && locateRing(rings[hole].ring, rings[one].ring) === 1)) return null;
    }
  }
  return polygons.every((_, part) => !hasCircle(touches, (r) => rings[r].part === part)) ? touches : null;
}

/** Whether the rings of a polygon touch in a circle, so that its inside is not in one piece. */
function hasCircle(touches, ofPolygon) {
  const leader = new Map();
  const find = (one) => {
    while (leader.has(one)) one = leader.get(one);
    return one;
  };
  for (const [place, { rings }] of touches) {
    for (const r of [...rings].filter(ofPolygon)) {
      const [a, b] = [find(r), find(place)];
      if (a === b) return true;
      leader.set(a, b);
    }
  }
  return false;
}

/** The part of a side within the box from 0 to columns and rows, as { start, stop, along }: its ends, and whether it is on the border. */
function clippedSide(x0, y0, x1, y1, columns, rows) {
  if (Math.max(x0, x1) < 0 || Math.max(y0, y1) < 0 || Math.min(x0, x1) > columns || Math.min(y0, y1) > rows) return null;
  const ends = [[x0, y0], [x1, y1]];
  for (const [axis, limit, sign] of [[0, 0, -1], [0, columns, 1], [1, 0, -1], [1, rows, 1]]) {
    const beyond = ends.map((end) => sign * (end[axis] - limit) > 0);
    if (beyond[0] && beyond[1]) return null;
    for (const k of [0, 1]) {
      if (!beyond[k]) continue;
      const at = axis === 0 ? meeting(x0, y0, x1, y1, limit) : meeting(y0, x0, y1, x1, limit);
      ends[k] = axis === 0 ? [limit, at] : [at, limit];
    }
  }
  const [start, stop] = ends;
  if (start[0] === stop[0] && start[1] === stop[1]) return null;
  const border = (axis, limit) => start[axis] === limit && stop[axis] === limit;
  return { start, stop, along: border(0, 0) || border(0, columns) || border(1, 0) || border(1, rows) };
}

/** The pieces of a line inside the box, without those along its border; null for a ring that does not meet the border. */
function piecesOf(line, columns, rows, closed) {
  const pieces = [];
  let [open, whole] = [false, true];
  const atBorder = ([x, y]) => x === 0 || y === 0 || x === columns || y === rows;
  for (let i = 0; i + 3 < line.length; i += 2) {
    if (line[i] === line[i + 2] && line[i + 1] === line[i + 3]) continue;
    const side = clippedSide(line[i], line[i + 1], line[i + 2], line[i + 3], columns, rows);
    if (!side || side.along) {
      [open, whole] = [false, false];
      continue;
    }
    if (!open || atBorder(side.start)) pieces.push([side.start]);
    pieces.at(-1).push(side.stop);
    open = !atBorder(side.stop);
    if (!open || atBorder(side.start)) whole = false;
  }
  if (closed && whole) return null;
  if (closed && open && pieces.length > 1) { // the ring begins inside
    const [last, [, ...others]] = [pieces.pop(), pieces[0]];
    pieces[0] = [...last, ...others];
  }
  return pieces;
}

const flat = (points) => new Float64Array(points.flat());

/** The parts of lines within the box. */
export function clipLines(lines, columns, rows) {
  return lines.flatMap((line) => piecesOf(line, columns, rows, false)).map(flat);
}

/** The parts of valid polygons within the box, as polygons; null if they cannot be told for certain. */
export function clipPolygons(polygons, columns, rows) {
  const clipped = withCorners(polygons, touchesOf(polygons)).flatMap((polygon) => {
    const [west, south, east, north] = boundsOf([polygon[0]]);
    if (west >= columns || south >= rows || east <= 0 || north <= 0) return [];
    return west >= 0 && south >= 0 && east <= columns && north <= rows ? [polygon] : clipPolygon(polygon, columns, rows);
  });
  const area = polygons.reduce((sum, polygon) => sum + polygon.reduce((rest, ring, i) => rest + (i ? -1 : 1) * areaWithin(ring, columns, rows), 0), 0);
  const sure = Math.abs(area - areaOf(clipped)) <= 1e-9 * (1 + area) && (!clipped.length || isValid(clipped));
  return sure ? clipped : null;
}

/** The polygons with corners wherever their rings touch. */
function withCorners(polygons, touches) {
  let r = -1;
  return polygons.map((polygon) => polygon.map((ring) => {
    r += 1;
    const points = [...touches.values()].filter(({ rings }) => rings.has(r)).map(({ point }) => point);
    if (!points.length) return ring;
    const corners = [];
    for (let i = 0; i + 3 < ring.length; i += 2) {
      const [x0, y0, x1, y1] = ring.subarray(i, i + 4);
      const within = points.filter(([x, y]) =>
        Math.min(x0, x1) <= x && x <= Math.max(x0, x1) && Math.min(y0, y1) <= y && y <= Math.max(y0, y1) && orientation(x0, y0, x1, y1, x, y) === 0);
      within.sort(([ax, ay], [bx, by]) => Math.abs(ax - x0) + Math.abs(ay - y0) - Math.abs(bx - x0) - Math.abs(by - y0));
      corners.push([x0, y0], ...within);
    }
    return withoutRepeats(flat([...corners, corners[0]]));
  }));
}

function clipPolygon(polygon, columns, rows) {
  const [holes, cut, chains] = [[], [], []];
  polygon.forEach((ring, i) => {
    const turned = twiceArea(ring) > 0 === (i === 0) ? ring : backwards(ring); // what is inside is to the left
    const pieces = piecesOf(turned, columns, rows, true);
    if (!pieces) return holes.push(ring);
    cut.push([ring, i]);
    chains.push(...pieces);
  });
  const corners = [[columns, 0], [columns, rows], [0, rows], [0, 0]];
  const places = [columns, columns + rows, 2 * columns + rows, 2 * (columns + rows)]; // of the corners along the border
  const along = ([x, y]) => {
    if (y === 0 && x < columns) return x;
    if (x === columns && y < rows) return columns + y;
    return y === rows && x > 0 ? 2 * columns + rows - x : places[3] - y;
  };
  /** The direction from a point of the border to one inside: 0 is counterclockwise along the border. */
  const direction = (from, to) => {
    const border = (Math.PI / 2) * places.findIndex((place) => along(from) < place);
    return (Math.atan2(to[1] - from[1], to[0] - from[0]) - border + 4 * Math.PI) % (2 * Math.PI);
  };
  const starts = new Map(chains.map((chain) => [chain, { place: along(chain[0]), angle: direction(chain[0], chain[1]) }]));
  const shells = [];
  if (!chains.length) {
    const [x, y] = [columns / 2, rows / 2];
    if (cut.every(([ring, i]) => locate(ring, x, y) === (i ? -1 : 1))) shells.push(flat([[0, 0], ...corners]));
  }
  const waiting = new Set(chains);
  for (const first of chains) {
    if (!waiting.has(first)) continue;
    const points = [];
    let chain = first;
    while (waiting.delete(chain)) {
      points.push(...chain);
      const [end, arrived] = [along(chain.at(-1)), direction(chain.at(-1), chain.at(-2))];
      const far = (one) => { // along the border, and which of those that begin there comes first
        const { place, angle } = starts.get(one);
        if (place === end) return [angle < arrived ? 0 : places[3], angle];
        return [(place - end + places[3]) % places[3], angle];
      };
      const nearer = ([way, angle], [other, otherAngle]) => way < other || (way === other && angle > otherAngle);
      const next = chains.reduce((best, one) => (nearer(far(one), far(best)) ? one : best));
      const [way] = far(next);
      for (const lap of [0, places[3]]) {
        corners.forEach((corner, i) => {
          const there = places[i] + lap - end;
          if (there > 0 && there < way) points.push(corner);
        });
      }
      chain = next;
    }
    if (chain !== first) return []; // which the area then shows
    for (const loop of loopsOf(points)) (twiceArea(loop) > 0 ? shells : holes).push(loop);
  }
  const parts = shells.map((shell) => [shell]);
  for (const hole of holes) parts.find(([shell]) => locateRing(shell, hole) === 1)?.push(hole);
  return parts;
}

/** Rings that do not pass a point twice, from one that may; without those that enclose nothing. */
function loopsOf(points) {
  const [loops, path, places] = [[], [], new Map()];
  for (const point of points) {
    const key = `${point}`;
    if (places.has(key)) {
      const loop = path.splice(places.get(key));
      for (const one of loop) places.delete(`${one}`);
      loops.push([...loop, point]);
    }
    places.set(key, path.length);
    path.push(point);
  }
  loops.push([...path, path[0]]);
  return loops.map(flat).filter((loop) => twiceArea(loop) !== 0);
}

function backwards(ring) {
  const turned = new Float64Array(ring.length);
  for (let i = 0; i < ring.length; i += 2) turned.set(ring.subarray(i, i + 2), ring.length - 2 - i);
  return turned;
}

/** The corners of the part of a ring on one side of a line, below it if `sign` is 1 and above if it is -1. Where that is in
 *  several pieces, sides along the line join them. */
export function cutAlong(points, axis, limit, sign) {
  const inside = (point) => sign * (point[axis] - limit) <= 0;
  return points.flatMap((point, i) => {
    const before = points.at(i - 1);
    if (inside(point) === inside(before)) return inside(point) ? [point] : [];
    const at = meeting(before[axis], before[1 - axis], point[axis], point[1 - axis], limit);
    const met = axis === 0 ? [limit, at] : [at, limit];
    return inside(point) ? [met, point] : [met];
  });
}

/** The area of a ring within the box, by cutting it along one side of the box after the other. */
function areaWithin(ring, columns, rows) {
  let points = Array.from({ length: ring.length / 2 - 1 }, (_, i) => [ring[2 * i], ring[2 * i + 1]]);
  for (const [axis, limit, sign] of [[0, 0, -1], [0, columns, 1], [1, 0, -1], [1, rows, 1]]) {
    points = cutAlong(points, axis, limit, sign);
  }
  return points.length ? Math.abs(twiceArea(flat([...points, points[0]]))) / 2 : 0;
}
