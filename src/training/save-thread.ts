import { setPriority } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { fillSink } from "../bytes/byte-sink.js";
import { joinPath } from "../bytes/path.js";
import { prepareCrc32c } from "../codecs/crc32c.js";
import { isCairnError } from "../errors.js";
import { rankVersions, readMetrics } from "../formats/elasticdl/metrics.js";
import { formatShardName, formatVersionName } from "../formats/elasticdl/names.js";
import { isPending, readPendingEvaluation } from "../formats/elasticdl/pending-evaluation.js";
import { createAmongOthers, publishShard, stagingPath, tidySide, uniqueName } from "../formats/elasticdl/publish.js";
import { applyRetention, planRetention } from "../formats/elasticdl/retention.js";
import { findProblem, listVersions } from "../formats/elasticdl/versions.js";
import { localFiles } from "../platform/node/index.js";
import { placeOfImage } from "./image-pool.js";
import {
  KnownBlocks,
  type PoolPart,
  type SaveAnswer,
  type SaveJob,
  type SaveThreadData,
  sendError,
} from "./save-messages.js";
import { writeSnapshot } from "./write-snapshot.js";

// The thread that writes checkpoints: it copies the pages of a snapshot while the other thread goes on training, and
// stands back for it. Started by CheckpointSaver.

/** How much the thread stands back: Linux applies it to this thread alone. */
const NICENESS = 10;

const { poolPort, restMs } = workerData as SaveThreadData;
const parts: (SharedArrayBuffer | undefined)[] = [];
const known = new KnownBlocks();
let last: Promise<void> = Promise.resolve();

try {
  if (process.platform === "linux") setPriority(0, NICENESS);
} catch {
  // A container may forbid it.
}

/** An image that the training thread put aside. It has sent the part that the image is in before. */
function imageAt(image: number, byteLength: number): Uint8Array {
  const { part, offset } = placeOfImage(image);
  for (let message = receiveMessageOnPort(poolPort); message !== undefined; message = receiveMessageOnPort(poolPort)) {
    const { number, memory } = message.message as PoolPart;
    parts[number] = memory;
  }
  const memory = parts[part];
  if (memory === undefined) throw new TypeError(`part ${part} of the pool is not there`);
  return new Uint8Array(memory, offset, byteLength);
}

async function save({ number, snapshot, target, keepCheckpointMax }: SaveJob): Promise<SaveAnswer> {
  const { directory, layout, psId, psNum } = target;
  const name = formatShardName({ psId, psNum }, layout);
  const versionPath = joinPath(directory, formatVersionName(snapshot.modelVersion, layout));
  const path = joinPath(versionPath, name);
  const temporary = joinPath(stagingPath(directory), uniqueName(`${snapshot.modelVersion}.${name}`));
  const sink = await createAmongOthers(localFiles, temporary);
  try {
    await fillSink(sink, () => writeSnapshot(sink, snapshot, target, { imageAt, rest: () => delay(restMs) }));
    await publishShard(localFiles, temporary, path);
  } catch (error) {
    await localFiles.remove(temporary).catch(() => {});
    throw error;
  }
  const saved = { path, byteLength: sink.position };
  try {
    return { number, saved, removed: await removeOld(directory, psId, keepCheckpointMax) };
  } catch (error) {
    // Another server may have removed what was being looked at; the next save looks again.
    if (isCairnError(error, "not-found")) return { number, saved };
    return { number, saved, error: sendError(error) };
  } finally {
    await tidySide(localFiles, directory).catch(() => {});
  }
}

/**
 * Removes this server's part of versions that enough newer complete ones make superfluous. The best version stays, and so
 * do those that wait for their evaluation.
 */
async function removeOld(directory: string, psId: number, keepMax: number): Promise<string[]> {
  if (keepMax === 0) return [];
  const { versions } = await listVersions(localFiles, directory);
  const retained = [];
  for (const version of versions) {
    const { modelVersion, path, shards } = version;
    if (modelVersion === undefined) continue;
    const isComplete = (await findProblem(localFiles, version, { quick: true })) === undefined;
    retained.push({ modelVersion, path, shards, isComplete });
  }
  const record = await readMetrics(localFiles, directory).catch(() => undefined);
  const [best] = record === undefined ? [] : rankVersions(record);
  const pending = await readPendingEvaluation(localFiles, directory);
  const waiting = retained.map(({ modelVersion }) => modelVersion).filter((version) => isPending(version, pending));
  const keep = new Set(best === undefined ? waiting : [best.version, ...waiting]);
  const removals = planRetention(retained, { keepMax, keep, psId });
  await applyRetention(localFiles, directory, removals);
  return removals.map(({ path }) => path);
}

async function answer(job: SaveJob): Promise<void> {
  const whole = { ...job, snapshot: known.putBack(job.snapshot) };
  try {
    await prepareCrc32c(Number.MAX_SAFE_INTEGER);
    parentPort?.postMessage(await save(whole));
  } catch (error) {
    parentPort?.postMessage({ number: job.number, error: sendError(error) } satisfies SaveAnswer);
  }
}

parentPort?.on("message", (job: SaveJob) => {
  last = last.then(() => answer(job));
});
