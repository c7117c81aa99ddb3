import { CHAR, type TextTokenizer, TOKEN } from "./text-tokenizer.js";

/** More digits than these, in the base of a token's kind, are more than 64 bits; zeros in front do not count. */
const MAX_DIGITS: Readonly<Record<number, number>> = {
  [TOKEN.decimal]: 20,
  [TOKEN.octal]: 22,
  [TOKEN.hexadecimal]: 16,
};

const NAMED_FLOATS: ReadonlyMap<string, number> = new Map([
  ["inf", Infinity],
  ["infinity", Infinity],
  ["nan", NaN],
]);

/** Reads a 32-bit integer. @throws {@link CorruptionError} (`invalid-text`) */
export function readInteger32(tokens: TextTokenizer, isSigned: boolean): number {
  const at = tokens.start;
  const value = readInteger(tokens, isSigned);
  const min = isSigned ? -(2 ** 31) : 0;
  const max = isSigned ? 2 ** 31 - 1 : 2 ** 32 - 1;
  if (typeof value === "number" && value >= min && value <= max) return value;
  throw tokens.error("integer out of range", { at, expected: `${min} to ${max}` });
}

/** Reads a 64-bit integer. @throws {@link CorruptionError} (`invalid-text`) */
export function readInteger64(tokens: TextTokenizer, isSigned: boolean): bigint {
  const at = tokens.start;
  const value = readInteger(tokens, isSigned);
  if (typeof value === "number") return BigInt(value);
  if ((isSigned ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value)) === value) return value;
  const range = isSigned ? "-2^63 to 2^63 - 1" : "0 to 2^64 - 1";
  throw tokens.error("integer out of range", { at, expected: range });
}

/** Reads a number of a float or double field, not rounded to a float. @throws {@link CorruptionError} (`invalid-text`) */
export function readFloat(tokens: TextTokenizer): number {
  const isNegative = tokens.accept(CHAR.minus);
  const value = floatOf(tokens);
  // Specification, "Value Types": octal and hexadecimal are not valid here.
  if (value === undefined) throw tokens.unexpected("a decimal number");
  tokens.next();
  return isNegative ? -value : value;
}

function floatOf(tokens: TextTokenizer): number | undefined {
  const { kind, text } = tokens;
  if (kind === TOKEN.decimal) return Number(tokens.slice());
  if (kind === TOKEN.identifier) return NAMED_FLOATS.get(tokens.slice().toLowerCase());
  if (kind !== TOKEN.float) return undefined;
  const hasSuffix = (text.charCodeAt(tokens.end - 1) | 0x20) === CHAR.f;
  return Number(text.slice(tokens.start, hasSuffix ? tokens.end - 1 : tokens.end));
}

/** Reads an integer: a number up to 2^53, beyond that a bigint, which is somewhere over 64 bits when they do not do. */
function readInteger(tokens: TextTokenizer, isSigned: boolean): number | bigint {
  const at = tokens.start;
  const isNegative = tokens.accept(CHAR.minus);
  if (isNegative && !isSigned) throw tokens.error("sign before an unsigned integer", { at });
  const magnitude = magnitudeOf(tokens);
  tokens.next();
  if (!isNegative) return magnitude;
  return typeof magnitude === "number" ? 0 - magnitude : -magnitude;
}

function magnitudeOf(tokens: TextTokenizer): number | bigint {
  const { kind, text, end } = tokens;
  if (kind !== TOKEN.decimal && kind !== TOKEN.octal && kind !== TOKEN.hexadecimal) {
    throw tokens.unexpected("an integer");
  }
  let start = kind === TOKEN.hexadecimal ? tokens.start + 2 : tokens.start;
  while (text.charCodeAt(start) === CHAR.zero && start < end - 1) start++;
  if (end - start > (MAX_DIGITS[kind] ?? 0)) return 2n ** 65n;
  const digits = text.slice(start, end);
  const value = Number.parseInt(digits, kind === TOKEN.decimal ? 10 : kind === TOKEN.octal ? 8 : 16);
  if (Number.isSafeInteger(value)) return value;
  return BigInt(kind === TOKEN.decimal ? digits : kind === TOKEN.octal ? `0o${digits}` : `0x${digits}`);
}
