// The numbers of a release in a page: float64, sorted by the places of their bytes, compressed, and written in base64.

/** Arrays by name; `arrays` are pairs of a name and a count, in order. */
export async function unpack({ arrays, numbers }) {
  const text = atob(numbers);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const opened = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const sorted = new Uint8Array(await new Response(opened).arrayBuffer());
  const found = {};
  let start = 0;
  for (const [name, count] of arrays) {
    const bytes = new Uint8Array(8 * count);
    for (let place = 0; place < 8; place++) {
      const plane = sorted.subarray(start + place * count, start + (place + 1) * count);
      for (let i = 0; i < count; i++) bytes[8 * i + place] = plane[i];
    }
    start += 8 * count;
    found[name] = new Float64Array(bytes.buffer);
  }
  return found;
}

/** Floats moved by so many units in the last place, which are whole numbers of 64 bits in the memory of `steps`. */
export function shifted(values, steps) {
  const [bits, by] = [new BigInt64Array(values.buffer), new BigInt64Array(steps.buffer)];
  for (let i = 0; i < bits.length; i++) if (by[i]) bits[i] += by[i];
  return values;
}
