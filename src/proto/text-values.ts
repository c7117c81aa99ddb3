/** text_encoding.py, _MakeStrEscapes: the characters that do not stand for themselves and have a short escape. */
const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\t", "\\t"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ['"', '\\"'],
  ["'", "\\'"],
  ["\\", "\\\\"],
]);

/** How each byte is printed: printable ASCII as it is, or escaped, the rest as three octal digits. */
const BYTE_ESCAPES: readonly Uint8Array[] = Array.from({ length: 256 }, (_, byte) =>
  Uint8Array.from(escapeByte(byte), (character) => character.charCodeAt(0)),
);
const LONGEST_ESCAPE = 4;
/** Bytes that are escaped at a time, so that the text is joined from a few long pieces. */
const BYTES_PER_PIECE = 16_384;

const ASCII = new TextDecoder();

/** Decimal digits that every float has; type_checkers.py, ToShortestFloat. */
const FLOAT_DIGITS = 6;
/** Digits that tell every float from its neighbours: FLT_DECIMAL_DIG of C. */
const MAX_FLOAT_DIGITS = 9;

/** Formats the value of a string field as Python does: what is beyond ASCII is left as it is. */
export function formatString(value: string): string {
  const escaped = value.replace(/[^ !#-&(-[\]-~]/g, (character) =>
    character < "\x80" ? escapeByte(character.charCodeAt(0)) : character,
  );
  return `"${escaped}"`;
}

/** Formats the value of a bytes field as Python does, in pieces that are to be joined. */
export function* formatBytes(value: Uint8Array): Generator<string> {
  yield '"';
  const escaped = new Uint8Array(Math.min(value.length, BYTES_PER_PIECE) * LONGEST_ESCAPE);
  for (let start = 0; start < value.length; start += BYTES_PER_PIECE) {
    let length = 0;
    for (const byte of value.subarray(start, start + BYTES_PER_PIECE)) {
      for (const code of BYTE_ESCAPES[byte] as Uint8Array) escaped[length++] = code;
    }
    yield ASCII.decode(escaped.subarray(0, length));
  }
  yield '"';
}

/** Formats a double as Python's `repr`: as few digits as tell it apart, with an exponent from 1e16 and below 1e-4. */
export function formatDouble(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  const [mantissa = "", power = ""] = value.toExponential().split("e");
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const digits = mantissa.replace(/[-.]/g, "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const width = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits.slice(0, 1)}${fraction}e${exponent < 0 ? "-" : "+"}${width}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

/** Formats a float with as few digits as tell it from the other floats, but not fewer than six where they count. */
export function formatFloat(value: number): string {
  const float = Math.fround(value);
  if (float === 0 || !Number.isFinite(float)) return formatDouble(float);
  for (let digits = FLOAT_DIGITS; digits < MAX_FLOAT_DIGITS; digits++) {
    if (Math.fround(Number(float.toPrecision(digits))) === float) return formatDouble(roundHalfEven(float, digits));
  }
  return formatDouble(Number(float.toPrecision(MAX_FLOAT_DIGITS)));
}

/** Rounds to decimal digits as Python does: a half goes to the even digit, where JavaScript takes the larger. */
function roundHalfEven(value: number, digits: number): number {
  const longer = value.toExponential(digits); // with one digit more than asked for
  const [mantissa = "", power = ""] = longer.split("e");
  const isHalf = mantissa.endsWith("5") && Number(longer) === value;
  return Number(isHalf && /[02468]5$/.test(mantissa) ? `${mantissa.slice(0, -1)}e${power}` : value.toPrecision(digits));
}

function escapeByte(byte: number): string {
  const character = String.fromCharCode(byte);
  const short = SHORT_ESCAPES.get(character);
  if (short !== undefined) return short;
  return byte >= 0x20 && byte < 0x7f ? character : `\\${byte.toString(8).padStart(3, "0")}`;
}
