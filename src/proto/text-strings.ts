import { CHAR, type TextTokenizer, TOKEN } from "./text-tokenizer.js";

/** Specification, "String Literals": what a letter behind a backslash stands for. */
const SIMPLE_ESCAPES: Uint8Array = new Uint8Array(128);
for (const [letter, byte] of [
  ["a", 7],
  ["b", 8],
  ["f", 12],
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["v", 11],
  ["?", 0x3f],
  ["\\", CHAR.backslash],
  ["'", CHAR.apostrophe],
  ['"', CHAR.quote],
] as const) {
  SIMPLE_ESCAPES[letter.charCodeAt(0)] = byte;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LONE_SURROGATE = /\p{Surrogate}/u;
const MAX_CODE_POINT = 0x10ffff;

/** Reads the values of string and bytes fields. Literals that follow each other make one value. */
export class StringReader {
  private readonly tokens: TextTokenizer;
  /** The value so far, used again for each. */
  private bytes: Uint8Array<ArrayBuffer> = new Uint8Array(256);
  private length = 0;

  /** Reads from where `tokens` stands. */
  constructor(tokens: TextTokenizer) {
    this.tokens = tokens;
  }

  /** Reads the value of a string field. @throws {@link CorruptionError} (`invalid-text`), also when it is not UTF-8 */
  readString(): string {
    const { tokens } = this;
    const { start, end, isWide } = tokens;
    this.length = 0;
    if (tokens.kind === TOKEN.string && !tokens.isEscaped) {
      tokens.next();
      if (tokens.kind !== TOKEN.string) return this.plainString(start, end, isWide);
      this.appendLiteral(start, end, isWide);
    }
    this.appendLiterals();
    try {
      return UTF8.decode(this.bytes.subarray(0, this.length));
    } catch (cause) {
      if (!(cause instanceof TypeError)) throw cause;
      throw tokens.error("string is not valid UTF-8", { at: start });
    }
  }

  /** Reads the value of a bytes field. @throws {@link CorruptionError} (`invalid-text`) */
  readBytes(): Uint8Array {
    this.length = 0;
    this.appendLiterals();
    return this.bytes.slice(0, this.length);
  }

  private plainString(start: number, end: number, isWide: boolean): string {
    const value = this.tokens.text.slice(start + 1, end - 1);
    if (isWide && LONE_SURROGATE.test(value)) throw this.tokens.error("string is not valid Unicode", { at: start });
    return value;
  }

  private appendLiterals(): void {
    const { tokens } = this;
    if (tokens.kind !== TOKEN.string) throw tokens.unexpected("a string");
    do {
      this.appendLiteral(tokens.start, tokens.end, tokens.isWide);
      tokens.next();
    } while (tokens.kind === TOKEN.string);
  }

  private appendLiteral(start: number, end: number, isWide: boolean): void {
    // A character takes at most three bytes, or six for the two of a surrogate pair; an escape is longer than its bytes.
    this.reserve((end - start) * (isWide ? 3 : 1));
    const { bytes } = this;
    const { text } = this.tokens;
    let at = start + 1;
    while (at < end - 1) {
      const code = text.charCodeAt(at);
      if (code === CHAR.backslash) {
        at = this.appendEscape(at);
      } else if (code < 0x80) {
        bytes[this.length++] = code;
        at++;
      } else {
        const point = text.codePointAt(at) as number;
        this.appendCodePoint(point, at, "string is not valid Unicode");
        at += point > 0xffff ? 2 : 1;
      }
    }
  }

  /** Appends what the escape at `at` stands for, and gives the place behind it. */
  private appendEscape(at: number): number {
    const { text } = this.tokens;
    const letter = text[at + 1] ?? "";
    const digit = octalDigit(text.charCodeAt(at + 1));
    if (digit >= 0) return this.appendOctal(at, digit);
    if (letter === "x") return this.appendHex(at);
    if (letter === "u") return this.appendUnicode(at, 4);
    if (letter === "U") return this.appendUnicode(at, 8);
    const byte = SIMPLE_ESCAPES[letter.charCodeAt(0)];
    if (!byte) throw this.tokens.error("unknown escape", { at, actual: `\\${letter}` });
    this.bytes[this.length++] = byte;
    return at + 2;
  }

  private appendOctal(at: number, first: number): number {
    const { text } = this.tokens;
    let value = first;
    let end = at + 2;
    for (let digit = octalDigit(text.charCodeAt(end)); digit >= 0 && end < at + 4; ) {
      value = value * 8 + digit;
      digit = octalDigit(text.charCodeAt(++end));
    }
    if (value > 0xff) throw this.tokens.error("octal escape is not a byte", { at, actual: text.slice(at, end) });
    this.bytes[this.length++] = value;
    return end;
  }

  private appendHex(at: number): number {
    const digits = /^[0-9a-fA-F]{1,2}/.exec(this.tokens.text.slice(at + 2, at + 4))?.[0];
    if (digits === undefined) throw this.tokens.error("hexadecimal escape without digits", { at });
    this.bytes[this.length++] = Number.parseInt(digits, 16);
    return at + 2 + digits.length;
  }

  private appendUnicode(at: number, digitCount: number): number {
    const digits = this.tokens.text.slice(at + 2, at + 2 + digitCount);
    if (digits.length < digitCount || !/^[0-9a-fA-F]+$/.test(digits)) {
      throw this.tokens.error("Unicode escape is too short", { at, expected: `${digitCount} hexadecimal digits` });
    }
    this.appendCodePoint(Number.parseInt(digits, 16), at, "Unicode escape is not a character");
    return at + 2 + digitCount;
  }

  /** Appends a character in UTF-8. Half a surrogate pair is none; specification, "String Literals", footnote. */
  private appendCodePoint(point: number, at: number, complaint: string): void {
    if (point > MAX_CODE_POINT || (point >= 0xd800 && point <= 0xdfff)) throw this.tokens.error(complaint, { at });
    const { bytes } = this;
    if (point < 0x80) {
      bytes[this.length++] = point;
      return;
    }
    const tailLength = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    bytes[this.length++] = ((0xf00 >> (tailLength + 1)) & 0xff) | (point >> (6 * tailLength));
    for (let shift = 6 * (tailLength - 1); shift >= 0; shift -= 6) {
      bytes[this.length++] = 0x80 | ((point >> shift) & 0x3f);
    }
  }

  private reserve(length: number): void {
    const needed = this.length + length;
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }
}

function octalDigit(code: number): number {
  return code >= CHAR.zero && code < CHAR.zero + 8 ? code - CHAR.zero : -1;
}
