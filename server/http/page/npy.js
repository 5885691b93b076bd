// Sources from a file: features in NumPy's .npy, or raw values whose type and shape are typed; pictures.

const TYPES = { f2: 'f16', f4: 'f32', f8: 'f64', i1: 'i8', i2: 'i16', i4: 'i32', i8: 'i64', u1: 'u8', u2: 'u16', u4: 'u32', u8: 'u64', b1: 'boolean' };
const BYTES = { f16: 2, bf16: 2, f32: 4, f64: 8, i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8, boolean: 1 };

function base64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** {name, data} of a chosen picture. */
export async function readPicture(file) {
  return { name: file.name, data: base64(new Uint8Array(await file.arrayBuffer())) };
}

/** A Tensor of the API. Throws Error that says what is wrong with the file. */
export function tensorOfNpy(buffer) {
  const bytes = new Uint8Array(buffer);
  const magic = String.fromCharCode(...bytes.subarray(1, 6));
  if (bytes[0] !== 0x93 || magic !== 'NUMPY') throw new Error('is not a .npy file; give raw values a type and a shape');
  const view = new DataView(buffer);
  const wide = bytes[6] > 1;
  const begin = wide ? 12 : 10;
  const end = begin + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder('latin1').decode(bytes.subarray(begin, end));
  const [, order, code] = /'descr':\s*'([<>|=])([a-z]\d)'/.exec(header) ?? [];
  const dtype = TYPES[code];
  if (!dtype || order === '>') throw new Error(`holds values of a type that is not taken; taken are ${Object.values(TYPES).join(', ')}, little-endian`);
  if (/'fortran_order':\s*True/.test(header)) throw new Error('is in Fortran order; save numpy.ascontiguousarray(array)');
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? '').split(',').map((one) => one.trim()).filter(Boolean).map(Number);
  return tensorOf(bytes.subarray(end), dtype, shape);
}

export function tensorOf(bytes, dtype, shape) {
  const wanted = shape.reduce((product, extent) => product * extent, BYTES[dtype]);
  if (wanted !== bytes.length) {
    throw new Error(`has ${bytes.length} bytes of values; ${dtype} [${shape.join(', ')}] takes ${wanted}`);
  }
  return { dtype, shape: shape.map(String), data: base64(bytes) };
}

/** {name, isRaw, tensor} of a chosen file; `dtype` and `shape` (text) are of raw values. */
export async function readFeatures(file, dtype, shape) {
  const buffer = await file.arrayBuffer();
  const raw = shape.trim() !== '';
  const extents = shape.split(/[\s,x]+/).filter(Boolean).map(Number);
  if (raw && !extents.every((extent) => Number.isInteger(extent) && extent >= 0)) throw new Error('needs a shape of whole numbers, such as 120, 40');
  return { name: file.name, isRaw: raw, tensor: raw ? tensorOf(new Uint8Array(buffer), dtype, extents) : tensorOfNpy(buffer) };
}
