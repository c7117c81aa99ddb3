import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { elementBytes, findDTypeNumber, isPacked } from "../../tensor/dtype.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions } from "../format.js";
import type { VersionedDirectory } from "../versioned-directory.js";
import { type Located, locate, openVersion } from "./locate.js";
import { layoutOf, parseShardName, parseVersionName } from "./names.js";
import { outlineTraining } from "./outline.js";
import { planToContents } from "./plan-contents.js";
import { TrainingTensors, VERSION_METADATA } from "./tensors.js";
import { verifyTraining } from "./verify.js";
import { TrainingDirectory } from "./versioned.js";
import { writeVersion } from "./write-version.js";

const DESCRIPTIONS: Readonly<Record<Located["kind"], string>> = {
  root: "training checkpoints",
  version: "training checkpoint",
  shard: "shard of a training checkpoint",
};

/** ElasticDL's training checkpoints: checkpoint directories, version directories, and single shards. */
export const elasticdlFormat: Format = {
  id: "elasticdl",
  keepsIds: true,

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    const located = await locate(files, path);
    if (located === undefined) return undefined;
    return { format: "elasticdl", files, path, description: DESCRIPTIONS[located.kind], notes: notesOn(located) };
  },

  outline(detection: Detection): Promise<Outline> {
    return outlineTraining(detection);
  },

  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent> {
    return verifyTraining(detection, options);
  },

  async openTensors({ files, path }: Detection): Promise<TensorSource> {
    const contents = await openVersion(files, path);
    try {
      return new TrainingTensors(contents, path);
    } catch (error) {
      await contents.close();
      throw error;
    }
  },

  async openVersions({ files, path }: Detection): Promise<VersionedDirectory | undefined> {
    return (await locate(files, path))?.kind === "root" ? new TrainingDirectory(files, path) : undefined;
  },

  ownsName(path: string): boolean {
    return layoutOf(baseName(path)) !== undefined;
  },

  refuses({ dtype }): string | undefined {
    if (elementBytes(dtype) > 0 && !isPacked(dtype) && findDTypeNumber(dtype) !== undefined) return undefined;
    return `a training checkpoint cannot hold ${dtype}`;
  },

  async writeTensors(
    files,
    path,
    plan,
    { training, metadata, overwrite, onBytes, signal, beforeCommit } = {},
  ): Promise<void> {
    const carried = /^\d+$/.exec(metadata?.[VERSION_METADATA] ?? "")?.[0];
    const modelVersion = parseVersionName(baseName(path)) ?? Number(carried ?? 0);
    const contents = await planToContents(plan, modelVersion);
    await writeVersion(files, path, contents, { ...training, overwrite, onBytes, signal, verify: beforeCommit });
  },
};

function notesOn({ kind, info }: Located): string[] {
  if (kind === "root") return ["tensors are those of the newest complete version"];
  const name = kind === "shard" ? parseShardName(baseName(info.path)) : undefined;
  if (name === undefined || name.psNum === 1) return [];
  return [`this is shard ${name.psId} of ${name.psNum}; the others hold the rest of the model`];
}
