import { ByteCursor } from "../bytes/byte-cursor.js";
import {
  decodeBfloat16,
  decodeFloat8E4m3fn,
  decodeFloat8E4m3fnuz,
  decodeFloat8E5m2,
  decodeFloat8E5m2fnuz,
  decodeFloat8E8m0fnu,
  decodeFloat16,
} from "../codecs/small-floats.js";
import { UnsupportedError } from "../errors.js";
import { type DType, elementBytes, isPacked } from "./dtype.js";

/** One element as JavaScript has it: 64-bit integers are bigints, complex numbers pairs, strings their bytes. */
export type ElementValue = number | bigint | boolean | readonly [number, number] | Uint8Array;

type Reader = (view: DataView, offset: number) => ElementValue;

const READERS: Partial<Record<DType, Reader>> = {
  float32: (view, at) => view.getFloat32(at, true),
  float64: (view, at) => view.getFloat64(at, true),
  float16: (view, at) => decodeFloat16(view.getUint16(at, true)),
  bfloat16: (view, at) => decodeBfloat16(view.getUint16(at, true)),
  float8_e5m2: (view, at) => decodeFloat8E5m2(view.getUint8(at)),
  float8_e4m3fn: (view, at) => decodeFloat8E4m3fn(view.getUint8(at)),
  float8_e4m3fnuz: (view, at) => decodeFloat8E4m3fnuz(view.getUint8(at)),
  float8_e5m2fnuz: (view, at) => decodeFloat8E5m2fnuz(view.getUint8(at)),
  float8_e8m0fnu: (view, at) => decodeFloat8E8m0fnu(view.getUint8(at)),
  int8: (view, at) => view.getInt8(at),
  qint8: (view, at) => view.getInt8(at),
  int4: (view, at) => view.getInt8(at),
  uint8: (view, at) => view.getUint8(at),
  quint8: (view, at) => view.getUint8(at),
  uint4: (view, at) => view.getUint8(at),
  int16: (view, at) => view.getInt16(at, true),
  qint16: (view, at) => view.getInt16(at, true),
  uint16: (view, at) => view.getUint16(at, true),
  quint16: (view, at) => view.getUint16(at, true),
  int32: (view, at) => view.getInt32(at, true),
  qint32: (view, at) => view.getInt32(at, true),
  uint32: (view, at) => view.getUint32(at, true),
  int64: (view, at) => view.getBigInt64(at, true),
  uint64: (view, at) => view.getBigUint64(at, true),
  bool: (view, at) => view.getUint8(at) !== 0,
  complex64: (view, at) => [view.getFloat32(at, true), view.getFloat32(at + 4, true)],
  complex128: (view, at) => [view.getFloat64(at, true), view.getFloat64(at + 8, true)],
};

/**
 * The elements of a tensor's data, in order; see `TensorSource.data` for the form of the data.
 * @throws {@link UnsupportedError} (`unsupported-dtype`) for the packed types, whose order in a byte no format tells
 */
export function* decodeElements(dtype: DType, data: Uint8Array): Iterable<ElementValue> {
  if (isPacked(dtype)) {
    throw new UnsupportedError("unsupported-dtype", `the elements of a packed ${dtype} tensor one by one`, {
      hint: "Take its bytes: --as raw.",
    });
  }
  const reader = READERS[dtype];
  if (reader === undefined) {
    const cursor = new ByteCursor(data, dtype);
    while (cursor.left > 0) yield cursor.readBytes(Number(cursor.readUint64()));
    return;
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const width = elementBytes(dtype);
  for (let at = 0; at + width <= data.length; at += width) yield reader(view, at);
}

/** One element for people: strings in quotes, with escapes for what is no text. */
export function formatElement(value: ElementValue, dtype: DType): string {
  if (value instanceof Uint8Array) return formatString(value);
  if (Array.isArray(value))
    return `${formatNumber(value[0], dtype)}${value[1] < 0 ? "" : "+"}${formatNumber(value[1], dtype)}j`;
  return typeof value === "number" ? formatNumber(value, dtype) : String(value);
}

/** Digits that are tried, from few to enough for every number of a precision. */
const DIGITS = { single: [6, 7, 8, 9], half: [2, 3, 4, 5] } as const;

/** The fewest digits that give the same number again in its own precision. */
function formatNumber(value: number, dtype: DType): string {
  if (Number.isInteger(value)) return Object.is(value, -0) ? "-0" : String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "-inf" : "inf";
  if (dtype === "float64" || dtype === "complex128") return String(value);
  const isSingle = dtype === "float32" || dtype === "complex64";
  for (const digits of isSingle ? DIGITS.single : DIGITS.half) {
    const text = Number(value.toPrecision(digits));
    if (isSingle ? Math.fround(text) === value : Math.abs(text - value) < Math.abs(value) * 2 ** -12)
      return String(text);
  }
  return String(value);
}

function formatString(bytes: Uint8Array): string {
  try {
    return JSON.stringify(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    const escaped = Array.from(bytes, (byte) =>
      byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c
        ? String.fromCharCode(byte)
        : `\\x${byte.toString(16).padStart(2, "0")}`,
    );
    return `b"${escaped.join("")}"`;
  }
}
