// On which side of a line a point lies, and where a side meets a grid line, without rounding errors that matter.
// The same method as in dqam/geometry/orientation.py (Shewchuk, 1997): floats decide, and where they cannot, exact sums.

const ROUNDING = 2 ** -53;
const ERROR = (3 + 16 * ROUNDING) * ROUNDING;
const SPLITTER = 2 ** 27 + 1;

/** Two floats whose sum is a + b: the rounded sum, and its error. */
function exactSum(a, b) {
  const rounded = a + b;
  const part = rounded - a;
  return [rounded, a - (rounded - part) + (b - part)];
}

/** Two floats whose sum is a * b: the rounded product, and its error. */
function exactProduct(a, b) {
  const rounded = a * b;
  let scaled = SPLITTER * a;
  const aHigh = scaled - (scaled - a);
  const aLow = a - aHigh;
  scaled = SPLITTER * b;
  const bHigh = scaled - (scaled - b);
  const bLow = b - bHigh;
  return [rounded, aLow * bLow - (rounded - aHigh * bHigh - aLow * bHigh - aHigh * bLow)];
}

/** 1 if c lies to the left of the line from a to b, -1 if it lies to the right, and 0 if it lies on the line. */
export function orientation(ax, ay, bx, by, cx, cy) {
  const [left, right] = [(ax - cx) * (by - cy), (ay - cy) * (bx - cx)];
  if (Math.abs(left - right) > ERROR * (Math.abs(left) + Math.abs(right))) return left > right ? 1 : -1;
  if ((ax === cx || by === cy) && (ay === cy || bx === cx)) return 0;
  const total = []; // floats that do not overlap, in increasing order of magnitude, apart from zeros
  for (const [sign, p, q, r, s] of [[1, ax, cx, by, cy], [-1, ay, cy, bx, cx]]) {
    for (const one of exactSum(p, -q)) {
      for (const other of exactSum(r, -s)) {
        for (const term of exactProduct(sign * one, other)) {
          let carry = term;
          for (let i = 0; i < total.length; i++) [carry, total[i]] = exactSum(carry, total[i]);
          total.push(carry);
        }
      }
    }
  }
  for (let i = total.length - 1; i >= 0; i--) if (total[i] !== 0) return total[i] > 0 ? 1 : -1;
  return 0;
}

/** The y of the line from (x0, y0) to (x1, y1) at x, correct even if its ends are far away. */
export function meeting(x0, y0, x1, y1, x) {
  let [high, low] = [0, 0];
  for (const [y, [far, error]] of [[y0, exactSum(x1, -x)], [y1, exactSum(x, -x0)]]) {
    const [product, rest] = exactProduct(y, far);
    const [sum, lost] = exactSum(high, product);
    [high, low] = exactSum(sum, low + lost + rest + y * error);
  }
  const [wide, error] = exactSum(x1, -x0);
  const share = high / wide;
  const [product, rest] = exactProduct(share, wide);
  return share + (high - product - rest + low - share * error) / wide;
}
