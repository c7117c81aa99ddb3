import type { FileStore } from "../bytes/file-store.js";
import { CairnError, NotFoundError, PlanError } from "../errors.js";
import { descriptionPath } from "../formats/checkpoint/bundle-paths.js";
import { openCheckpoint } from "../formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../formats/checkpoint/checkpoint-writer.js";
import { MAX_STATE_FILE_BYTES } from "../limits.js";
import { decodeObjectGraph, type ObjectGraph } from "../proto/object-graph.js";
import {
  measurePlan,
  parseDevice,
  parseSidecar,
  planShards,
  ShardableTensor,
  ShardByTaskPolicy,
  type ShardingMetrics,
  type ShardPlan,
  taskOf,
} from "../sharding/index.js";
import type { CheckpointOptions } from "./checkpoint.js";
import { gatherTensors } from "./gather.js";
import { OBJECT_GRAPH_KEY } from "./object-path.js";
import type { CheckpointTensors } from "./restoration.js";
import { decodeStrings } from "./snapshot.js";
import type { TensorValue, Trackable } from "./trackable.js";

/** Opens the tensors of a checkpoint. @throws As `openCheckpoint` does */
export async function openTensors(files: FileStore, prefix: string): Promise<CheckpointTensors> {
  const reader = await openCheckpoint(prefix, { files });
  return {
    path: prefix,
    tensors: () => reader.tensors(),
    info: (key) => reader.info(key),
    data: (key, region) => reader.data(key, region),
    verify: () => reader.verify(),
    close: () => reader.close(),
    async *readAll(keys) {
      for await (const { info, bytes } of reader.readAll({ filter: ({ key }) => keys.has(key) })) {
        const value: TensorValue = { dtype: info.dtype, shape: info.shape, bytes };
        yield { key: info.key, value };
      }
    },
  };
}

/**
 * The object graph of a checkpoint.
 * @throws {@link NotFoundError} (`no-such-key`) when it was not written by objects; CorruptionError (`object-graph`)
 */
export async function readGraph(tensors: CheckpointTensors): Promise<ObjectGraph> {
  const data = await tensors.data(OBJECT_GRAPH_KEY).catch((cause) => {
    if (!(cause instanceof NotFoundError)) throw cause;
    throw new NotFoundError("no-such-key", "the checkpoint has no object graph: it was saved by names", {
      file: tensors.path,
      cause,
      hint: "Read its tensors with openCheckpoint.",
    });
  });
  const bytes = await data.read(0, data.size);
  await tensors.verify();
  return decodeObjectGraph(decodeStrings(bytes, tensors.path)[0] ?? new Uint8Array(), tensors.path);
}

/** What is written: the objects below a root, and the device of those that were not placed. */
export interface Saved {
  readonly root: Trackable;
  readonly device: string;
}

/**
 * Writes the tensors of all objects, sharded as the options say. The values are those of the moment of the call.
 * @throws As `planShards` and `writeCheckpoint` do; PlanError (`invalid-plan`) when the chosen task has nothing
 */
export async function writeTensors(
  files: FileStore,
  prefix: string,
  { root, device }: Saved,
  options: CheckpointOptions,
): Promise<ShardingMetrics> {
  const { shardingCallback = new ShardByTaskPolicy(), task, overwrite, onBytes, signal } = options;
  const gathered = await gatherTensors(root, device);
  try {
    const tensors = gathered.tensors.map(({ key, device: place, tensor, owner }) => {
      return new ShardableTensor({ checkpointKey: key, device: place, tensor, trackable: owner });
    });
    const plan = onlyTask(await planShards(tensors, shardingCallback), task);
    await writeCheckpoint(files, prefix, plan, { overwrite, onBytes, signal });
    return measurePlan(plan);
  } finally {
    gathered.dispose();
  }
}

/** The shards of one task of a plan, or all of them. */
function onlyTask(plan: ShardPlan, task: string | undefined): ShardPlan {
  if (task === undefined) return plan;
  const wanted = taskOf(parseDevice(task));
  const shards = plan.shards.filter((shard) => shard.task === wanted);
  if (shards.length > 0) return { ...plan, shards };
  const known = [...new Set(plan.shards.map((shard) => shard.task))].join(", ");
  throw new PlanError("invalid-plan", "the task has nothing to save", { expected: known, actual: wanted });
}

/** An error of a restore, with what the sidecar says of how the checkpoint was sharded. */
export async function withShardingNote(files: FileStore, prefix: string, error: unknown): Promise<unknown> {
  if (!(error instanceof CairnError)) return error;
  const description = await readDescription(files, prefix);
  if (description === undefined) return error;
  const { code, summary, file, offset, expected, actual, hint } = error;
  const noted = `${summary} (sharded so: ${JSON.stringify(description)})`;
  const Class = error.constructor as typeof CairnError;
  return new Class(code, noted, { file, offset, expected, actual, hint, cause: error });
}

/** What the sharding callback of a checkpoint said of itself, when that was kept and can be read. */
async function readDescription(files: FileStore, prefix: string): Promise<string | undefined> {
  const path = descriptionPath(prefix);
  try {
    const source = await files.open(path);
    try {
      const bytes = await source.read(0, Math.min(source.size, MAX_STATE_FILE_BYTES));
      return parseSidecar(new TextDecoder().decode(bytes), path).description;
    } finally {
      await source.close();
    }
  } catch (error) {
    // The description helps to understand another error, and must not take its place.
    if (error instanceof CairnError) return undefined;
    throw error;
  }
}
