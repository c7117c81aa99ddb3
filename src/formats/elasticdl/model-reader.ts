import { fromBinary } from "@bufbuild/protobuf";
import type { ByteSource } from "../../bytes/byte-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { CorruptionError, LimitError, UnsupportedError } from "../../errors.js";
import { MAX_EMBEDDING_ROWS } from "../../limits.js";
import type { Field, FieldList } from "../../proto/field-list.js";
import { TrainingStateSchema } from "../../proto/gen/cairn/elasticdl_checkpoint_pb.js";
import type { FieldRule } from "../../proto/message-rules.js";
import { MessageView } from "../../proto/message-view.js";
import { type DType, dtypeOf, elementBytes, findDType, isPacked } from "../../tensor/dtype.js";
import { checkShape, elementCount, type Shape } from "../../tensor/shape.js";
import {
  backInFile,
  checkWireTypes,
  readInteger,
  readSize,
  readSmall,
  readText,
  readVarints,
} from "./message-parts.js";
import { NO_STATE, type TrainingState } from "./model-contents.js";
import type { ShardCatalog, SlotEntry, StoredEntry, TableEntry, TableInfo } from "./shard-catalog.js";
import { CHECKSUMS, SHARD_HEADER, SLOTS, STATE } from "./shard-checksums.js";

// Fields of Model. Source: elasticdl/proto/elasticdl.proto.
const VERSION = 1;
const INFOS = 2;
const DENSE = 3;
const TABLES = 4;

/** The largest training state, 64 MiB. */
const MAX_STATE_BYTES = 64 * 1024 * 1024;

/**
 * What a Model of the released form holds, and where; no element is read. As in any protobuf parser the order of fields
 * does not matter, of map entries with one key the last counts, and unknown fields are skipped.
 * @throws {@link CorruptionError} (`invalid-wire`, `tensor-data`), {@link UnsupportedError} (`unsupported-dtype`)
 */
export async function readModel(model: MessageView, file: ByteSource): Promise<ShardCatalog> {
  const list = await model.open();
  checkWireTypes(list, [VERSION, INFOS, DENSE, TABLES, SHARD_HEADER, SLOTS, STATE, CHECKSUMS]);
  const infos = new Map<string, TableInfo>();
  for (const field of list.values(INFOS)) {
    const info = await readInfo(await smallMessage(field));
    if (!infos.has(info.name)) infos.set(info.name, info);
  }
  const dense = new Map<string, StoredEntry>();
  for (const field of list.values(DENSE)) {
    const { name, value } = await readEntry(field);
    dense.set(name, { ...(await readTensor(value, file, name)), fields: [field.index] });
  }
  const tables = new Map<string, TableEntry>();
  for (const field of list.values(TABLES)) {
    const { name, value } = await readEntry(field);
    tables.set(name, { ...(await readTable(value, file, name)), fields: [field.index] });
  }
  const slots: SlotEntry[] = [];
  for (const field of list.values(SLOTS)) slots.push(await readSlot(await smallMessage(field), field, file));
  const modelVersion = Number(BigInt.asIntN(32, await readInteger(model, list, VERSION)));
  return { modelVersion, infos, dense, tables, slots, state: await readState(model, list) };
}

/** The message in a field of a file, read at once when it is small. */
export async function smallMessage(field: Field): Promise<MessageView> {
  const rules = field.rule?.message;
  if (rules === undefined) throw new TypeError(`field ${field.number} holds no message`);
  return new MessageView(rules, await readSmall(field));
}

async function readEntry(field: Field): Promise<{ name: string; value: MessageView }> {
  const entry = await smallMessage(field);
  const list = await entry.open();
  const name = await readText(entry, list, 1);
  return { name, value: await part(entry, 2) };
}

/** The message in a singular field; an empty one when it is absent. */
async function part(view: MessageView, number: number): Promise<MessageView> {
  const rule = view.rules.field(number) as FieldRule;
  const field = await view.single(rule);
  const message = field === undefined ? undefined : view.message(field);
  if (message !== undefined) return message;
  return new MessageView(rule.message as MessageView["rules"], new MemorySource(new Uint8Array(0), view.name));
}

async function readInfo(view: MessageView): Promise<TableInfo> {
  const list = await view.open();
  const name = await readText(view, list, 1);
  const dim = await readSize(view, list, 2, `dim of "${name}"`);
  const initializer = await readText(view, list, 3);
  return { name, dim, initializer, dtype: findDType(Number(await readInteger(view, list, 4))) };
}

/** Dtype, shape and place of a TensorProto whose elements are its tensor_content, which is all that ElasticDL writes. */
async function readTensor(view: MessageView, file: ByteSource, name: string): Promise<Omit<StoredEntry, "fields">> {
  const list = await view.open();
  const dtype = dtypeOf(Number(await readInteger(view, list, 1)), view.name, name);
  const shape = await readShape(await part(view, 2), name);
  const content = list.last(4);
  const source = content === undefined ? new MemorySource(new Uint8Array(0), view.name) : view.value(content);
  checkContent({ name, dtype, shape, byteLength: source.size, file: file.name });
  return { dtype, shape, content: backInFile(file, source) };
}

async function readShape(view: MessageView, name: string): Promise<Shape> {
  const list = await view.open();
  const shape: number[] = [];
  for (const field of list.values(2)) {
    const dim = view.message(field);
    if (dim !== undefined) shape.push(await readSize(dim, await dim.open(), 1, `shape of "${name}"`));
  }
  if ((await readInteger(view, list, 3)) === 0n) return shape;
  throw new CorruptionError("tensor-data", `tensor "${name}" of unknown rank`, { file: view.name });
}

/** What {@link checkContent} looks at. */
export interface CheckedContent {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly file: string;
}

/**
 * Refuses a tensor whose elements do not fill its shape, or have no fixed length.
 * @throws {@link CorruptionError} (`tensor-data`), {@link UnsupportedError} (`unsupported-dtype`)
 */
export function checkContent({ name, dtype, shape, byteLength, file }: CheckedContent): void {
  checkShape(shape, file, name);
  const width = elementBytes(dtype);
  if (width === 0 || isPacked(dtype))
    throw new UnsupportedError("unsupported-dtype", `${dtype} "${name}" in a shard`, { file });
  const expected = elementCount(shape) * width;
  if (byteLength === expected) return;
  throw new CorruptionError("tensor-data", `elements of "${name}" (${dtype} [${shape.join(", ")}])`, {
    file,
    expected: `${expected} bytes`,
    actual: `${byteLength} bytes`,
  });
}

async function readTable(view: MessageView, file: ByteSource, name: string): Promise<Omit<TableEntry, "fields">> {
  const list = await view.open();
  const ids = readVarints(view, list, 2);
  const rows = await readTensor(await part(view, 1), file, name);
  return { ...rows, ...tableRows(rows.shape, ids, name), ids: backInFile(file, ids) };
}

/**
 * Rows and width of a table. An empty one is [0, dim] when Go wrote it, and [0] when Python did.
 * @throws {@link CorruptionError} (`tensor-data`), {@link LimitError} (`limit`)
 */
export function tableRows(shape: Shape, ids: ByteSource, name: string): Pick<TableEntry, "rowCount" | "dim"> {
  const [rowCount, dim] = shape;
  const file = ids.name;
  // An id takes 1 to 10 bytes.
  if (rowCount !== undefined && (ids.size < rowCount || ids.size > 10 * rowCount)) {
    const actual = `${ids.size} bytes of ids`;
    throw new CorruptionError("tensor-data", `ids of embedding table "${name}"`, { file, expected: rowCount, actual });
  }
  if (shape.length === 1 && rowCount === 0) return { rowCount, dim: undefined };
  if (rowCount === undefined || dim === undefined || shape.length > 2) {
    const what = `rows of embedding table "${name}"`;
    throw new CorruptionError("tensor-data", what, { file, expected: "[rows, dim]", actual: `[${shape.join(", ")}]` });
  }
  if (rowCount <= MAX_EMBEDDING_ROWS) return { rowCount, dim };
  const limit = `at most ${MAX_EMBEDDING_ROWS}`;
  throw new LimitError("limit", `rows of embedding table "${name}"`, { file, expected: limit, actual: rowCount });
}

async function readSlot(view: MessageView, field: Field, file: ByteSource): Promise<SlotEntry> {
  const list = await view.open();
  const owner = await readText(view, list, 1);
  const name = await readText(view, list, 2);
  const isEmbedding = (await readInteger(view, list, 3)) !== 0n;
  const tensor = await readTensor(await part(view, 4), file, `${owner}, slot ${name}`);
  return { owner, name, isEmbedding, ...tensor, fields: [field.index] };
}

async function readState(model: MessageView, list: FieldList): Promise<TrainingState> {
  const rule = model.rules.field(STATE) as FieldRule;
  if (list.count(STATE) === 0) return NO_STATE;
  const field = (await model.single(rule)) as Field;
  const value = model.value(field);
  if (value.size > MAX_STATE_BYTES) {
    const expected = `at most ${MAX_STATE_BYTES} bytes`;
    throw new LimitError("limit", "training state", { file: model.name, expected, actual: value.size });
  }
  try {
    const { integers, numbers, texts } = fromBinary(TrainingStateSchema, await value.read(0, value.size));
    return {
      integers: new Map(Object.entries(integers)),
      numbers: new Map(Object.entries(numbers)),
      texts: new Map(Object.entries(texts)),
    };
  } catch (cause) {
    throw new CorruptionError("invalid-wire", "training state is no message", { file: model.name, cause });
  }
}
