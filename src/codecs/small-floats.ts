/**
 * Floating point numbers of one and two bytes, decoded to JavaScript's.
 * Sources: IEEE 754-2008 binary16; bfloat16 is the upper half of binary32; OCP 8-bit Floating Point Specification for
 * E5M2 (with infinities) and E4M3FN (without, NaN is all ones).
 */

/** The number that the 16 bits of a float16 stand for. */
export function decodeFloat16(bits: number): number {
  return decode(bits, 5, 10, "infinities");
}

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);

/** The number that the 16 bits of a bfloat16 stand for. */
export function decodeBfloat16(bits: number): number {
  float32Bits[0] = bits << 16;
  return float32[0] as number;
}

/** The number that the 8 bits of a float8_e5m2 stand for. */
export function decodeFloat8E5m2(bits: number): number {
  return decode(bits, 5, 2, "infinities");
}

/** The number that the 8 bits of a float8_e4m3fn stand for. */
export function decodeFloat8E4m3fn(bits: number): number {
  return decode(bits, 4, 3, "finite");
}

function decode(bits: number, exponentBits: number, fractionBits: number, kind: "infinities" | "finite"): number {
  const sign = bits & (1 << (exponentBits + fractionBits)) ? -1 : 1;
  const exponent = (bits >> fractionBits) & ((1 << exponentBits) - 1);
  const fraction = bits & ((1 << fractionBits) - 1);
  const bias = (1 << (exponentBits - 1)) - 1;
  const allOnes = exponent === (1 << exponentBits) - 1;
  if (allOnes && kind === "infinities") return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (allOnes && fraction === (1 << fractionBits) - 1) return Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (1 + fraction / (1 << fractionBits)) * 2 ** (exponent - bias);
}
