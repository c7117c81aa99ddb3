import { CorruptionError, LimitError } from "../../errors.js";
import { MAX_JSON_DEPTH, MAX_OFFSET } from "../../limits.js";

/** A run of a string without escapes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters end a string, since JSON has none there
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WHOLE = /^\d+$/;
/** Any surrogate: most strings have none. */
const SURROGATE = /[\ud800-\udfff]/;
/** Keys of an object that are kept as a list. */
const FEW_KEYS = 8;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/**
 * Reads JSON that comes from elsewhere, value by value, as the caller expects them. Unlike `JSON.parse` it refuses keys
 * that stand twice in an object, keeps integers exact, and names the byte of the file where the text goes wrong.
 */
export class JsonReader {
  private readonly text: string;
  private readonly file: string;
  private readonly base: number;
  private position = 0;

  /**
   * Reads UTF-8 text that begins at `base` of `file`.
   * @throws {@link CorruptionError} (`invalid-json`) when it is no UTF-8
   */
  constructor(bytes: Uint8Array, file: string, base: number) {
    this.file = file;
    this.base = base;
    try {
      this.text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch (cause) {
      throw new CorruptionError("invalid-json", "the text is not UTF-8", { file, offset: base, cause });
    }
  }

  /** Whether the value here is an object. */
  get isAtObject(): boolean {
    return this.peek() === "{";
  }

  /** Whether the value here is a string. */
  get isAtString(): boolean {
    return this.peek() === '"';
  }

  /** Whether the value here is a whole number of 0 or more. */
  get isAtInteger(): boolean {
    this.skipSpace();
    NUMBER.lastIndex = this.position;
    return /^\d+$/.test(NUMBER.exec(this.text)?.[0] ?? "");
  }

  /**
   * Reads an object: `visit` is called with each key and has to read its value.
   * @throws {@link CorruptionError} (`invalid-json`), also for a key that stands twice
   */
  readObject(visit: (key: string) => void): void {
    // Most objects have a handful of keys, for which a list is faster.
    const few: string[] = [];
    let many: Set<string> | undefined;
    this.readList("{", "}", () => {
      this.skipSpace();
      const start = this.position;
      const key = this.readString();
      if (many === undefined ? few.includes(key) : many.has(key)) {
        throw this.wrong(`the key ${JSON.stringify(key)} stands twice`, start);
      }
      if (many !== undefined) many.add(key);
      else if (few.push(key) > FEW_KEYS) many = new Set(few);
      this.expect(":");
      visit(key);
    });
  }

  /** Reads an array: `visit` has to read each of its values. */
  readArray(visit: (index: number) => void): void {
    let index = 0;
    this.readList("[", "]", () => visit(index++));
  }

  /** Reads a string. */
  readString(): string {
    this.expect('"');
    const start = this.position;
    this.skip(PLAIN);
    let value = this.text.slice(start, this.position);
    for (let next = this.text[this.position++]; next !== '"'; next = this.text[this.position++]) {
      if (next !== "\\") throw this.wrong("the string does not end", this.position - 1);
      value += this.readEscape() + this.match(PLAIN);
    }
    if (!isWellFormed(value)) throw this.wrong("half of a surrogate pair");
    return value;
  }

  /**
   * Reads an integer of 0 or more.
   * @throws {@link LimitError} (`limit`) above 2^53 - 1
   */
  readInteger(): number {
    this.skipSpace();
    const start = this.position;
    const text = this.match(NUMBER);
    if (text === "" || !WHOLE.test(text)) throw this.wrong("no whole number of 0 or more", start);
    const value = Number(text);
    if (value <= MAX_OFFSET) return value;
    throw new LimitError("limit", "a number", {
      ...this.place(start),
      expected: `at most ${MAX_OFFSET}`,
      actual: text,
    });
  }

  /** Reads `null` when it is here, and tells whether it was. */
  readNull(): boolean {
    if (this.peek() !== "n") return false;
    this.readWord("null");
    return true;
  }

  /**
   * Reads over any value.
   * @throws {@link LimitError} (`limit`) when it is nested too deeply
   */
  skipValue(depth = 0): void {
    if (depth >= MAX_JSON_DEPTH) {
      throw new LimitError("limit", "nesting of JSON", { ...this.place(), expected: `at most ${MAX_JSON_DEPTH}` });
    }
    const next = this.peek();
    if (next === "{") this.readObject(() => this.skipValue(depth + 1));
    else if (next === "[") this.readArray(() => this.skipValue(depth + 1));
    else if (next === '"') this.readString();
    else if (next === "t") this.readWord("true");
    else if (next === "f") this.readWord("false");
    else if (next === "n") this.readWord("null");
    else if (this.match(NUMBER) === "") throw this.wrong("no JSON value");
  }

  /** Checks that nothing but space is left. */
  readEnd(): void {
    if (this.peek() !== "") throw this.wrong("something stands behind the JSON");
  }

  /** The error that says what is wrong here, or at `position` of the text. */
  wrong(what: string, position: number = this.position): CorruptionError {
    return new CorruptionError("invalid-json", `${what}: invalid JSON`, this.place(position));
  }

  private readList(open: string, close: string, readItem: () => void): void {
    this.expect(open);
    if (this.peek() === close) {
      this.position++;
      return;
    }
    for (;;) {
      readItem();
      const next = this.peek();
      if (next !== "," && next !== close) throw this.wrong(`no "," or "${close}"`);
      this.position++;
      if (next === close) return;
    }
  }

  private readEscape(): string {
    const kind = this.text[this.position++] ?? "";
    if (kind !== "u") {
      const character = ESCAPES[kind];
      if (character === undefined) throw this.wrong("an unknown escape", this.position - 1);
      return character;
    }
    const digits = this.text.slice(this.position, this.position + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.wrong("an unknown escape");
    this.position += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  private readWord(word: string): void {
    if (!this.text.startsWith(word, this.position)) throw this.wrong("no JSON value");
    this.position += word.length;
  }

  private expect(character: string): void {
    if (this.peek() !== character) throw this.wrong(`no ${character}`);
    this.position++;
  }

  /** The next character that is no space, which is not read; empty at the end. */
  private peek(): string {
    this.skipSpace();
    return this.text[this.position] ?? "";
  }

  /** Source: RFC 8259, section 2, `ws`. */
  private skipSpace(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.position);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.position++;
    }
  }

  /** Goes behind what a pattern matches here, if anything. */
  private skip(pattern: RegExp): void {
    pattern.lastIndex = this.position;
    if (pattern.test(this.text)) this.position = pattern.lastIndex;
  }

  private match(pattern: RegExp): string {
    const start = this.position;
    this.skip(pattern);
    return this.text.slice(start, this.position);
  }

  private place(position = this.position): { file: string; offset: number } {
    return { file: this.file, offset: this.base + new TextEncoder().encode(this.text.slice(0, position)).length };
  }
}

/** Whether every surrogate has its other half: only then can a string be UTF-8. */
export function isWellFormed(text: string): boolean {
  return !SURROGATE.test(text) || !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);
}
