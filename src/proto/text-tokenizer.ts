import { CorruptionError, LimitError } from "../errors.js";
import { characterLength, placeOf, quoteText } from "./text-place.js";

/** Kinds of token that are not a single character; a punctuation token has its character code as kind. */
export const TOKEN = {
  end: 0,
  identifier: 1,
  string: 2,
  decimal: 3,
  octal: 4,
  hexadecimal: 5,
  float: 6,
} as const;

/** Character codes that the grammar gives a meaning; those of punctuation are token kinds too. */
export const CHAR = {
  newline: 0x0a,
  quote: 0x22,
  hash: 0x23,
  apostrophe: 0x27,
  comma: 0x2c,
  minus: 0x2d,
  dot: 0x2e,
  slash: 0x2f,
  zero: 0x30,
  colon: 0x3a,
  semicolon: 0x3b,
  less: 0x3c,
  greater: 0x3e,
  openBracket: 0x5b,
  backslash: 0x5c,
  closeBracket: 0x5d,
  e: 0x65,
  f: 0x66,
  x: 0x78,
  openBrace: 0x7b,
  closeBrace: 0x7d,
} as const;

const LETTER = 1;
const DIGIT = 2;
const OCTAL_DIGIT = 4;
const HEX_DIGIT = 8;
const SPACE = 16;
const PUNCTUATION = 32;
/** What stands between the brackets of a type URL beside letters and digits; text_format.cc, set_report_url_chars. */
const URL_MARK = 64;

const CLASSES: Uint8Array = new Uint8Array(128);
for (const [characters, flag] of [
  ["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", LETTER],
  ["0123456789", DIGIT],
  ["01234567", OCTAL_DIGIT],
  ["0123456789ABCDEFabcdef", HEX_DIGIT],
  [" \t\n\v\f\r", SPACE],
  ["{}<>[]:,;-", PUNCTUATION],
  [".-/~%!$&()*+,;=", URL_MARK],
] as const) {
  for (const character of characters) CLASSES[character.charCodeAt(0)] = (CLASSES[character.charCodeAt(0)] ?? 0) | flag;
}

/**
 * Splits a text-format protobuf into tokens, one at a time and without copies: the current token is `text` from
 * `start` to `end`. The grammar is that of the Text Format Language Specification, "Lexical Elements".
 */
export class TextTokenizer {
  readonly text: string;
  readonly file: string | undefined;
  /** Kind of the current token: one of {@link TOKEN}, or the code of a punctuation character. */
  kind: number = TOKEN.end;
  /** Place of the current token's first character. */
  start = 0;
  /** Place behind the current token's last character. */
  end = 0;
  /** Whether the current string token has a backslash in it. */
  isEscaped = false;
  /** Whether the current string token has characters beyond ASCII in it. */
  isWide = false;

  /** Stands on the first token of `text`. @throws {@link CorruptionError} (`invalid-text`) */
  constructor(text: string, file: string | undefined) {
    this.text = text;
    this.file = file;
    if (text.charCodeAt(0) === 0xfeff) this.end = 1; // a byte order mark
    this.next();
  }

  /** Moves on to the next token. @throws {@link CorruptionError} (`invalid-text`) when there is none of the grammar */
  next(): void {
    const start = this.skipSpace(this.end);
    this.start = start;
    if (start >= this.text.length) {
      this.kind = TOKEN.end;
      this.end = start;
      return;
    }
    const code = this.text.charCodeAt(start);
    const flags = this.flagsAt(start);
    if ((flags & LETTER) !== 0) {
      this.kind = TOKEN.identifier;
      this.end = this.skipClass(start + 1, LETTER | DIGIT);
    } else if (code === CHAR.quote || code === CHAR.apostrophe) {
      this.kind = TOKEN.string;
      this.end = this.scanString(start, code);
    } else if ((flags & DIGIT) !== 0 || (code === CHAR.dot && (this.flagsAt(start + 1) & DIGIT) !== 0)) {
      this.end = this.scanNumber(start);
    } else if ((flags & PUNCTUATION) !== 0) {
      this.kind = code;
      this.end = start + 1;
    } else {
      throw this.error("unexpected character", {
        actual: this.quote(start, start + characterLength(this.text, start)),
      });
    }
  }

  /** Moves on when the current token is of `kind`, and tells whether it was. */
  accept(kind: number): boolean {
    if (this.kind !== kind) return false;
    this.next();
    return true;
  }

  /** The text of the current token. */
  slice(): string {
    return this.text.slice(this.start, this.end);
  }

  /**
   * The name between brackets, with the current token as the opening one: of an extension, or the type URL of an
   * expanded `google.protobuf.Any`, without the space in it. Moves on behind the closing bracket.
   */
  readBracketedName(): string {
    let name = "";
    let position = this.skipSpace(this.end);
    while (this.text.charCodeAt(position) !== CHAR.closeBracket) {
      const start = position;
      position = this.skipClass(start, LETTER | DIGIT | URL_MARK);
      if (position === start) {
        const actual = start < this.text.length ? this.quote(start, start + 1) : "end of text";
        throw this.error("bad name in brackets", { at: start, expected: 'a name and "]"', actual });
      }
      name += this.text.slice(start, position);
      position = this.skipSpace(position);
    }
    this.end = position + 1;
    this.next();
    return name;
  }

  /** The error of a text that breaks a rule at `at`, by default at the current token. */
  error(what: string, details: { at?: number; expected?: string; actual?: string } = {}): CorruptionError {
    const { at = this.start, ...rest } = details;
    const { line, column, offset } = placeOf(this.text, at);
    return new CorruptionError("invalid-text", `${line}:${column}: ${what}`, { file: this.file, offset, ...rest });
  }

  /** The error of a current token that leads over a limit. */
  limitError(what: string, limit: number): LimitError {
    const { line, column, offset } = placeOf(this.text, this.start);
    const expected = `at most ${limit}`;
    return new LimitError("limit", `${line}:${column}: ${what}`, { file: this.file, offset, expected });
  }

  /** The error of a current token that is not the `expected` one. */
  unexpected(expected: string): CorruptionError {
    return this.error("unexpected token", { expected, actual: this.describe() });
  }

  private describe(): string {
    return this.kind === TOKEN.end ? "end of text" : this.quote(this.start, this.end);
  }

  private quote(start: number, end: number): string {
    return quoteText(this.text.slice(start, end));
  }

  private flagsAt(position: number): number {
    return CLASSES[this.text.charCodeAt(position)] ?? 0;
  }

  private skipClass(position: number, flags: number): number {
    const { text } = this;
    while (((CLASSES[text.charCodeAt(position)] ?? 0) & flags) !== 0) position++;
    return position;
  }

  private skipSpace(position: number): number {
    for (;;) {
      position = this.skipClass(position, SPACE);
      if (this.text.charCodeAt(position) !== CHAR.hash) return position;
      const newline = this.text.indexOf("\n", position);
      position = newline < 0 ? this.text.length : newline;
    }
  }

  /** Finds the end of a string literal; whether its escapes mean something is for the reader of its value. */
  private scanString(start: number, quote: number): number {
    const { text } = this;
    let all = 0;
    this.isEscaped = false;
    for (let position = start + 1; position < text.length; position++) {
      const code = text.charCodeAt(position);
      if (code === quote) {
        this.isWide = all >= 0x80;
        return position + 1;
      }
      if (code === CHAR.backslash) {
        this.isEscaped = true;
        if (text.charCodeAt(position + 1) !== CHAR.newline) position++; // what is escaped can be the quote
      } else if (code === CHAR.newline) {
        break;
      } else if (code === 0) {
        throw this.error("NUL in a string", { at: position });
      }
      all |= code;
    }
    throw this.error("string does not end on its line");
  }

  private scanNumber(start: number): number {
    const end = this.text.charCodeAt(start) === CHAR.zero ? this.scanFromZero(start) : this.scanDecimal(start);
    // Specification, "Parsing Overview": no identifier right behind a number. A digit or dot there is of no number.
    if ((this.flagsAt(end) & (LETTER | DIGIT)) !== 0 || this.text.charCodeAt(end) === CHAR.dot) {
      throw this.error("malformed number", { actual: this.quote(start, end + 1) });
    }
    return end;
  }

  private scanFromZero(start: number): number {
    if (this.isLetter(start + 1, CHAR.x)) {
      this.kind = TOKEN.hexadecimal;
      const end = this.skipClass(start + 2, HEX_DIGIT);
      if (end === start + 2) throw this.error("hexadecimal number without digits");
      return end;
    }
    if ((this.flagsAt(start + 1) & DIGIT) === 0) return this.scanDecimal(start);
    this.kind = TOKEN.octal;
    return this.skipClass(start + 1, OCTAL_DIGIT);
  }

  private scanDecimal(start: number): number {
    let end = this.skipClass(start, DIGIT);
    this.kind = TOKEN.decimal;
    if (this.text.charCodeAt(end) === CHAR.dot) {
      this.kind = TOKEN.float;
      end = this.skipClass(end + 1, DIGIT);
    }
    if (this.isLetter(end, CHAR.e)) {
      this.kind = TOKEN.float;
      const sign = this.text[end + 1];
      const digits = sign === "+" || sign === "-" ? end + 2 : end + 1;
      end = this.skipClass(digits, DIGIT);
      if (end === digits) throw this.error("exponent without digits");
    }
    if (this.isLetter(end, CHAR.f)) {
      this.kind = TOKEN.float;
      end++;
    }
    return end;
  }

  /** Whether `letter`, given in lower case, stands at `position` in either case. */
  private isLetter(position: number, letter: number): boolean {
    return (this.text.charCodeAt(position) | 0x20) === letter;
  }
}
