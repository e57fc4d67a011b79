// The numbers of a release in a page, sorted by the places of their bytes, compressed, and written in base64: see
// dqam/explorer/packing.py.

/** Arrays by name; `arrays` says in order how each is called, how many numbers it has, and the exponent of its unit if these
 *  are whole numbers of it instead of floats. */
export async function unpack({ arrays, numbers }) {
  if (!globalThis.DecompressionStream) throw new Error("This browser is too old for this page. Use one of 2023 or later.");
  const text = atob(numbers);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const opened = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const sorted = new Uint8Array(await new Response(opened).arrayBuffer());
  const found = {};
  let start = 0;
  for (const [name, count, unit] of arrays) {
    const bytes = new Uint8Array(8 * count);
    for (let place = 0; place < 8; place++) {
      const plane = sorted.subarray(start + place * count, start + (place + 1) * count);
      for (let i = 0; i < count; i++) bytes[8 * i + place] = plane[i];
    }
    start += 8 * count;
    found[name] = unit === null ? new Float64Array(bytes.buffer) : multiples(bytes.buffer, 2 ** unit);
  }
  return found;
}

/** Floats from whole numbers of 64 bits, which are so small that all of them are floats. */
function multiples(memory, unit) {
  const [low, high] = [new Uint32Array(memory), new Int32Array(memory)];
  return new Float64Array(low.length / 2).map((_, i) => (high[2 * i + 1] * 2 ** 32 + low[2 * i]) * unit);
}

/** Floats moved by so many units in the last place, which are whole numbers of 64 bits in the memory of `steps`. */
export function shifted(values, steps) {
  const [bits, by] = [new BigInt64Array(values.buffer), new BigInt64Array(steps.buffer)];
  for (let i = 0; i < bits.length; i++) if (by[i]) bits[i] += by[i];
  return values;
}
