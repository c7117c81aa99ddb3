import type { ByteSink } from "../../bytes/byte-sink.js";
import type { StreamOptions } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { prepareCrc32c } from "../../codecs/crc32c.js";
import { UsageError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import { encodeIds } from "./id-codec.js";
import { isEmptyState, type ModelContents, stateFor } from "./model-contents.js";
import { formatShardName, type Layout, versionTarget } from "./names.js";
import { checkPsNum, keyToId } from "./partition.js";
import { createAmongOthers, publishVersion } from "./publish.js";
import { rowData } from "./restore.js";
import { type RowBuffer, routeRows, rowBufferBytes } from "./row-router.js";
import {
  type FieldPlan,
  planDense,
  planHeader,
  planInfo,
  planSlot,
  planState,
  planTable,
  planVersion,
} from "./shard-encoding.js";
import { checkSizes, type SharePlan, shardByteLengths } from "./shard-sizes.js";
import { ShardWriter } from "./shard-writer.js";
import { planRows, splitIds, type TablePlan } from "./table-plan.js";
import { rowByteLength } from "./version-contents.js";

/** Shards that are written at once; for more the source is read again. */
const SHARDS_AT_ONCE = 128;
/** Memory for small writes of all writers together, 16 MiB. */
const WRITER_MEMORY_BYTES = 16 * 1024 * 1024;

/** Options of {@link writeVersion}. */
export interface WriteVersionOptions extends StreamOptions {
  /** How many parameter servers, and so shards; 1 when absent. */
  readonly psNum?: number | undefined;
  readonly layout?: Layout | undefined;
  /** Replace a version that is there. */
  readonly overwrite?: boolean | undefined;
  /** Decide and check only, and write nothing. */
  readonly dryRun?: boolean | undefined;
  /** Called when all is written and before it gets its name; what it throws leaves nothing behind. */
  readonly verify?: (() => Promise<void>) | undefined;
}

/** A version that was written. */
export interface WrittenVersion {
  readonly path: string;
  readonly modelVersion: number;
  readonly shards: readonly { readonly path: string; readonly byteLength: number }[];
}

/**
 * Writes a model as one version: each variable and row in the shard of its server. `path` is the version directory when
 * it is named as one, else the checkpoint directory that gets it. Elements are streamed, rows keep the order of the
 * source, and nothing is visible before all of it is there.
 * @throws {@link UsageError} (`exists`, `usage`), LimitError (`limit`) for a shard of 2 GiB or more, with the number of
 * servers that would do
 */
export async function writeVersion(
  files: FileStore,
  path: string,
  contents: ModelContents,
  options: WriteVersionOptions = {},
): Promise<WrittenVersion> {
  const { psNum = 1, overwrite = false } = options;
  checkPsNum(psNum);
  checkModelVersion(contents.modelVersion);
  const target = versionTarget(path, contents.modelVersion, options.layout);
  const { plan, sizes } = await planShards(contents, psNum, target.path, options);
  const names = sizes.map((_, psId) => formatShardName({ psId, psNum }, target.layout));
  const shards = names.map((name, psId) => ({ path: joinPath(target.path, name), byteLength: sizes[psId] as number }));
  const written = { path: target.path, modelVersion: contents.modelVersion, shards };
  if (options.dryRun) return written;
  await publishVersion(files, target, overwrite, async (temporary) => {
    for (let first = 0; first < psNum; first += SHARDS_AT_ONCE) {
      const group = names.slice(first, first + SHARDS_AT_ONCE).map((name, i) => ({
        psId: first + i,
        path: joinPath(temporary, name),
        byteLength: sizes[first + i] as number,
      }));
      await writeShards(files, group, plan);
    }
    await options.verify?.();
  });
  return written;
}

/** Refuses a version that has no place in the name of a directory. @throws {@link UsageError} (`usage`) */
export function checkModelVersion(modelVersion: number): void {
  if (Number.isInteger(modelVersion) && modelVersion >= 0 && modelVersion < 2 ** 31) return;
  throw new UsageError("usage", "model version", { expected: "0 to 2^31 - 1", actual: modelVersion });
}

/** A model and where its parts go, ready to be written. */
export interface VersionPlan extends SharePlan {
  readonly options: StreamOptions;
}

/**
 * Decides what goes into which shard, and how many bytes each takes.
 * @throws LimitError (`limit`) for a shard of 2 GiB or more
 */
export async function planShards(
  contents: ModelContents,
  psNum: number,
  path: string,
  options: StreamOptions,
): Promise<{ readonly plan: VersionPlan; readonly sizes: readonly number[] }> {
  const tables: TablePlan[] = [];
  for (const table of contents.tables) tables.push(await planRows(table, psNum));
  const owners = contents.dense.map(({ name }) => keyToId(name, psNum));
  const plan = { contents, tables, owners, psNum, options };
  const sizes = shardByteLengths(plan);
  checkSizes(plan, sizes, path);
  return { plan, sizes };
}

/** A shard to be written. */
export interface PlannedFile {
  readonly psId: number;
  readonly path: string;
  readonly byteLength: number;
}

/** A shard that is being written. */
interface OpenShard extends PlannedFile {
  readonly sink: ByteSink;
  readonly writer: ShardWriter;
}

/** Writes some of the shards of a plan; each has its name when all of it is on the disk. */
export async function writeShards(files: FileStore, group: readonly PlannedFile[], plan: VersionPlan): Promise<void> {
  const shards: OpenShard[] = [];
  await prepareCrc32c(group.reduce((sum, { byteLength }) => sum + byteLength, 0));
  const bufferBytes = Math.min(256 * 1024, Math.floor(WRITER_MEMORY_BYTES / group.length));
  try {
    for (const file of group) {
      const sink = await createAmongOthers(files, file.path, { expectedBytes: file.byteLength });
      shards.push({ ...file, sink, writer: new ShardWriter(sink, bufferBytes) });
    }
    await writeFields(shards, plan);
    for (const { writer, sink, byteLength, path } of shards) {
      await writer.finish();
      if (sink.position !== byteLength) throw new TypeError(`${path}: ${sink.position} bytes, planned ${byteLength}`);
      await sink.close();
    }
  } catch (error) {
    for (const { sink } of shards) await sink.abort();
    throw error;
  }
}

async function writeFields(shards: readonly OpenShard[], plan: VersionPlan): Promise<void> {
  const { contents, tables, psNum, options } = plan;
  const version = planVersion(contents.modelVersion);
  for (const { writer, psId } of shards) {
    await writer.add(planHeader({ psId, psNum }));
    if (version !== undefined) await writer.add(version);
    for (const table of contents.tables) await writer.add(planInfo(table));
  }
  for (const [i, { name, dtype, shape, data }] of contents.dense.entries()) {
    const writer = ownerOf(shards, plan.owners[i] as number);
    if (writer === undefined) continue;
    await writer.begin(planDense(name, dtype, shape));
    await writer.writeFrom(data(), options.onBytes, options.signal);
    await writer.end();
  }
  for (const table of tables) await writeTable(table, shards, plan);
  await writeSlots(shards, plan);
  for (const { writer, psId } of shards) {
    const state = stateFor(contents.states, psId, psNum);
    if (!isEmptyState(state)) await writer.add(planState(state));
  }
}

function ownerOf(shards: readonly OpenShard[], psId: number): ShardWriter | undefined {
  return shards[psId - (shards[0]?.psId ?? 0)]?.writer;
}

async function writeTable(tablePlan: TablePlan, shards: readonly OpenShard[], plan: VersionPlan): Promise<void> {
  const { table, rowCounts, idBytes, ids, dropped } = tablePlan;
  const field = (psId: number) => {
    const counts = { rowCount: rowCounts[psId] as number, idBytes: idBytes[psId] as number };
    return planTable({ name: table.name, dtype: table.dtype, dim: table.dim, ...counts });
  };
  await writeRows(tablePlan, { rowBytes: rowByteLength(table), slot: undefined, field }, shards, plan);
  for await (const batch of ids.all()) {
    for (const [psId, share] of splitIds(batch, plan.psNum, dropped)) {
      await ownerOf(shards, psId)?.write(encodeIds(share));
    }
  }
  for (const { writer } of shards) await writer.end();
}

async function writeSlots(shards: readonly OpenShard[], plan: VersionPlan): Promise<void> {
  const { contents, tables, options } = plan;
  for (const [i, { name: owner, slots }] of contents.dense.entries()) {
    const writer = ownerOf(shards, plan.owners[i] as number);
    for (const [name, { dtype, shape, data }] of writer === undefined ? [] : slots) {
      await writer?.begin(planSlot({ owner, name, isEmbedding: false, dtype, shape }));
      await writer?.writeFrom(data(), options.onBytes, options.signal);
      await writer?.end();
    }
  }
  for (const tablePlan of tables) {
    const { table, rowCounts } = tablePlan;
    for (const { name, dtype, rowShape } of table.slots) {
      const field = (psId: number) => {
        const shape = [rowCounts[psId] as number, ...rowShape];
        return planSlot({ owner: table.name, name, isEmbedding: true, dtype, shape });
      };
      const rowBytes = elementCount(rowShape) * elementBytes(dtype);
      await writeRows(tablePlan, { rowBytes, slot: name, field }, shards, plan);
      for (const { writer } of shards) await writer.end();
    }
  }
}

interface RowField {
  readonly rowBytes: number;
  /** The slot whose rows these are; the table's own when undefined. */
  readonly slot: string | undefined;
  readonly field: (psId: number) => FieldPlan;
}

/** Begins a field in each shard and writes the rows of a table, or of a slot of it, into them. */
async function writeRows(
  tablePlan: TablePlan,
  { rowBytes, slot, field }: RowField,
  shards: readonly OpenShard[],
  { psNum, options }: VersionPlan,
): Promise<void> {
  const buffers: (RowBuffer | undefined)[] = new Array(psNum).fill(undefined);
  const room = rowBufferBytes(rowBytes);
  for (const { writer, psId } of shards) {
    await writer.begin(field(psId));
    const byteLength = Math.min(room, (tablePlan.rowCounts[psId] as number) * rowBytes);
    buffers[psId] = { bytes: new Uint8Array(byteLength), filled: 0, flush: (bytes) => writer.write(bytes) };
  }
  const { onBytes, signal } = options;
  const data = (part: number) => rowData(tablePlan.table, part, slot);
  await routeRows({ plan: tablePlan, psNum, rowBytes, data, buffers, onBytes, signal });
}
