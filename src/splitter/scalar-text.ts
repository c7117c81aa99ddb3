import { ScalarType } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { encodeVarint64 } from "../codecs/varint.js";
import { CorruptionError } from "../errors.js";
import { type FieldRule, wireTypeOf } from "../proto/message-rules.js";

/** The longest text of a number that is looked at, in bytes. */
const MAX_TEXT_BYTES = 400;

/**
 * A scalar as TensorFlow's splitter format stores it in a chunk, in decimal text, as it stands on the wire. Enums are
 * given by the name of their value, bools as `true` or `false`.
 * Source: tensorflow/tools/proto_splitter/cc/util.cc, SetScalarFieldFromString (behaviour measured, formats/cpb).
 * @throws {@link CorruptionError} (`chunk-value`)
 */
export async function encodeScalarText(
  rule: FieldRule,
  chunk: ByteSource,
  file: string,
  path: string,
): Promise<{ wireType: number; value: Uint8Array }> {
  const bytes = await chunk.read(0, Math.min(chunk.size, MAX_TEXT_BYTES));
  const text = new TextDecoder().decode(bytes);
  const value = chunk.size > MAX_TEXT_BYTES ? undefined : encode(rule, text);
  if (value !== undefined) return { wireType: wireTypeOf(rule), value };
  throw new CorruptionError("chunk-value", `value of ${path}`, {
    file,
    expected: rule.kind === "enum" ? `the name of a ${rule.enum?.typeName}` : `text of a ${rule.kind}`,
    actual: JSON.stringify(text.slice(0, 40)),
  });
}

function encode(rule: FieldRule, text: string): Uint8Array | undefined {
  if (rule.kind === "bool") return text === "true" ? Uint8Array.of(1) : text === "false" ? Uint8Array.of(0) : undefined;
  if (rule.kind === "enum") {
    const number = rule.enum?.values.find(({ name }) => name === text)?.number;
    return number === undefined ? undefined : encodeVarint64(BigInt(number));
  }
  if (rule.scalar === ScalarType.DOUBLE || rule.scalar === ScalarType.FLOAT) return encodeFloat(rule.scalar, text);
  return /^\s*[+-]?\d+$/.test(text) ? encodeInteger(rule.scalar, BigInt(text.replace("+", ""))) : undefined;
}

function encodeFloat(scalar: ScalarType, text: string): Uint8Array | undefined {
  const words: Record<string, number> = {
    inf: Number.POSITIVE_INFINITY,
    "-inf": Number.NEGATIVE_INFINITY,
    nan: Number.NaN,
  };
  const number = words[text.toLowerCase()] ?? (/^\s*[+-]?(\d|\.\d)/.test(text) ? Number(text) : Number.NaN);
  if (Number.isNaN(number) && text.toLowerCase() !== "nan") return undefined;
  const view = new DataView(new ArrayBuffer(scalar === ScalarType.DOUBLE ? 8 : 4));
  if (scalar === ScalarType.DOUBLE) view.setFloat64(0, number, true);
  else view.setFloat32(0, number, true);
  return new Uint8Array(view.buffer);
}

function encodeInteger(scalar: ScalarType | undefined, value: bigint): Uint8Array | undefined {
  const fits = (bits: number, signed: boolean) =>
    (signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)) === value;
  switch (scalar) {
    case ScalarType.INT32:
      return fits(32, true) ? encodeVarint64(value) : undefined;
    case ScalarType.INT64:
      return fits(64, true) ? encodeVarint64(value) : undefined;
    case ScalarType.UINT32:
      return fits(32, false) ? encodeVarint64(value) : undefined;
    case ScalarType.UINT64:
      return fits(64, false) ? encodeVarint64(value) : undefined;
    case ScalarType.SINT32:
      return fits(32, true) ? encodeVarint64(zigzag(value)) : undefined;
    case ScalarType.SINT64:
      return fits(64, true) ? encodeVarint64(zigzag(value)) : undefined;
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return fits(32, scalar === ScalarType.SFIXED32) ? littleEndian(value, 4) : undefined;
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return fits(64, scalar === ScalarType.SFIXED64) ? littleEndian(value, 8) : undefined;
    default:
      return undefined;
  }
}

function zigzag(value: bigint): bigint {
  return value < 0n ? -value * 2n - 1n : value * 2n;
}

function littleEndian(value: bigint, length: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt.asUintN(64, value), true);
  return new Uint8Array(view.buffer).slice(0, length);
}
