import { UnsupportedError } from "../errors.js";
import type { DType } from "./dtype.js";
import type { Shape } from "./shape.js";

// Source: numpy.lib.format, "Format Version 1.0" and 2.0; type strings of the array interface.
const TYPE_STRINGS: Partial<Record<DType, string>> = {
  float32: "<f4",
  float64: "<f8",
  float16: "<f2",
  int8: "|i1",
  int16: "<i2",
  int32: "<i4",
  int64: "<i8",
  uint8: "|u1",
  uint16: "<u2",
  uint32: "<u4",
  uint64: "<u8",
  bool: "|b1",
  complex64: "<c8",
  complex128: "<c16",
  qint8: "|i1",
  quint8: "|u1",
  qint16: "<i2",
  quint16: "<u2",
  qint32: "<i4",
  int4: "|i1",
  uint4: "|u1",
  // NumPy has none of these; the bytes come back as void and can be viewed as the types of the ml_dtypes package.
  bfloat16: "|V2",
  float8_e5m2: "|V1",
  float8_e4m3fn: "|V1",
  float8_e4m3fnuz: "|V1",
  float8_e5m2fnuz: "|V1",
  float8_e8m0fnu: "|V1",
};

/**
 * The header of a `.npy` file for row-major, little-endian data of a dtype with elements of one length.
 * @throws {@link UnsupportedError} (`unsupported-dtype`) for strings and the like
 */
export function encodeNpyHeader(dtype: DType, shape: Shape): Uint8Array {
  const type = TYPE_STRINGS[dtype];
  if (type === undefined) {
    throw new UnsupportedError("unsupported-dtype", `${dtype} in a .npy file`, {
      hint: "Write it with --as text or --as raw.",
    });
  }
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const isLong = text.length + 64 > 0xffff;
  const prefixLength = isLong ? 12 : 10;
  const padded = text + " ".repeat(63 - ((prefixLength + text.length) % 64));
  const header = new Uint8Array(prefixLength + padded.length + 1);
  header.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, isLong ? 2 : 1, 0]);
  const view = new DataView(header.buffer);
  if (isLong) view.setUint32(8, padded.length + 1, true);
  else view.setUint16(8, padded.length + 1, true);
  header.set(new TextEncoder().encode(`${padded}\n`), prefixLength);
  return header;
}
