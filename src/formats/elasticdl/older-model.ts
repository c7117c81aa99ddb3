import type { ByteSource } from "../../bytes/byte-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { CorruptionError, UnsupportedError } from "../../errors.js";
import type { Field, FieldList } from "../../proto/field-list.js";
import { ModelSchema } from "../../proto/gen/elasticdl/older_model_pb.js";
import { WIRE } from "../../proto/message-rules.js";
import { MessageView } from "../../proto/message-view.js";
import type { DType } from "../../tensor/dtype.js";
import type { Shape } from "../../tensor/shape.js";
import { IdReader } from "./id-codec.js";
import { backInFile, checkWireTypes, readInteger, readSize, readText, readVarints } from "./message-parts.js";
import { NO_STATE } from "./model-contents.js";
import { checkContent, smallMessage, tableRows } from "./model-reader.js";
import type { ShardCatalog, StoredEntry, TableEntry, TableInfo } from "./shard-catalog.js";

// Source: elasticdl/proto/elasticdl.proto of November 2019, TensorDtype.
const DTYPES: Readonly<Record<number, DType>> = {
  1: "int8",
  2: "int16",
  3: "int32",
  4: "int64",
  5: "float16",
  6: "float32",
  7: "float64",
  8: "bool",
};
/** The rank of a tensor is at most this; its sizes are read at once. */
const MAX_SIZES = 254;

/**
 * Whether a file is a Model of the older form, whose fields 2 and 3 mean something else: looks at what is in them. A file
 * with neither reads the same in both forms.
 * @throws {@link CorruptionError} (`ambiguous-message`) when it cannot be told
 */
export async function isOlderModel(model: MessageView): Promise<boolean> {
  const list = await model.open();
  if (list.count(4) > 0) return false;
  const verdicts = new Set<boolean | undefined>();
  for (const field of list.values(2)) verdicts.add(isOlderField2(await rawFields(field)));
  for (const field of list.values(3)) verdicts.add(isOlderField3(await rawFields(field)));
  const isUndecided = verdicts.delete(undefined);
  if (verdicts.size === 1) return verdicts.has(true);
  if (verdicts.size === 0 && !isUndecided) return false;
  throw new CorruptionError(
    "ambiguous-message",
    "neither clearly a Model of ElasticDL's first form nor of the released",
    {
      file: model.name,
      hint: "A shard of the released form can be renamed from .chkpt to .ckpt.",
    },
  );
}

/** An older Tensor has a dtype in field 5; an EmbeddingTableInfo of the released form has numbers in 2 and 4 and no more. */
function isOlderField2(fields: FieldList): boolean | undefined {
  if (wireTypeOf(fields, 5) === WIRE.varint) return true;
  const hasNumber = wireTypeOf(fields, 2) === WIRE.varint || wireTypeOf(fields, 4) === WIRE.varint;
  return hasNumber && fields.count(5) === 0 ? false : undefined;
}

/** An older EmbeddingTableInfo has a number in field 2, a map entry of the released form a TensorProto. */
function isOlderField3(fields: FieldList): boolean | undefined {
  const wireType = wireTypeOf(fields, 2);
  if (wireType === WIRE.varint) return true;
  return wireType === WIRE.bytes && fields.count(3) === 0 ? false : undefined;
}

async function rawFields(field: Field): Promise<FieldList> {
  return (await smallMessage(field)).open();
}

function wireTypeOf(fields: FieldList, number: number): number | undefined {
  return fields.at(number, 0)?.wireType;
}

/**
 * What an older Model holds, and where; no element is read. A Tensor with indices is rows of an embedding table.
 * @throws {@link CorruptionError} (`invalid-wire`, `tensor-data`), {@link UnsupportedError} (`unsupported-dtype`)
 */
export async function readOlderModel(source: ByteSource): Promise<ShardCatalog> {
  const model = MessageView.of(ModelSchema, source);
  const list = await model.open();
  checkWireTypes(list, [1, 2, 3]);
  const infos = new Map<string, TableInfo>();
  for (const field of list.values(3)) {
    const view = await smallMessage(field);
    const fields = await view.open();
    const name = await readText(view, fields, 1);
    const dim = await readSize(view, fields, 2, `dim of "${name}"`);
    infos.set(name, { name, dim, initializer: await readText(view, fields, 3), dtype: undefined });
  }
  const dense = new Map<string, StoredEntry>();
  const tables = new Map<string, TableEntry>();
  for (const field of list.values(2)) await takeTensor(field, source, { infos, dense, tables });
  const modelVersion = Number(BigInt.asIntN(32, await readInteger(model, list, 1)));
  return { modelVersion, infos, dense, tables, slots: [], state: NO_STATE };
}

interface Catalog {
  readonly infos: ReadonlyMap<string, TableInfo>;
  readonly dense: Map<string, StoredEntry>;
  readonly tables: Map<string, TableEntry>;
}

async function takeTensor(field: Field, file: ByteSource, into: Catalog): Promise<void> {
  const view = await smallMessage(field);
  const list = await view.open();
  const name = await readText(view, list, 1);
  const number = Number(await readInteger(view, list, 5));
  const dtype = DTYPES[number];
  if (dtype === undefined) {
    throw new UnsupportedError("unsupported-dtype", `dtype number ${number} of "${name}"`, { file: view.name });
  }
  const shape = await readSizes(readVarints(view, list, 2), name);
  const content = list.last(3);
  const data = content === undefined ? new MemorySource(new Uint8Array(0), view.name) : view.value(content);
  checkContent({ name, dtype, shape, byteLength: data.size, file: view.name });
  const entry = { dtype, shape, content: backInFile(file, data), fields: [field.index] };
  const ids = readVarints(view, list, 4);
  if (ids.size === 0 && !into.infos.has(name)) into.dense.set(name, entry);
  else addRows(into.tables, name, { ...entry, ...tableRows(shape, ids, name), ids: backInFile(file, ids) });
}

async function readSizes(varints: ByteSource, name: string): Promise<Shape> {
  const sizes = await new IdReader(varints).next(MAX_SIZES + 1);
  if (sizes.length <= MAX_SIZES) return Array.from(sizes, Number);
  throw new CorruptionError("tensor-data", `rank of "${name}"`, { file: varints.name, expected: MAX_SIZES });
}

/** Rows of one table may stand in several Tensors. */
function addRows(tables: Map<string, TableEntry>, name: string, more: TableEntry): void {
  const known = tables.get(name);
  if (known === undefined || known.rowCount === 0) {
    tables.set(name, more);
    return;
  }
  if (more.rowCount === 0) return;
  if (known.dim !== more.dim || known.dtype !== more.dtype) {
    throw new CorruptionError("tensor-data", `rows of embedding table "${name}" differ in form`, {
      file: more.content.name,
      expected: `${known.dtype} ${known.dim}`,
      actual: `${more.dtype} ${more.dim}`,
    });
  }
  const rowCount = known.rowCount + more.rowCount;
  tables.set(name, {
    ...known,
    rowCount,
    shape: [rowCount, ...known.shape.slice(1)],
    content: joinSources(more.content.name, [known.content, more.content]),
    ids: joinSources(more.ids.name, [known.ids, more.ids]),
    fields: [...known.fields, ...more.fields],
  });
}
