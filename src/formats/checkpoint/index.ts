import type { FileStore } from "../../bytes/file-store.js";
import type { ShardPlan } from "../../sharding/shard-plan.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions, WriteOptions } from "../format.js";
import type { VersionedDirectory } from "../versioned-directory.js";
import { prefixOf } from "./bundle-paths.js";
import { CheckpointDirectory } from "./checkpoint-directory.js";
import { type CheckpointReader, openCheckpoint } from "./checkpoint-reader.js";
import { writeCheckpoint } from "./checkpoint-writer.js";
import { findCheckpoint } from "./locate.js";
import { outlineCheckpoint } from "./outline.js";
import { verifyCheckpoint } from "./verify.js";
import { refusedDType } from "./write-shard.js";

/** TensorFlow's V2 checkpoints, by prefix, by one of their files, or by their directory. */
export const checkpointFormat: Format = {
  id: "checkpoint",

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    const found = await findCheckpoint(files, path);
    if (found === undefined) return undefined;
    return { format: "checkpoint", files, path, description: "TensorFlow checkpoint", notes: found.notes };
  },

  async outline({ files, path }: Detection): Promise<Outline> {
    const reader = await open(files, path);
    try {
      return { root: await outlineCheckpoint(reader, files), close: () => reader.close() };
    } catch (error) {
      await reader.close();
      throw error;
    }
  },

  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent> {
    return verifyCheckpoint(detection, options);
  },

  openTensors({ files, path }: Detection): Promise<TensorSource> {
    return open(files, path);
  },

  async openVersions({ files, path }: Detection): Promise<VersionedDirectory | undefined> {
    return (await files.stat(path))?.kind === "directory" ? new CheckpointDirectory(files, path) : undefined;
  },

  refuses: refusedDType,

  ownsName: (path: string): boolean => prefixOf(path) !== path,

  async writeTensors(files: FileStore, path: string, plan: ShardPlan, options: WriteOptions = {}): Promise<void> {
    await writeCheckpoint(files, prefixOf(path), plan, options);
  },
};

async function open(files: FileStore, path: string): Promise<CheckpointReader> {
  const found = await findCheckpoint(files, path);
  return openCheckpoint(found?.prefix ?? path, { files });
}
