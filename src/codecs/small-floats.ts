/**
 * Floating point numbers of one and two bytes, decoded to JavaScript's.
 * Sources: IEEE 754-2008 binary16; bfloat16 is the upper half of binary32; OCP 8-bit Floating Point Specification for
 * E5M2 (with infinities) and E4M3FN (without, NaN is all ones); the FNUZ types as "8-bit Numerical Formats for Deep Neural
 * Networks" (arXiv 2206.02915) has them: neither infinities nor a negative zero, whose bits are NaN, and a bias one larger;
 * E8M0 as the OCP Microscaling Formats (MX) Specification: a power of two, without sign.
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

/** The number that the 8 bits of a float8_e4m3fnuz stand for. */
export function decodeFloat8E4m3fnuz(bits: number): number {
  return decodeFnuz(bits, 4, 3);
}

/** The number that the 8 bits of a float8_e5m2fnuz stand for. */
export function decodeFloat8E5m2fnuz(bits: number): number {
  return decodeFnuz(bits, 5, 2);
}

/** The number that the 8 bits of a float8_e8m0fnu stand for. */
export function decodeFloat8E8m0fnu(bits: number): number {
  return bits === 0xff ? Number.NaN : 2 ** (bits - 127);
}

function decodeFnuz(bits: number, exponentBits: number, fractionBits: number): number {
  if (bits === 0x80) return Number.NaN;
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits & 0x7f) >> fractionBits;
  const fraction = (bits & ((1 << fractionBits) - 1)) / (1 << fractionBits);
  const bias = 1 << (exponentBits - 1);
  return sign * (exponent === 0 ? fraction * 2 : 1 + fraction) * 2 ** (exponent - bias);
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

/** The bits of the bfloat16 nearest to a number, ties to even; NaN stays one. */
export function encodeBfloat16(value: number): number {
  float32[0] = value;
  const bits = float32Bits[0] as number;
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return (roundAwayDouble(value, bits) + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/**
 * Rounding twice, to float32 and then to half of it, may go the wrong way when the first step lands on a tie: the bits of
 * the float32 on the side of the number itself.
 */
function roundAwayDouble(value: number, bits: number): number {
  if ((bits & 0xffff) !== 0x8000) return bits;
  const rounded = float32[0] as number;
  if (rounded === value) return bits;
  return Math.abs(value) > Math.abs(rounded) ? bits + 1 : bits - 1;
}

/** The bits of the float16 nearest to a number, ties to even; NaN stays one, what is too large becomes infinite. */
export function encodeFloat16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 2 ** -14) return sign | roundToEven(magnitude * 2 ** 24);
  const exponent = exponentOf(magnitude);
  // A carry out of the fraction is the next exponent, as it should be.
  return sign | (((exponent + 14) << 10) + roundToEven((magnitude / 2 ** exponent) * 1024));
}

/** The largest power of two that is not above a normal number, as its exponent. */
function exponentOf(magnitude: number): number {
  const exponent = Math.floor(Math.log2(magnitude));
  if (2 ** exponent > magnitude) return exponent - 1;
  return 2 ** (exponent + 1) <= magnitude ? exponent + 1 : exponent;
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
