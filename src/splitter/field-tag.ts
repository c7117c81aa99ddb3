import { create, type DescMessage } from "@bufbuild/protobuf";
import { CorruptionError, UsageError } from "../errors.js";
import {
  type FieldIndex,
  FieldIndex_MapKeySchema,
  FieldIndexSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { type MapKey, stringKey, textOfKey } from "../proto/map-key.js";
import { type FieldRule, MessageRules } from "../proto/message-rules.js";

/**
 * A place in a message, as names or numbers of fields, indexes of repeated fields and keys of maps:
 * `["meta_graphs", 0, "graph_def", "node", 5, "attr", "value", "tensor", "tensor_content"]`.
 */
export type FieldTags = readonly (string | number | bigint | boolean)[];

/** One step of a field tag: a field, and the element or entry of it. */
export interface TagStep {
  readonly rule: FieldRule;
  readonly selector: number | MapKey | undefined;
  /** Whether {@link TagStep.selector} is a map key; an index otherwise. */
  readonly isKey: boolean;
}

/**
 * Reads {@link FieldTags} by a schema.
 * @throws {@link UsageError} (`usage`) when they lead to no field
 */
export function parseFieldTags(schema: DescMessage | MessageRules, tags: FieldTags): TagStep[] {
  let rules: MessageRules | undefined = schema instanceof MessageRules ? schema : MessageRules.of(schema);
  const steps: TagStep[] = [];
  for (let i = 0; i < tags.length; ) {
    const tag = tags[i++];
    const rule: FieldRule | undefined = typeof tag === "number" ? rules?.field(tag) : rules?.fieldNamed(String(tag));
    if (rule === undefined)
      throw new UsageError("usage", `no field ${String(tag)} at ${formatTags(tags.slice(0, i - 1))}`);
    const selector = rule.repeated && i < tags.length ? tags[i++] : undefined;
    if (!rule.isMap && selector !== undefined && typeof selector !== "number") {
      throw new UsageError("usage", `${rule.name} is repeated and takes an index`, { actual: String(selector) });
    }
    steps.push({
      rule,
      selector: rule.isMap ? toMapKey(selector) : (selector as number | undefined),
      isKey: rule.isMap,
    });
    rules = rule.isMap ? rule.message?.field(2)?.message : rule.message;
  }
  return steps;
}

function toMapKey(key: FieldTags[number] | undefined): MapKey | undefined {
  if (typeof key === "string") return stringKey(key);
  return typeof key === "number" ? BigInt(key) : key;
}

/** The messages of a field tag, as they stand in a ChunkedField. */
export function encodeTag(steps: readonly TagStep[]): FieldIndex[] {
  const indexes: FieldIndex[] = [];
  for (const { rule, selector, isKey } of steps) {
    indexes.push(create(FieldIndexSchema, { kind: { case: "field", value: rule.number } }));
    if (selector === undefined) continue;
    if (isKey) indexes.push(encodeKey(rule, selector as MapKey));
    else indexes.push(create(FieldIndexSchema, { kind: { case: "index", value: BigInt(selector as number) } }));
  }
  return indexes;
}

function encodeKey(rule: FieldRule, key: MapKey): FieldIndex {
  const mapKey = create(FieldIndex_MapKeySchema);
  if (typeof key === "string") mapKey.type = { case: "s", value: textOfKey(key) };
  else if (typeof key === "boolean") mapKey.type = { case: "boolean", value: key };
  else mapKey.type = numberKey(rule, key);
  return create(FieldIndexSchema, { kind: { case: "mapKey", value: mapKey } });
}

function numberKey(rule: FieldRule, key: bigint) {
  // protobuf ScalarType: 3 int64, 4 uint64, 5 int32, 6 fixed64, 7 fixed32, 13 uint32, 15 sfixed32, 16 sfixed64, 17 sint32, 18 sint64
  switch (rule.message?.field(1)?.scalar) {
    case 13:
    case 7:
      return { case: "ui32", value: Number(key) } as const;
    case 4:
    case 6:
      return { case: "ui64", value: key } as const;
    case 3:
    case 16:
    case 18:
      return { case: "i64", value: key } as const;
    default:
      return { case: "i32", value: Number(key) } as const;
  }
}

/** The key that a FieldIndex holds. @throws {@link CorruptionError} (`field-tag`) when it holds none */
export function decodeKey(index: FieldIndex, file: string): MapKey {
  if (index.kind.case !== "mapKey") throw new CorruptionError("field-tag", "field tag has no map key", { file });
  const { type } = index.kind.value;
  switch (type.case) {
    case "s":
      return stringKey(type.value);
    case "boolean":
      return type.value;
    case "ui32":
    case "i32":
      return BigInt(type.value);
    case "ui64":
    case "i64":
      return type.value;
    default:
      throw new CorruptionError("field-tag", "map key of a field tag has no type", { file });
  }
}

/** A field tag for people: `meta_graphs[0].graph_def.node[5].attr["value"]`; fields the schema does not know as numbers. */
export function formatTag(tag: readonly FieldIndex[], root?: MessageRules): string {
  let text = "";
  let rules = root;
  let rule: FieldRule | undefined;
  for (const { kind } of tag) {
    if (kind.case === "field") {
      if (rule !== undefined) rules = rule.message;
      rule = rules?.field(kind.value);
      if (rule === undefined) rules = undefined;
      text += `${text === "" ? "" : "."}${rule?.name ?? kind.value}`;
    } else if (kind.case === "index") text += `[${kind.value}]`;
    else if (kind.case === "mapKey") {
      text += `[${JSON.stringify(kind.value.type.value ?? null, (_, v) => (typeof v === "bigint" ? String(v) : v))}]`;
      rules = rule?.message;
      rule = rules?.field(2);
    }
  }
  return text;
}

/** The same for steps. */
export function formatSteps(steps: readonly TagStep[]): string {
  return formatTag(encodeTag(steps), undefined) === "" ? "" : steps.map(formatStep).join(".");
}

function formatStep({ rule, selector, isKey }: TagStep): string {
  if (selector === undefined) return rule.name;
  return `${rule.name}[${isKey && typeof selector === "string" ? JSON.stringify(textOfKey(selector)) : String(selector)}]`;
}

function formatTags(tags: FieldTags): string {
  return tags.length === 0 ? "the root" : tags.map(String).join(".");
}

const KIND_ORDER = { field: 0, index: 1, mapKey: 2 } as const;

/**
 * Compares field tags as TensorFlow sorts them, depth by depth, a prefix before what it is a prefix of. Map keys are
 * compared by value, where TensorFlow leaves their order open.
 * @throws {@link CorruptionError} (`field-tag`) when the kinds differ at one depth
 */
export function compareTags(a: readonly FieldIndex[], b: readonly FieldIndex[], file: string): number {
  const depth = Math.min(a.length, b.length);
  for (let i = 0; i < depth; i++) {
    const left = (a[i] as FieldIndex).kind;
    const right = (b[i] as FieldIndex).kind;
    if (left.case === undefined || right.case === undefined) continue;
    if (KIND_ORDER[left.case] !== KIND_ORDER[right.case]) {
      throw new CorruptionError("field-tag", "field tags differ in kind at one depth", {
        file,
        expected: left.case,
        actual: right.case,
      });
    }
    const order = compareKinds(a[i] as FieldIndex, b[i] as FieldIndex, file);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareKinds(a: FieldIndex, b: FieldIndex, file: string): number {
  if (a.kind.case === "mapKey") return compareKeys(decodeKey(a, file), decodeKey(b, file));
  if (a.kind.case === "index" && b.kind.case === "index")
    return a.kind.value < b.kind.value ? -1 : a.kind.value > b.kind.value ? 1 : 0;
  return Number(a.kind.value) - Number(b.kind.value);
}

function compareKeys(a: MapKey, b: MapKey): number {
  if (a === b) return 0;
  if (typeof a !== typeof b) return typeof a < typeof b ? -1 : 1;
  return a < b ? -1 : 1;
}
