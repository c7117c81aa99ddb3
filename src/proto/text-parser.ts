import { create, type DescField, type DescMessage, type Message, type Registry, toBinary } from "@bufbuild/protobuf";
import { scalarZeroValue } from "@bufbuild/protobuf/reflect";
import type { Any } from "@bufbuild/protobuf/wkt";
import { MAX_MESSAGE_DEPTH } from "../limits.js";
import { quoteText } from "./text-place.js";
import { ScalarReader } from "./text-scalars.js";
import { type TextSchema, textSchemaOf } from "./text-schema.js";
import { addItem, type MapField, type Properties, type Slot, setEntry, setValue } from "./text-store.js";
import { CHAR, type TextTokenizer, TOKEN } from "./text-tokenizer.js";

/** What a message is being read into. */
interface Target {
  readonly schema: TextSchema;
  readonly message: Properties;
  /** The singular fields that were given already. */
  readonly seen: Set<DescField>;
}

/**
 * Parses one text. The grammar is that of the Text Format Language Specification, "Syntax Elements"; what C++ and
 * Python take beyond it is refused.
 */
export class TextParser {
  private readonly tokens: TextTokenizer;
  private readonly scalars: ScalarReader;
  private readonly registry: Registry | undefined;
  private depth = 0;

  /** Reads from where `tokens` stands; the registry knows the types that a `google.protobuf.Any` can hold. */
  constructor(tokens: TextTokenizer, registry: Registry | undefined) {
    this.tokens = tokens;
    this.scalars = new ScalarReader(tokens);
    this.registry = registry;
  }

  /** Parses to the end. @throws {@link CorruptionError} (`invalid-text`), {@link LimitError} (`limit`) */
  parse(desc: DescMessage): Message {
    return this.readFields(desc, TOKEN.end);
  }

  private readFields(desc: DescMessage, closer: number): Properties {
    const { tokens } = this;
    const schema = textSchemaOf(desc);
    const target: Target = { schema, message: create(desc) as Properties, seen: new Set() };
    while (tokens.kind !== closer) {
      if (tokens.kind === CHAR.openBracket) this.readExpandedAny(target);
      else this.readField(target, closer);
      this.skipSeparator();
    }
    const missing = schema.requiredFields.find((field) => !target.seen.has(field));
    if (missing !== undefined) throw tokens.error(`${desc.typeName} lacks its required field "${missing.name}"`);
    return target.message;
  }

  private readField(target: Target, closer: number): void {
    const { tokens } = this;
    const { desc, fields, reservedNames } = target.schema;
    if (tokens.kind !== TOKEN.identifier) throw this.notAFieldName(closer);
    const name = tokens.slice();
    const field = fields.get(name);
    if (field !== undefined) {
      checkOnce(tokens, target, field);
      tokens.next();
      this.readFieldValue(target, field);
    } else if (reservedNames.has(name)) {
      tokens.next();
      this.skipFieldValue();
    } else {
      throw tokens.error(`${desc.typeName} has no field ${quoteText(name)}`);
    }
  }

  private readFieldValue({ schema, message }: Target, field: DescField): void {
    const { tokens } = this;
    const { desc } = schema;
    if (field.fieldKind === "map") {
      tokens.accept(CHAR.colon);
      this.readList(() => this.readEntry({ desc, message, field }));
      return;
    }
    this.readColon(field);
    if (field.fieldKind === "list") this.readList(() => addItem({ desc, message, field }, this.readValue(field)));
    else setValue({ desc, message, field }, this.readValue(field));
  }

  /** Reads the colon, which can be absent before a message. */
  private readColon(field: DescField): void {
    if (!this.tokens.accept(CHAR.colon) && field.message === undefined) throw this.tokens.unexpected('":"');
  }

  /** Reads one value, or several in brackets. */
  private readList(readOne: () => void): void {
    const { tokens } = this;
    if (!tokens.accept(CHAR.openBracket)) {
      readOne();
    } else if (!tokens.accept(CHAR.closeBracket)) {
      do readOne();
      while (tokens.accept(CHAR.comma));
      if (!tokens.accept(CHAR.closeBracket)) throw tokens.unexpected('"," or "]"');
    }
  }

  private readValue(field: DescField): unknown {
    if (field.message !== undefined) return this.readMessage(field.message);
    if (field.enum !== undefined) return this.scalars.readEnum(field.enum);
    return this.scalars.read(field.scalar);
  }

  private readMessage(desc: DescMessage): Message {
    const closer = this.open();
    const message = this.readFields(desc, closer);
    this.close();
    return message;
  }

  /** Reads a map entry: a message of `key` and `value`, each of which can be absent. */
  private readEntry(slot: Slot<MapField>): void {
    const { tokens } = this;
    const { field } = slot;
    const closer = this.readOpener();
    let key: unknown;
    let value: unknown;
    while (tokens.kind !== closer) {
      if (tokens.kind !== TOKEN.identifier) throw this.notAFieldName(closer);
      const name = tokens.slice();
      if (name !== "key" && name !== "value") {
        throw tokens.error(`entry of map "${field.name}" has no field ${quoteText(name)}`);
      }
      if ((name === "key" ? key : value) !== undefined) throw tokens.error(`"${name}" of a map entry is given twice`);
      tokens.next();
      if (name === "key") {
        if (!tokens.accept(CHAR.colon)) throw tokens.unexpected('":"');
        key = this.scalars.read(field.mapKey);
      } else {
        this.readColon(field);
        value = this.readValue(field);
      }
      this.skipSeparator();
    }
    tokens.next();
    setEntry(slot, key ?? scalarZeroValue(field.mapKey, false), value ?? zeroValueOf(field));
  }

  /** Reads `[type.googleapis.com/package.Type] { … }`, which stands for the two fields of a `google.protobuf.Any`. */
  private readExpandedAny({ schema, message, seen }: Target): void {
    const { tokens } = this;
    const at = tokens.start;
    const url = tokens.readBracketedName();
    const { desc } = schema;
    if (desc.typeName !== "google.protobuf.Any") {
      throw tokens.error(`${desc.typeName} has no extension ${quoteText(url)}`, { at });
    }
    const slash = url.lastIndexOf("/");
    if (slash < 1) throw tokens.error("type URL without a domain", { at, actual: quoteText(url) });
    const type = this.registry?.getMessage(url.slice(slash + 1));
    if (type === undefined) throw tokens.error(`type ${quoteText(url.slice(slash + 1))} is unknown`, { at });
    for (const field of desc.fields) {
      if (seen.has(field)) throw tokens.error("non-repeated Any is specified multiple times", { at });
      seen.add(field);
    }
    tokens.accept(CHAR.colon);
    const value = toBinary(type, this.readMessage(type));
    Object.assign(message, { typeUrl: url, value } satisfies Pick<Any, "typeUrl" | "value">);
  }

  /** Reads over the value of a reserved field, of which nothing is known. */
  private skipFieldValue(): void {
    this.tokens.accept(CHAR.colon);
    this.readList(() => this.skipValue());
  }

  private skipValue(): void {
    const { tokens } = this;
    if (tokens.kind === CHAR.openBrace || tokens.kind === CHAR.less) {
      this.skipMessage();
    } else if (tokens.kind === TOKEN.string) {
      while (tokens.kind === TOKEN.string) tokens.next();
    } else {
      tokens.accept(CHAR.minus);
      if (tokens.kind === TOKEN.end || tokens.kind > TOKEN.float) throw tokens.unexpected("a value");
      tokens.next();
    }
  }

  private skipMessage(): void {
    const { tokens } = this;
    const closer = this.open();
    while (tokens.kind !== closer) {
      if (tokens.kind === CHAR.openBracket) tokens.readBracketedName();
      else if (!tokens.accept(TOKEN.identifier)) throw this.notAFieldName(closer);
      this.skipFieldValue();
      this.skipSeparator();
    }
    this.close();
  }

  /** Reads the opening of a nested message, and gives the token that is to close it. */
  private open(): number {
    if (this.depth === MAX_MESSAGE_DEPTH) throw this.tokens.limitError("nesting of messages", MAX_MESSAGE_DEPTH);
    this.depth++;
    return this.readOpener();
  }

  private close(): void {
    this.depth--;
    this.tokens.next();
  }

  private readOpener(): number {
    const { tokens } = this;
    if (tokens.accept(CHAR.openBrace)) return CHAR.closeBrace;
    if (tokens.accept(CHAR.less)) return CHAR.greater;
    throw tokens.unexpected('"{" or "<"');
  }

  private skipSeparator(): void {
    if (!this.tokens.accept(CHAR.comma)) this.tokens.accept(CHAR.semicolon);
  }

  private notAFieldName(closer: number): Error {
    const orCloser = closer === TOKEN.end ? "" : ` or "${String.fromCharCode(closer)}"`;
    return this.tokens.unexpected(`a field name${orCloser}`);
  }
}

/** Refuses a second value of a singular field, and of a oneof. */
function checkOnce(tokens: TextTokenizer, { message, seen }: Target, field: DescField): void {
  if (field.fieldKind === "list" || field.fieldKind === "map") return;
  if (seen.has(field)) throw tokens.error(`non-repeated field "${field.name}" is specified multiple times`);
  seen.add(field);
  if (field.oneof === undefined) return;
  const { case: given } = message[field.oneof.localName] as { case: string | undefined };
  const other = field.oneof.fields.find((member) => member.localName === given);
  if (other === undefined) return;
  throw tokens.error(`field "${field.name}" is specified along with "${other.name}" of oneof "${field.oneof.name}"`);
}

function zeroValueOf(field: MapField): unknown {
  if (field.message !== undefined) return create(field.message);
  if (field.enum !== undefined) return field.enum.values[0]?.number;
  return scalarZeroValue(field.scalar, false);
}
