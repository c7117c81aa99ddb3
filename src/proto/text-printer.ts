import { type DescField, type DescMessage, type Message, type Registry, ScalarType } from "@bufbuild/protobuf";
import { isScalarZeroValue, type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type Any, anyUnpack, Edition } from "@bufbuild/protobuf/wkt";
import { LimitError } from "../errors.js";
import { MAX_MESSAGE_DEPTH, MAX_TEXT_BYTES } from "../limits.js";
import { textNameOf } from "./text-schema.js";
import type { MapField } from "./text-store.js";
import { formatBytes, formatDouble, formatFloat, formatString } from "./text-values.js";

/** Longest string of V8 on 64-bit machines (v8-primitive.h, String::kMaxLength), a little below what is parsed. */
const MAX_STRING_LENGTH = 2 ** 29 - 24;

const INDENT = "  ";

type ReflectedMap = Iterable<readonly [key: unknown, value: unknown]>;

/** Prints one message in the layout of text_format.py, _Printer. */
export class TextPrinter {
  private readonly registry: Registry | undefined;
  private readonly pieces: string[] = [];
  private length = 0;
  private indent = "";
  private depth = 0;

  /** A printer that spells out a `google.protobuf.Any` of the registry's types. */
  constructor(registry: Registry | undefined) {
    this.registry = registry;
  }

  /** Prints the fields of `message`, one a line. @throws {@link LimitError} (`limit`) */
  print(message: Message, desc: DescMessage): string {
    this.printFields(reflect(desc, message, false));
    return this.pieces.join("");
  }

  private printFields(message: ReflectMessage): void {
    if (message.desc.typeName === "google.protobuf.Any" && this.printExpandedAny(message.message as Any)) return;
    for (const field of message.sortedFields) {
      if (!message.isSet(field)) continue;
      const value: unknown = message.get(field);
      if (field.fieldKind === "list") {
        for (const item of value as Iterable<unknown>) this.printValue(textNameOf(field), field, item);
      } else if (field.fieldKind === "map") {
        for (const [key, item] of sortedEntries(value as ReflectedMap)) this.printEntry(field, key, item);
      } else {
        this.printValue(textNameOf(field), field, value);
      }
    }
  }

  private printValue(name: string, field: DescField, value: unknown): void {
    if (field.message !== undefined) {
      this.printBlock(name, () => this.printNested(value as ReflectMessage));
    } else if (field.enum !== undefined) {
      this.printScalar(name, [field.enum.value[value as number]?.name ?? String(value)]);
    } else {
      this.printScalar(name, formatScalar(field.scalar, value));
    }
  }

  private printEntry(field: MapField, key: unknown, value: unknown): void {
    // In proto3 key and value of an entry are fields like any other: not printed when they are zero.
    const omitsZeros = field.parent.file.edition === Edition.EDITION_PROTO3;
    const valueType = field.scalar ?? ScalarType.INT32; // an enum's value is its number
    this.printBlock(field.name, () => {
      if (!omitsZeros || !isScalarZeroValue(field.mapKey, key)) {
        this.printScalar("key", formatScalar(field.mapKey, key));
      }
      if (!omitsZeros || field.message !== undefined || !isScalarZeroValue(valueType, value)) {
        this.printValue("value", field, value);
      }
    });
  }

  /** Prints an Any as the message in it, when that can be told. */
  private printExpandedAny(any: Any): boolean {
    const { typeUrl } = any;
    const desc = this.registry?.getMessage(typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
    if (desc === undefined || !typeUrl.includes("/")) return false;
    const content = unpack(any, desc);
    if (content === undefined) return false;
    this.printBlock(`[${typeUrl}]`, () => this.printNested(reflect(desc, content, false)));
    return true;
  }

  private printNested(message: ReflectMessage): void {
    if (this.depth === MAX_MESSAGE_DEPTH) {
      throw new LimitError("limit", "nesting of messages", { expected: `at most ${MAX_MESSAGE_DEPTH}` });
    }
    this.depth++;
    this.printFields(message);
    this.depth--;
  }

  private printBlock(name: string, printContent: () => void): void {
    const outer = this.indent;
    this.add(`${outer}${name} {\n`);
    this.indent = outer + INDENT;
    printContent();
    this.indent = outer;
    this.add(`${outer}}\n`);
  }

  private printScalar(name: string, pieces: Iterable<string>): void {
    this.add(`${this.indent}${name}: `);
    for (const piece of pieces) this.add(piece);
    this.add("\n");
  }

  private add(piece: string): void {
    this.length += piece.length;
    const limit = Math.min(MAX_TEXT_BYTES, MAX_STRING_LENGTH);
    if (this.length > limit) {
      throw new LimitError("limit", "size of the text", { expected: `at most ${limit} characters` });
    }
    this.pieces.push(piece);
  }
}

function unpack(any: Any, desc: DescMessage): Message | undefined {
  try {
    return anyUnpack(any, desc);
  } catch {
    return undefined; // not a message of that type: its bytes are printed
  }
}

function formatScalar(type: ScalarType, value: unknown): Iterable<string> {
  if (type === ScalarType.STRING) return [formatString(value as string)];
  if (type === ScalarType.BYTES) return formatBytes(value as Uint8Array);
  if (type === ScalarType.FLOAT) return [formatFloat(value as number)];
  if (type === ScalarType.DOUBLE) return [formatDouble(value as number)];
  return [String(value)]; // integers and bools
}

/** The entries of a map in the order of their keys, which are numbers, bools, or strings by code point. */
function sortedEntries(map: ReflectedMap): (readonly [unknown, unknown])[] {
  return [...map].sort(([a], [b]) => {
    if (typeof a === "string" && typeof b === "string") return compareCodePoints(a, b);
    return (a as number) < (b as number) ? -1 : 1;
  });
}

function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left === right) continue;
    // Half a surrogate pair belongs to a character beyond all that take one unit.
    return isSurrogate(left) === isSurrogate(right) ? left - right : isSurrogate(left) ? 1 : -1;
  }
  return a.length - b.length;
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}
