import type { ByteSource } from "../../bytes/byte-source.js";
import { CorruptionError, NotFoundError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import { compareKeys } from "../../tensor/key-order.js";
import { type Region, regionSource } from "../../tensor/region.js";
import { elementCount, type Shape } from "../../tensor/shape.js";
import type { TensorFact, TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import type { EmbeddingTable } from "./model-contents.js";
import { TableIndex } from "./table-index.js";
import type { VersionContents } from "./version-contents.js";

/** Between a variable's name and that of its slot. TensorFlow's checkpoints have the same word for it. */
export const SLOT_MARK = "/.OPTIMIZER_SLOT/";
/** Under this key a version's number travels along to other formats. */
export const VERSION_METADATA = "elasticdl.model_version";

/** A tensor, and how to read it. */
interface KnownTensor {
  readonly info: TensorInfo;
  readonly data: () => Promise<ByteSource>;
  readonly table?: { readonly table: EmbeddingTable; readonly slot?: string } | undefined;
}

/**
 * The variables, tables and slots of a version as tensors. A table's data is its rows in ascending order of their ids; its
 * ids are read and sorted when one of its rows is first asked for.
 */
export class TrainingTensors implements TensorSource {
  private readonly contents: VersionContents;
  private readonly path: string;
  private readonly known = new Map<string, KnownTensor>();
  private readonly indexes = new Map<EmbeddingTable, Promise<TableIndex>>();

  /** The tensors of open shards, which are closed with them. @throws {@link CorruptionError} (`duplicate-key`) */
  constructor(contents: VersionContents, path: string) {
    this.contents = contents;
    this.path = path;
    for (const variable of contents.dense) {
      const { name, shard, dtype, shape } = variable;
      const facts: Record<string, TensorFact> = shard === undefined ? {} : { shard };
      this.add({ key: name, dtype, shape, byteLength: byteLengthOf(dtype, shape), facts }, async () => variable.data());
      for (const [slot, tensor] of variable.slots) {
        const info = { dtype: tensor.dtype, shape: tensor.shape, byteLength: byteLengthOf(tensor.dtype, tensor.shape) };
        this.add({ ...slotNames(name, slot), ...info, facts }, async () => tensor.data());
      }
    }
    for (const table of contents.tables) this.addTable(table);
  }

  /** See {@link TensorSource.tensors}. */
  async *tensors(): AsyncGenerator<TensorInfo> {
    for (const key of [...this.known.keys()].sort(compareKeys)) yield await this.info(key);
  }

  /** See {@link TensorSource.info}. */
  async info(key: string): Promise<TensorInfo> {
    return this.find(key).info;
  }

  /** See {@link TensorSource.data}. */
  async data(key: string, region?: Region): Promise<ByteSource> {
    const { info, data } = this.find(key);
    const source = await data();
    return region === undefined ? source : regionSource(source, info.shape, elementBytes(info.dtype), region);
  }

  /** See {@link TensorSource.ids}. */
  async ids(key: string): Promise<BigInt64Array> {
    return (await this.indexOf(this.tableOf(key).table)).ids;
  }

  /** See {@link TensorSource.rows}. */
  async rows(key: string, ids: BigInt64Array): Promise<ByteSource> {
    const { table, slot } = this.tableOf(key);
    return (await this.indexOf(table)).rowsOf(ids, slot);
  }

  /** See {@link TensorSource.metadata}. */
  async metadata(): Promise<Readonly<Record<string, string>>> {
    return { [VERSION_METADATA]: String(this.contents.modelVersion) };
  }

  /** See {@link TensorSource.verify}. */
  verify(): Promise<void> {
    return this.contents.verify();
  }

  /** See {@link TensorSource.close}. */
  close(): Promise<void> {
    return this.contents.close();
  }

  private addTable(table: EmbeddingTable): void {
    const { name, dtype, dim, initializer } = table;
    const rows = table.parts.reduce((sum, { rowCount }) => sum + rowCount, 0);
    const embedding = { dim, rows, initializer };
    const shape = [rows, dim];
    const facts = { kind: "embedding", ...embedding };
    const info = { key: name, dtype, shape, byteLength: byteLengthOf(dtype, shape), embedding, facts };
    this.add(info, async () => (await this.indexOf(table)).rows(), { table });
    for (const { name: slot, dtype: slotDtype, rowShape } of table.slots) {
      const slotShape = [rows, ...rowShape];
      const size = { dtype: slotDtype, shape: slotShape, byteLength: byteLengthOf(slotDtype, slotShape) };
      const names = slotNames(name, slot);
      this.add({ ...names, ...size }, async () => (await this.indexOf(table)).rows(slot), { table, slot });
    }
  }

  private add(info: TensorInfo, data: KnownTensor["data"], table?: KnownTensor["table"]): void {
    if (this.known.has(info.key)) {
      const what = `"${info.key}" is a variable and an embedding table`;
      throw new CorruptionError("duplicate-key", what, { file: this.path });
    }
    this.known.set(info.key, { info, data, table });
  }

  private find(key: string): KnownTensor {
    const known = this.known.get(key);
    if (known !== undefined) return known;
    const hint = 'List its keys with "cairn tensors".';
    throw new NotFoundError("no-such-key", `no variable or embedding table "${key}"`, { file: this.path, hint });
  }

  private tableOf(key: string): { readonly table: EmbeddingTable; readonly slot?: string } {
    const { table } = this.find(key);
    if (table !== undefined) return table;
    throw new NotFoundError("no-such-id", `"${key}" is no embedding table and has no ids`, { file: this.path });
  }

  private indexOf(table: EmbeddingTable): Promise<TableIndex> {
    const known = this.indexes.get(table);
    if (known !== undefined) return known;
    const index = TableIndex.read(table, this.path);
    this.indexes.set(table, index);
    index.catch(() => this.indexes.delete(table));
    return index;
  }
}

function byteLengthOf(dtype: TensorInfo["dtype"], shape: Shape): number {
  return elementCount(shape) * elementBytes(dtype);
}

function slotNames(owner: string, slot: string) {
  return { key: `${owner}${SLOT_MARK}${slot}`, role: "slot" as const };
}
