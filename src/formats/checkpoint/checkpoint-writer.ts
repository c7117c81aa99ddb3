import { type ByteSink, fillSink } from "../../bytes/byte-sink.js";
import type { FileStore } from "../../bytes/file-store.js";
import { PlanError } from "../../errors.js";
import type { PlannedShard, ShardPlan } from "../../sharding/shard-plan.js";
import { formatSidecar } from "../../sharding/sidecar.js";
import { descriptionPath, indexPath, shardPath } from "./bundle-paths.js";
import { Publication } from "./publication.js";
import type { ShardStreamOptions } from "./shard-stream.js";
import { collectEntries, writeIndex } from "./write-index.js";
import { type WrittenSlice, writeShard } from "./write-shard.js";

/** Options of {@link writeCheckpoint}. */
export interface WriteCheckpointOptions extends ShardStreamOptions {
  /** Replace a checkpoint of this prefix. */
  readonly overwrite?: boolean | undefined;
  /** Called when all data have been read and written, before anything is visible: the last place to refuse it. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
}

/** A data file that was written. */
export interface WrittenShard {
  readonly path: string;
  readonly byteLength: number;
}

/**
 * Writes a V2 checkpoint: a data file for each shard of the plan, an index, and the description of the plan beside them.
 * The files are those that TensorFlow writes of the same tensors. Each tensor is read when its turn comes; those that are
 * in memory must not change before the work is done. The checkpoint is visible when all of it is written, and replaces
 * another of the prefix in one step.
 * @throws UsageError (`exists`), PlanError (`invalid-plan`), UnsupportedError (`unsupported-dtype`), StorageError
 *   (`write-failed`), and what reading the tensors throws
 */
export async function writeCheckpoint(
  files: FileStore,
  prefix: string,
  plan: ShardPlan,
  options: WriteCheckpointOptions = {},
): Promise<readonly WrittenShard[]> {
  checkShards(plan);
  const publication = await Publication.begin(files, prefix, { overwrite: options.overwrite });
  try {
    const { written, shards } = await writeShards(publication, prefix, plan, options);
    const entries = collectEntries(written);
    await options.beforeCommit?.();
    const header = { shardCount: plan.shards.length, isBigEndian: false };
    await writeFile(publication, descriptionPath(prefix), (sink) =>
      sink.write(new TextEncoder().encode(formatSidecar(plan))),
    );
    await writeFile(publication, indexPath(prefix), (sink) => writeIndex(sink, entries, header));
    await publication.commit();
    return shards;
  } catch (error) {
    await publication.abort().catch(() => {}); // what went wrong first is what counts
    throw error;
  }
}

function checkShards({ shards }: ShardPlan): void {
  if (shards.length === 0) throw new PlanError("invalid-plan", "a checkpoint needs at least one shard");
  const empty = shards.findIndex(({ slices }) => slices.length === 0);
  if (empty >= 0) throw new PlanError("invalid-plan", `shard ${empty} holds no tensor`);
}

async function writeShards(
  publication: Publication,
  prefix: string,
  { shards: planned }: ShardPlan,
  options: ShardStreamOptions,
): Promise<{ written: WrittenSlice[]; shards: WrittenShard[] }> {
  const written: WrittenSlice[] = [];
  const shards: WrittenShard[] = [];
  let left = planned.reduce((sum, shard) => sum + byteLengthOf(shard), 0);
  for (const [shardId, shard] of planned.entries()) {
    const path = shardPath(prefix, shardId, planned.length);
    // Room for all that is still to come, so that a full disk is known before the work starts.
    const expectedBytes = left;
    left -= byteLengthOf(shard);
    const byteLength = await writeFile(
      publication,
      path,
      async (sink) => {
        for (const slice of await writeShard(sink, shard, shardId, options)) written.push(slice);
      },
      expectedBytes,
    );
    shards.push({ path, byteLength });
  }
  return { written, shards };
}

function byteLengthOf({ slices }: PlannedShard): number {
  return slices.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
}

/** Writes one file of a checkpoint, and gives its size. */
export async function writeFile(
  publication: Publication,
  path: string,
  write: (sink: ByteSink) => Promise<void>,
  expectedBytes?: number,
): Promise<number> {
  const sink = await publication.create(path, expectedBytes);
  await fillSink(sink, () => write(sink));
  return sink.position;
}
