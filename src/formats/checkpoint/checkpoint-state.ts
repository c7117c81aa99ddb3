import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { CorruptionError, isCairnError, LimitError } from "../../errors.js";
import { MAX_STATE_FILE_BYTES } from "../../limits.js";
import { indexPath } from "./bundle-paths.js";

/** The name of the file in a directory of checkpoints that says which is the latest. */
export const STATE_FILE_NAME = "checkpoint";

/**
 * What a checkpoint state file says. Times are in seconds since 1970.
 * Source: tensorflow/python/training/checkpoint_state.proto.
 */
export interface CheckpointState {
  /** The prefix of the latest checkpoint as it is written there: relative to the directory of the file, or absolute. */
  readonly modelCheckpointPath?: string | undefined;
  /** All that are kept, oldest first. */
  readonly allModelCheckpointPaths: readonly string[];
  /** When they were saved; one for each path, or none. */
  readonly allModelCheckpointTimestamps: readonly number[];
  /** When a checkpoint was last kept for good. */
  readonly lastPreservedTimestamp?: number | undefined;
}

/**
 * Parses a checkpoint state file, a protobuf in text format. Fields that it does not know are left aside.
 * @throws CorruptionError (`invalid-text`) with the offset of what cannot be read
 */
export function parseCheckpointState(text: string, file: string): CheckpointState {
  const reader = new TextReader(text, file);
  let modelCheckpointPath: string | undefined;
  let lastPreservedTimestamp: number | undefined;
  const allModelCheckpointPaths: string[] = [];
  const allModelCheckpointTimestamps: number[] = [];
  for (let name = reader.name(); name !== undefined; name = reader.name()) {
    const values = reader.values();
    const isText = name === "model_checkpoint_path" || name === "all_model_checkpoint_paths";
    const isNumber = name === "all_model_checkpoint_timestamps" || name === "last_preserved_timestamp";
    for (const value of values) {
      if ((isText && typeof value !== "string") || (isNumber && typeof value !== "number")) {
        throw reader.bad(`a value of ${name}`);
      }
      if (name === "model_checkpoint_path") modelCheckpointPath = value as string;
      if (name === "all_model_checkpoint_paths") allModelCheckpointPaths.push(value as string);
      if (name === "all_model_checkpoint_timestamps") allModelCheckpointTimestamps.push(value as number);
      if (name === "last_preserved_timestamp") lastPreservedTimestamp = value as number;
    }
  }
  return { modelCheckpointPath, allModelCheckpointPaths, allModelCheckpointTimestamps, lastPreservedTimestamp };
}

/** The text of a checkpoint state file as TensorFlow writes it: fields by number, one on a line. */
export function formatCheckpointState(state: CheckpointState): string {
  const lines: string[] = [];
  if (state.modelCheckpointPath !== undefined) {
    lines.push(`model_checkpoint_path: ${quote(state.modelCheckpointPath)}`);
  }
  for (const path of state.allModelCheckpointPaths) lines.push(`all_model_checkpoint_paths: ${quote(path)}`);
  for (const time of state.allModelCheckpointTimestamps) {
    lines.push(`all_model_checkpoint_timestamps: ${formatDouble(time)}`);
  }
  if (state.lastPreservedTimestamp !== undefined) {
    lines.push(`last_preserved_timestamp: ${formatDouble(state.lastPreservedTimestamp)}`);
  }
  return lines.map((line) => `${line}\n`).join("");
}

/**
 * The state of a directory, or undefined when there is no state file.
 * @throws CorruptionError (`invalid-text`), LimitError (`limit`)
 */
export async function readCheckpointState(files: FileStore, directory: string): Promise<CheckpointState | undefined> {
  const path = joinPath(directory, STATE_FILE_NAME);
  if ((await files.stat(path))?.kind !== "file") return undefined;
  const source = await files.open(path);
  try {
    if (source.size > MAX_STATE_FILE_BYTES) {
      const details = { file: path, expected: `at most ${MAX_STATE_FILE_BYTES} bytes`, actual: source.size };
      throw new LimitError("limit", "checkpoint state file", details);
    }
    return parseCheckpointState(new TextDecoder().decode(await source.read(0, source.size)), path);
  } finally {
    await source.close();
  }
}

/** A path of a state file as a path of its own: one that is relative begins at the directory of the file. */
export function resolveCheckpointPath(path: string, directory: string): string {
  return path.startsWith("/") || /^[a-z][a-z0-9+.-]*:\/\//i.test(path) ? path : joinPath(directory, path);
}

/**
 * The prefix of the latest checkpoint of a directory as its state file has it, or undefined when there is no such file,
 * it cannot be read, or the checkpoint is not there. Source: tensorflow/python/checkpoint/checkpoint_management.py,
 * latest_checkpoint.
 */
export async function latestCheckpoint(files: FileStore, directory: string): Promise<string | undefined> {
  let state: CheckpointState | undefined;
  try {
    state = await readCheckpointState(files, directory);
  } catch (error) {
    if (isCairnError(error, "invalid-text") || isCairnError(error, "limit")) return undefined;
    throw error;
  }
  if (state?.modelCheckpointPath === undefined) return undefined;
  const prefix = resolveCheckpointPath(state.modelCheckpointPath, directory);
  return (await files.stat(indexPath(prefix)))?.kind === "file" ? prefix : undefined;
}

// Source: protobuf text format, "String literals"; CEscape of google/protobuf/stubs/strutil.cc for what is written.
const ESCAPES: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
};
const WRITTEN_ESCAPES: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  '"': '\\"',
  "'": "\\'",
  "\\": "\\\\",
};

function quote(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped
  const escaped = text.replace(/[\x00-\x1f"'\\\x7f]/g, (character) => {
    return WRITTEN_ESCAPES[character] ?? `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`;
  });
  return `"${escaped}"`;
}

/** A number as Python writes a float: `1700012000.0`, `1e+20`. */
function formatDouble(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    const [digits = "", exponent = ""] = value.toExponential().split("e");
    const sign = exponent.startsWith("-") ? "-" : "+";
    return `${digits}e${sign}${exponent.replace(/^[+-]/, "").padStart(2, "0")}`;
  }
  const text = String(value);
  return text.includes(".") ? text : `${text}.0`;
}

/** Reads text-format fields one after another. */
class TextReader {
  private readonly text: string;
  private readonly file: string;
  private at = 0;

  constructor(text: string, file: string) {
    this.text = text;
    this.file = file;
  }

  /** The name of the next field, or undefined at the end. */
  name(): string | undefined {
    this.skipSpace();
    while (this.text[this.at] === ";" || this.text[this.at] === ",") {
      this.at++;
      this.skipSpace();
    }
    if (this.at >= this.text.length) return undefined;
    const name = this.take(/[A-Za-z_]\w*/y);
    if (name === undefined) throw this.bad("a field");
    this.skipSpace();
    if (this.text[this.at] !== ":") throw this.bad(`":" behind ${name}`);
    this.at++;
    return name;
  }

  /** The value of a field, or those of a list in brackets. */
  values(): (string | number)[] {
    this.skipSpace();
    if (this.text[this.at] !== "[") return [this.value()];
    const values: (string | number)[] = [];
    do {
      this.at++;
      this.skipSpace();
      if (this.text[this.at] === "]") break;
      values.push(this.value());
      this.skipSpace();
    } while (this.text[this.at] === ",");
    if (this.text[this.at] !== "]") throw this.bad('"]"');
    this.at++;
    return values;
  }

  /** The error for what stands here. */
  bad(expected: string): CorruptionError {
    const found = this.text.slice(this.at, this.at + 20).split("\n")[0];
    return new CorruptionError("invalid-text", "checkpoint state file", {
      file: this.file,
      offset: new TextEncoder().encode(this.text.slice(0, this.at)).length,
      expected,
      actual: found === "" || found === undefined ? "nothing" : JSON.stringify(found),
    });
  }

  private value(): string | number {
    this.skipSpace();
    const first = this.text[this.at];
    if (first === '"' || first === "'") return this.strings();
    const word = this.take(/[-+]?[\w.]+(?:[-+]\d+f?)?/y);
    const number = word === undefined ? Number.NaN : parseNumber(word);
    if (number === undefined || word === undefined) throw this.bad("a value");
    return number;
  }

  /** Strings that stand behind one another are one. */
  private strings(): string {
    const bytes: number[] = [];
    for (let quote = this.text[this.at]; quote === '"' || quote === "'"; quote = this.text[this.at]) {
      this.at++;
      while (this.text[this.at] !== quote) this.character(bytes);
      this.at++;
      this.skipSpace();
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  private character(bytes: number[]): void {
    const character = String.fromCodePoint(this.text.codePointAt(this.at) ?? 10);
    if (character === "\n" || this.at >= this.text.length) throw this.bad("the end of a string");
    this.at += character.length;
    if (character !== "\\") {
      bytes.push(...new TextEncoder().encode(character));
      return;
    }
    const digits = this.take(/[0-7]{1,3}/y) ?? this.take(/[xX][0-9a-fA-F]{1,2}/y);
    if (digits !== undefined) {
      bytes.push((/^x/i.test(digits) ? Number.parseInt(digits.slice(1), 16) : Number.parseInt(digits, 8)) & 0xff);
      return;
    }
    const letter = this.text[this.at] ?? "";
    if (!(letter in ESCAPES) && !`\\'"?`.includes(letter)) throw this.bad("an escape");
    this.at++;
    bytes.push(ESCAPES[letter] ?? letter.charCodeAt(0));
  }

  private skipSpace(): void {
    this.take(/(?:\s|#[^\n]*)*/y);
  }

  private take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }
}

/** A number of the text format, or undefined; words such as `inf` are numbers too. */
function parseNumber(word: string): number | undefined {
  const plain = word.replace(/(?<=[\d.])[fF]$/, "");
  if (/^[-+]?(?:inf|infinity)$/i.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  if (/^[-+]?nan$/i.test(plain)) return Number.NaN;
  return /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(plain) ? Number(plain) : undefined;
}
