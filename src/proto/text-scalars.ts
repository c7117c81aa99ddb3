import { type DescEnum, ScalarType } from "@bufbuild/protobuf";
import { readFloat, readInteger32, readInteger64 } from "./text-numbers.js";
import { quoteText } from "./text-place.js";
import { enumNumbersOf } from "./text-schema.js";
import { StringReader } from "./text-strings.js";
import { type TextTokenizer, TOKEN } from "./text-tokenizer.js";

const BOOLS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["True", true],
  ["t", true],
  ["false", false],
  ["False", false],
  ["f", false],
]);

/** Reads the values that are no messages; specification, "Value Types". */
export class ScalarReader {
  private readonly tokens: TextTokenizer;
  private readonly strings: StringReader;

  /** Reads from where `tokens` stands. */
  constructor(tokens: TextTokenizer) {
    this.tokens = tokens;
    this.strings = new StringReader(tokens);
  }

  /** Reads a value of an enum, by name or by number. @throws {@link CorruptionError} (`invalid-text`) */
  readEnum(desc: DescEnum): number {
    const { tokens } = this;
    const at = tokens.start;
    if (tokens.kind === TOKEN.identifier) {
      const name = tokens.slice();
      const number = enumNumbersOf(desc).get(name);
      if (number === undefined) throw tokens.error(`enum ${desc.typeName} has no value ${quoteText(name)}`);
      tokens.next();
      return number;
    }
    const number = readInteger32(tokens, true);
    if (!desc.open && desc.value[number] === undefined) {
      throw tokens.error(`enum ${desc.typeName} has no value ${number}`, { at });
    }
    return number;
  }

  /** Reads a value of a scalar type, in the form that protobuf-es keeps it in. @throws {@link CorruptionError} (`invalid-text`) */
  read(type: ScalarType): unknown {
    switch (type) {
      case ScalarType.STRING:
        return this.strings.readString();
      case ScalarType.BYTES:
        return this.strings.readBytes();
      case ScalarType.BOOL:
        return this.readBool();
      case ScalarType.FLOAT:
        return Math.fround(readFloat(this.tokens));
      case ScalarType.DOUBLE:
        return readFloat(this.tokens);
      case ScalarType.INT32:
      case ScalarType.SINT32:
      case ScalarType.SFIXED32:
        return readInteger32(this.tokens, true);
      case ScalarType.UINT32:
      case ScalarType.FIXED32:
        return readInteger32(this.tokens, false);
      case ScalarType.INT64:
      case ScalarType.SINT64:
      case ScalarType.SFIXED64:
        return readInteger64(this.tokens, true);
      case ScalarType.UINT64:
      case ScalarType.FIXED64:
        return readInteger64(this.tokens, false);
    }
  }

  private readBool(): boolean {
    const { tokens } = this;
    const at = tokens.start;
    if (tokens.kind === TOKEN.identifier) {
      const value = BOOLS.get(tokens.slice());
      if (value === undefined) throw tokens.unexpected("true or false");
      tokens.next();
      return value;
    }
    const number = readInteger32(tokens, false);
    if (number > 1) throw tokens.error("bool out of range", { at, expected: "0 or 1" });
    return number === 1;
  }
}
