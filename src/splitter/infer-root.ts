import type { DescMessage } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { CorruptionError, isCairnError } from "../errors.js";
import { type FieldTable, readFieldTable } from "../proto/field-table.js";
import { FunctionDefSchema } from "../proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../proto/gen/tensorflow/core/framework/graph_pb.js";
import { NodeDefSchema } from "../proto/gen/tensorflow/core/framework/node_def_pb.js";
import { MetaGraphDefSchema } from "../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedModelSchema } from "../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import type { ChunkedMessage, FieldIndex } from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { type FieldRule, MessageRules, WIRE, wireTypeOf } from "../proto/message-rules.js";
import type { ChunkProvider } from "./merge-tree.js";
import { TreeParts } from "./tree-parts.js";

/** The types that a file without a name for its type may hold, tried in this order. */
const ROOT_SCHEMAS: readonly DescMessage[] = [
  SavedModelSchema,
  GraphDefSchema,
  MetaGraphDefSchema,
  FunctionDefSchema,
  NodeDefSchema,
];

/**
 * Finds the type of a root message, which no file names: the first type under which all field tags can be followed and
 * the fields of the root chunk are known and have fitting wire types. Where several do, the first under which the small
 * messages in it fit too. A plain message is a root chunk without tags.
 * @throws {@link CorruptionError} (`chunk-value`) when no type fits
 */
export async function inferRootSchema(
  chunks: ChunkProvider | ByteSource,
  given: ChunkedMessage | undefined,
): Promise<DescMessage> {
  const isSplit = given !== undefined && "chunk" in chunks;
  const message = isSplit ? await new TreeParts(chunks).expand(given) : given;
  const root = await rootTable(chunks, message);
  const fitting = ROOT_SCHEMAS.filter((schema) => {
    const rules = MessageRules.of(schema);
    return fits(root, rules) && tagsFit(message, rules);
  });
  for (const schema of fitting) {
    if (root === undefined || fitting.length === 1) return schema;
    if (await contentsFit(root, MessageRules.of(schema), 1)) return schema;
  }
  if (fitting[0] !== undefined) return fitting[0];
  throw new CorruptionError("chunk-value", "the root message is of no known type", {
    file: chunks.name,
    expected: ROOT_SCHEMAS.map((schema) => schema.name).join(", "),
    hint: "Give its schema to the library, or check that the file is a TensorFlow model.",
  });
}

async function rootTable(
  chunks: ChunkProvider | ByteSource,
  message: ChunkedMessage | undefined,
): Promise<FieldTable | undefined> {
  if ("readPieces" in chunks) return readFieldTable(chunks);
  if (message?.chunkIndex === undefined || message.chunkIndex >= BigInt(chunks.chunkCount)) return undefined;
  return readFieldTable(await chunks.chunk(Number(message.chunkIndex), "message"));
}

function fits(table: FieldTable | undefined, rules: MessageRules): boolean {
  if (table === undefined) return true;
  for (let i = 0; i < table.count; i++) {
    const rule = rules.field(table.number(i));
    if (rule === undefined) return false;
    const wireType = table.wireType(i);
    if (wireType !== wireTypeOf(rule) && !(rule.packable && wireType === WIRE.bytes)) return false;
  }
  return true;
}

/** Levels of messages that are looked into to tell types apart. */
const LOOKED_INTO_LEVELS = 3;
/** How many messages of one level are looked into. */
const LOOKED_INTO_MESSAGES = 16;
/** Larger messages are not looked into, 64 KiB. */
const LOOKED_INTO_BYTES = 64 * 1024;

/** Whether the first small messages in a message are of the types that the rules say. */
async function contentsFit(table: FieldTable, rules: MessageRules, level: number): Promise<boolean> {
  let left = LOOKED_INTO_MESSAGES;
  for (let i = 0; i < table.count && left > 0; i++) {
    const inner = rules.messageIn(table.number(i));
    if (inner === undefined || table.wireType(i) !== WIRE.bytes || table.valueSize(i) > LOOKED_INTO_BYTES) continue;
    left--;
    const below = await tableOrNothing(table.source.slice(table.valueStart(i), table.valueSize(i)));
    if (below === undefined || !fits(below, inner)) return false;
    if (level < LOOKED_INTO_LEVELS && !(await contentsFit(below, inner, level + 1))) return false;
  }
  return true;
}

async function tableOrNothing(source: ByteSource): Promise<FieldTable | undefined> {
  try {
    return await readFieldTable(source);
  } catch (error) {
    if (isCairnError(error, "invalid-wire") || isCairnError(error, "limit")) return undefined;
    throw error;
  }
}

function tagsFit(message: ChunkedMessage | undefined, root: MessageRules): boolean {
  for (const field of message?.chunkedFields ?? []) {
    const rules = rulesAt(field.fieldTag, root);
    if (rules === undefined) return false;
    if (rules !== "scalar" && !tagsFit(field.message, rules)) return false;
  }
  return true;
}

/** The type that a tag leads to; undefined when it cannot be followed. */
function rulesAt(tag: readonly FieldIndex[], root: MessageRules): MessageRules | "scalar" | undefined {
  let rules: MessageRules | "scalar" = root;
  for (let i = 0; i < tag.length; i++) {
    const kind = tag[i]?.kind;
    if (rules === "scalar" || kind?.case !== "field") return undefined;
    const rule = rules.field(kind.value);
    if (rule === undefined) return undefined;
    if (rule.repeated && tag[++i]?.kind.case !== (rule.isMap ? "mapKey" : "index")) return undefined;
    const value: FieldRule | undefined = rule.isMap ? rule.message?.field(2) : rule;
    rules = value?.message ?? "scalar";
  }
  return rules;
}
