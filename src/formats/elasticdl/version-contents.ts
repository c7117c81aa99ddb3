import type { ByteSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { CorruptionError } from "../../errors.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import { IdReader } from "./id-codec.js";
import type {
  DenseVariable,
  EmbeddingRows,
  EmbeddingTable,
  ModelContents,
  RowSlot,
  StoredTensor,
  TrainingState,
} from "./model-contents.js";
import type { SlotEntry, StoredEntry, TableEntry, TableInfo } from "./shard-catalog.js";
import { ShardFile } from "./shard-file.js";

/** All shards of one version, open, as one model. */
export class VersionContents implements ModelContents {
  readonly modelVersion: number;
  readonly dense: readonly DenseVariable[];
  readonly tables: readonly EmbeddingTable[];
  readonly states: readonly TrainingState[];
  readonly shards: readonly ShardFile[];

  /**
   * Joins open shards: of a variable that stands in several the last counts, of an info the first.
   * @throws {@link CorruptionError} (`version-mismatch`, `tensor-data`) when they do not belong together
   */
  constructor(shards: readonly ShardFile[]) {
    this.shards = shards;
    this.modelVersion = commonVersion(shards);
    this.dense = joinDense(shards);
    this.tables = joinTables(shards);
    this.states = shards.map(({ catalog }) => catalog.state);
  }

  /** Opens the shards at these paths. @throws what {@link ShardFile.open} throws, and the constructor */
  static async open(files: FileStore, paths: readonly string[]): Promise<VersionContents> {
    const shards: ShardFile[] = [];
    try {
      for (const path of paths) shards.push(await ShardFile.open(files, path));
      return new VersionContents(shards);
    } catch (error) {
      await closeAll(shards);
      throw error;
    }
  }

  /** Bytes of all shards. */
  get byteLength(): number {
    return this.shards.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Checks what was read so far against the checksums. @throws {@link CorruptionError} (`shard-checksum`) */
  async verify(): Promise<void> {
    for (const shard of this.shards) await shard.verify();
  }

  /** Gives the files back. */
  async close(): Promise<void> {
    await closeAll(this.shards);
  }
}

async function closeAll(shards: readonly ShardFile[]): Promise<void> {
  for (const shard of shards) await shard.close();
}

function commonVersion(shards: readonly ShardFile[]): number {
  const [first, ...others] = shards;
  const modelVersion = first?.catalog.modelVersion ?? 0;
  for (const { path, catalog } of others) {
    if (catalog.modelVersion === modelVersion) continue;
    throw new CorruptionError("version-mismatch", "model version of a shard", {
      file: path,
      expected: modelVersion,
      actual: catalog.modelVersion,
    });
  }
  return modelVersion;
}

/** Slots by what they belong to. */
type SlotsByOwner = ReadonlyMap<string, ReadonlyMap<string, SlotEntry>>;

function slotsOf(shard: ShardFile, isEmbedding: boolean): SlotsByOwner {
  const owners = new Map<string, Map<string, SlotEntry>>();
  for (const slot of shard.catalog.slots) {
    if (slot.isEmbedding !== isEmbedding) continue;
    const slots = owners.get(slot.owner) ?? new Map<string, SlotEntry>();
    owners.set(slot.owner, slots.set(slot.name, slot));
  }
  return owners;
}

function stored(shard: ShardFile, entry: StoredEntry): StoredTensor {
  return { dtype: entry.dtype, shape: entry.shape, data: () => shard.elements(entry) };
}

function storedSlots(shard: ShardFile, slots: ReadonlyMap<string, SlotEntry> | undefined): Map<string, StoredTensor> {
  return new Map(Array.from(slots ?? [], ([name, slot]) => [name, stored(shard, slot)]));
}

function joinDense(shards: readonly ShardFile[]): DenseVariable[] {
  const joined = new Map<string, DenseVariable>();
  for (const shard of shards) {
    const slots = slotsOf(shard, false);
    for (const [name, entry] of shard.catalog.dense) {
      joined.set(name, {
        name,
        shard: baseName(shard.path),
        ...stored(shard, entry),
        slots: storedSlots(shard, slots.get(name)),
      });
    }
  }
  return [...joined.values()];
}

interface TablePart {
  readonly shard: ShardFile;
  readonly entry: TableEntry;
  readonly slots: ReadonlyMap<string, SlotEntry>;
}

function joinTables(shards: readonly ShardFile[]): EmbeddingTable[] {
  const infos = new Map<string, TableInfo>();
  const parts = new Map<string, TablePart[]>();
  for (const shard of shards) {
    const slots = slotsOf(shard, true);
    for (const [name, info] of shard.catalog.infos) if (!infos.has(name)) infos.set(name, info);
    for (const [name, entry] of shard.catalog.tables) {
      const list = parts.get(name) ?? [];
      parts.set(name, list);
      list.push({ shard, entry, slots: slots.get(name) ?? new Map() });
    }
  }
  return [...new Set([...infos.keys(), ...parts.keys()])].map((name) =>
    joinTable(name, infos.get(name), parts.get(name) ?? []),
  );
}

function joinTable(name: string, info: TableInfo | undefined, parts: readonly TablePart[]): EmbeddingTable {
  const filled = parts.filter(({ entry }) => entry.rowCount > 0);
  const [first] = filled;
  // An empty table of ElasticDL's Python says float64 whatever it holds later.
  const dtype = first?.entry.dtype ?? info?.dtype ?? parts[0]?.entry.dtype ?? "float32";
  const dim = info?.dim ?? first?.entry.dim ?? parts.find(({ entry }) => entry.dim !== undefined)?.entry.dim ?? 0;
  for (const { entry, shard } of filled) {
    if (entry.dim === dim && entry.dtype === dtype) continue;
    throw new CorruptionError("tensor-data", `rows of embedding table "${name}"`, {
      file: shard.path,
      offset: shard.offsetOf(entry),
      expected: `${dtype} of ${dim} elements`,
      actual: `${entry.dtype} of ${entry.dim}`,
    });
  }
  const slots = commonSlots(name, filled);
  const rows = filled.map((part) => new ShardRows(name, part));
  return { name, dim, dtype, initializer: info?.initializer ?? "", parts: rows, slots };
}

/** The slots of a table; all parts have to have the same. @throws {@link CorruptionError} (`tensor-data`) */
function commonSlots(table: string, parts: readonly TablePart[]): RowSlot[] {
  const found = new Map<string, RowSlot>();
  for (const { shard, slots, entry } of parts) {
    for (const [name, { dtype, shape, content }] of slots) {
      const rowShape = shape.slice(1);
      const known = found.get(name);
      const isSame = known === undefined || (known.dtype === dtype && String(known.rowShape) === String(rowShape));
      if (!isSame || shape[0] !== entry.rowCount) {
        throw new CorruptionError("tensor-data", `slot "${name}" of embedding table "${table}"`, {
          file: content.name,
          expected:
            known === undefined ? `${entry.rowCount} rows` : `${known.dtype} [${entry.rowCount}, ${known.rowShape}]`,
          actual: `${dtype} [${shape}]`,
        });
      }
      found.set(name, { name, dtype, rowShape });
    }
    for (const name of found.keys()) {
      if (slots.has(name) && parts[0]?.slots.has(name)) continue;
      const what = `slot "${name}" of embedding table "${table}" stands in some shards only`;
      throw new CorruptionError("tensor-data", what, { file: shard.path });
    }
  }
  return [...found.values()];
}

/** The rows of a table in one shard. */
class ShardRows implements EmbeddingRows {
  readonly rowCount: number;
  readonly slots: ReadonlyMap<string, StoredTensor>;
  private readonly table: string;
  private readonly part: TablePart;

  constructor(table: string, part: TablePart) {
    this.table = table;
    this.part = part;
    this.rowCount = part.entry.rowCount;
    this.slots = storedSlots(part.shard, part.slots);
  }

  async *idBatches(limit: number): AsyncGenerator<BigInt64Array> {
    const { entry, shard } = this.part;
    const reader = new IdReader(shard.idBytes(entry));
    let left = this.rowCount;
    while (left > 0) {
      const ids = await reader.next(Math.min(limit, left));
      if (ids.length === 0) throw this.wrongCount(`${this.rowCount - left}`);
      left -= ids.length;
      yield ids;
    }
    if (!reader.isAtEnd) throw this.wrongCount("more");
  }

  data(): ByteSource {
    return this.part.shard.elements(this.part.entry);
  }

  private wrongCount(actual: string): CorruptionError {
    const { entry, shard } = this.part;
    return new CorruptionError("tensor-data", `ids of embedding table "${this.table}"`, {
      file: shard.path,
      offset: shard.offsetOf(entry),
      expected: this.rowCount,
      actual,
    });
  }
}

/** Bytes of one row of a table. */
export function rowByteLength({ dim, dtype }: { readonly dim: number; readonly dtype: DType }): number {
  return dim * elementBytes(dtype);
}
