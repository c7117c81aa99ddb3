import type { DescMessage } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { CorruptionError } from "../errors.js";
import { type FieldTable, readFieldTable } from "../proto/field-table.js";
import { FunctionDefSchema } from "../proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../proto/gen/tensorflow/core/framework/graph_pb.js";
import { NodeDefSchema } from "../proto/gen/tensorflow/core/framework/node_def_pb.js";
import { MetaGraphDefSchema } from "../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedModelSchema } from "../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import type { ChunkedMessage } from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
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
 * the fields of the root chunk are known and have fitting wire types. A plain message is a root chunk without tags.
 * @throws {@link CorruptionError} (`chunk-value`) when no type fits
 */
export async function inferRootSchema(
  chunks: ChunkProvider | ByteSource,
  given: ChunkedMessage | undefined,
): Promise<DescMessage> {
  const isSplit = given !== undefined && "chunk" in chunks;
  const message = isSplit ? await new TreeParts(chunks).expand(given) : given;
  const root = await rootTable(chunks, message);
  for (const schema of ROOT_SCHEMAS) {
    const rules = MessageRules.of(schema);
    if (fits(root, rules) && tagsFit(message, rules)) return schema;
  }
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

function tagsFit(message: ChunkedMessage | undefined, root: MessageRules): boolean {
  for (const field of message?.chunkedFields ?? []) {
    const rules = rulesAt(field.fieldTag, root);
    if (rules === undefined) return false;
    if (rules !== "scalar" && !tagsFit(field.message, rules)) return false;
  }
  return true;
}

/** The type that a tag leads to; undefined when it cannot be followed. */
function rulesAt(
  tag: readonly { kind: { case?: string | undefined; value?: unknown } }[],
  root: MessageRules,
): MessageRules | "scalar" | undefined {
  let rules: MessageRules | "scalar" = root;
  for (const { kind } of tag) {
    if (kind.case !== "field") continue;
    if (rules === "scalar") return undefined;
    const rule: FieldRule | undefined = rules.field(kind.value as number);
    if (rule === undefined) return undefined;
    const value: FieldRule | undefined = rule.isMap ? rule.message?.field(2) : rule;
    rules = value?.message ?? "scalar";
  }
  return rules;
}
