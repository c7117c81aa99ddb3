import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";

/** Protobuf wire types. Source: protobuf.dev, "Encoding", "Message Structure". */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** What a field's value is. */
export type FieldKind = "message" | "bytes" | "string" | "enum" | "number" | "bool";

/** Field numbers below this are looked up in an array. */
const DENSE_NUMBERS = 64;

interface FieldFacts {
  readonly number: number;
  readonly name: string;
  readonly kind: FieldKind;
  readonly repeated?: boolean;
  readonly packable?: boolean;
  readonly scalar?: ScalarType;
  readonly enum?: DescEnum;
  readonly isMap?: boolean;
  readonly oneof?: number;
  /** Finds the rules of its message when they are first asked for: message types may hold themselves. */
  readonly findMessage?: () => MessageRules;
}

/** What the wire needs to know of a field; taken from its descriptor. */
export class FieldRule {
  readonly number: number;
  readonly name: string;
  readonly kind: FieldKind;
  readonly repeated: boolean;
  /** A repeated field of numbers, which may stand packed in one length-delimited value. */
  readonly packable: boolean;
  /** The scalar type of numbers, bools, strings and bytes. */
  readonly scalar: ScalarType | undefined;
  readonly enum: DescEnum | undefined;
  readonly isMap: boolean;
  /** Index of the oneof it is a member of, or -1. */
  readonly oneof: number;
  private readonly findMessage: (() => MessageRules) | undefined;
  private found: MessageRules | undefined;

  /** Made by {@link MessageRules}. */
  constructor(facts: FieldFacts) {
    this.number = facts.number;
    this.name = facts.name;
    this.kind = facts.kind;
    this.repeated = facts.repeated ?? false;
    this.packable = facts.packable ?? false;
    this.scalar = facts.scalar;
    this.enum = facts.enum;
    this.isMap = facts.isMap ?? false;
    this.oneof = facts.oneof ?? -1;
    this.findMessage = facts.findMessage;
  }

  /** Rules of the message it holds, of the entry for a map; undefined for a scalar, and for a group, which is not looked into. */
  get message(): MessageRules | undefined {
    this.found ??= this.findMessage?.();
    return this.found;
  }

  /** Whether it holds a message that stands on the wire as a group. */
  get isGroup(): boolean {
    return this.kind === "message" && this.findMessage === undefined;
  }

  /** Whether its values may have this wire type. With another one a field counts as unknown, as in protobuf. */
  accepts(wireType: number): boolean {
    return wireType === wireTypeOf(this) || (this.packable && wireType === WIRE.bytes);
  }
}

/** The fields of a message type as the wire needs them. Works for any message whose descriptor is given. */
export class MessageRules {
  /** Full name of the type, with `.Entry` of the field for a map entry. */
  readonly typeName: string;
  /** The descriptor; undefined for a map entry, which has none of its own. */
  readonly schema: DescMessage | undefined;
  readonly isMapEntry: boolean;
  /** For the lowest field numbers: rules of the message, null for none, undefined for not looked up yet. */
  private readonly messages: (MessageRules | null | undefined)[] = new Array(DENSE_NUMBERS);
  private readonly byNumber = new Map<number, FieldRule>();
  private readonly byName = new Map<string, FieldRule>();

  private constructor(typeName: string, schema: DescMessage | undefined, isMapEntry: boolean) {
    this.typeName = typeName;
    this.schema = schema;
    this.isMapEntry = isMapEntry;
  }

  /** The rules of a message type; made once for each descriptor. */
  static of(schema: DescMessage): MessageRules {
    const known = rulesBySchema.get(schema);
    if (known !== undefined) return known;
    const rules = new MessageRules(schema.typeName, schema, false);
    rulesBySchema.set(schema, rules);
    for (const field of schema.fields) rules.add(factsOf(field, schema));
    return rules;
  }

  /** The rules of a map field's entry: `key` is field 1, `value` is field 2. */
  static ofMapEntry(field: DescField & { fieldKind: "map" }, typeName: string): MessageRules {
    const rules = new MessageRules(`${typeName}.${field.name}.Entry`, undefined, true);
    rules.add({ ...scalarKind(field.mapKey), number: 1, name: "key" });
    const value = { number: 2, name: "value" };
    if (field.mapKind === "message") {
      rules.add({ ...value, kind: "message", findMessage: () => MessageRules.of(field.message) });
    } else if (field.mapKind === "enum") rules.add({ ...value, kind: "enum", enum: field.enum });
    else rules.add({ ...value, ...scalarKind(field.scalar) });
    return rules;
  }

  /** The field of a number, or undefined when the schema does not know it. */
  field(number: number): FieldRule | undefined {
    return this.byNumber.get(number);
  }

  /** The rules of the message in a field, or undefined when the field holds none; quick, for scanners. */
  messageIn(number: number): MessageRules | undefined {
    if (number >= this.messages.length) return this.byNumber.get(number)?.message;
    const known = this.messages[number];
    if (known !== undefined) return known ?? undefined;
    const found = this.byNumber.get(number)?.message;
    this.messages[number] = found ?? null;
    return found;
  }

  /** The field of a name as the .proto file spells it. */
  fieldNamed(name: string): FieldRule | undefined {
    return this.byName.get(name);
  }

  /** All fields, in the order of the .proto file. */
  fields(): Iterable<FieldRule> {
    return this.byNumber.values();
  }

  private add(facts: FieldFacts): void {
    const rule = new FieldRule(facts);
    this.byNumber.set(rule.number, rule);
    this.byName.set(rule.name, rule);
  }
}

const rulesBySchema = new WeakMap<DescMessage, MessageRules>();

function factsOf(field: DescField, parent: DescMessage): FieldFacts {
  const common = { number: field.number, name: field.name };
  switch (field.fieldKind) {
    case "scalar":
      return { ...common, ...scalarKind(field.scalar), oneof: oneofIndex(field, parent) };
    case "enum":
      return { ...common, kind: "enum", enum: field.enum, oneof: oneofIndex(field, parent) };
    case "message":
      return { ...common, ...messageKind(field.message, field.delimitedEncoding), oneof: oneofIndex(field, parent) };
    case "list": {
      const list = { ...common, repeated: true };
      if (field.listKind === "message") return { ...list, ...messageKind(field.message, field.delimitedEncoding) };
      if (field.listKind === "enum") return { ...list, kind: "enum", enum: field.enum, packable: true };
      return { ...list, ...scalarKind(field.scalar), packable: isPackable(field.scalar) };
    }
    case "map": {
      const findMessage = () => MessageRules.ofMapEntry(field, parent.typeName);
      return { ...common, kind: "message", repeated: true, isMap: true, findMessage };
    }
  }
}

/** A delimited message stands on the wire as a group; it is carried along unread, like a field without a schema. */
function messageKind(schema: DescMessage, delimited: boolean): Pick<FieldFacts, "kind" | "findMessage"> {
  return delimited ? { kind: "message" } : { kind: "message", findMessage: () => MessageRules.of(schema) };
}

function oneofIndex(field: DescField, parent: DescMessage): number {
  return field.oneof === undefined ? -1 : parent.oneofs.indexOf(field.oneof);
}

function scalarKind(scalar: ScalarType): { kind: FieldKind; scalar: ScalarType } {
  if (scalar === ScalarType.STRING) return { kind: "string", scalar };
  if (scalar === ScalarType.BYTES) return { kind: "bytes", scalar };
  return { kind: scalar === ScalarType.BOOL ? "bool" : "number", scalar };
}

function isPackable(scalar: ScalarType): boolean {
  return scalar !== ScalarType.STRING && scalar !== ScalarType.BYTES;
}

/** The wire type that values of a field have when they are not packed. */
export function wireTypeOf(rule: FieldRule): number {
  if (rule.isGroup) return WIRE.groupStart;
  if (rule.kind === "message" || rule.kind === "bytes" || rule.kind === "string") return WIRE.bytes;
  switch (rule.scalar) {
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WIRE.fixed64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WIRE.fixed32;
    default:
      return WIRE.varint;
  }
}
