// Data of the page: base64 of gzip of [length of a JSON text][the text][arrays]; see packed of html.py.

const ARRAYS = {
  u1: Uint8Array, u2: Uint16Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

class Damaged extends Error {}

function unpack(id) {
  return opened(id).catch(error => { throw new Damaged(`${id}: ${error.message}`); });
}

async function opened(id) {
  const element = byId(id);
  if (!element) throw new Error("is missing");
  const buffer = await inflated(bytesOf(element.textContent));
  const length = new DataView(buffer).getUint32(0, true);
  const start = 4 + length;
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  return JSON.parse(text, (name, value) => {
    if (!value || typeof value !== "object" || typeof value.$ !== "number") return value;
    const count = value.shape.reduce((product, size) => product * size, 1);
    let array = new ARRAYS[value.type](buffer, start + value.$, count);
    if (value.scale) array = Float64Array.from(array, whole => whole / value.scale);
    array.shape = value.shape;
    return array;
  });
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// The newest of what these pages use; a browser that has it has the rest.
const canUnpack = () => typeof DecompressionStream === "function" && Boolean(Object.hasOwn && [].findLastIndex);

// The last few trees that were unpacked, by the id of their element.
const kept = new Map();

async function tree(id) {
  const found = kept.get(id) || await unpack(id);
  kept.delete(id);
  kept.set(id, found);
  if (kept.size > 4) kept.delete(kept.keys().next().value);
  return found;
}
