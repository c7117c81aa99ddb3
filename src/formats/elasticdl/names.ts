import { baseName, joinPath, parentPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";

/**
 * How the files are called. `design`: `version_100/variables-0-of-2.chkpt`, as ElasticDL's design has it. `elasticdl`:
 * `version-100/variables-0-of-2.ckpt`, the only names that its released code reads. Both are read without being told.
 */
export type Layout = "design" | "elasticdl";

/** A shard as its file name tells it. */
export interface ShardName {
  readonly psId: number;
  readonly psNum: number;
}

// Decimal and without padding. Source: elasticdl/python/common/save_utils.py, _get_checkpoint_file_path_with_template.
const SHARD = /^variables-(0|[1-9]\d{0,8})-of-([1-9]\d{0,8})\.(?:chkpt|ckpt)$/;
const VERSION_DIRECTORY = /^version[-_](0|[1-9]\d{0,9})$/;
/** The one file of the days when the master kept the model. Source: ElasticDL before 2019-11, model_v{version}.chkpt. */
const WHOLE_MODEL = /^model_v(0|[1-9]\d{0,9})\.chkpt$/;

/** Parses the name of a shard file; undefined for any other name. */
export function parseShardName(name: string): ShardName | undefined {
  const match = SHARD.exec(name);
  if (match === null) return isWholeModelName(name) ? { psId: 0, psNum: 1 } : undefined;
  return { psId: Number(match[1]), psNum: Number(match[2]) };
}

/** Whether a file is called as one that holds a whole model of an old version of ElasticDL. */
export function isWholeModelName(name: string): boolean {
  return WHOLE_MODEL.test(name);
}

/** The version that the name of a version directory, or of a file with a whole model, tells; undefined for other names. */
export function parseVersionName(name: string): number | undefined {
  const match = VERSION_DIRECTORY.exec(name) ?? WHOLE_MODEL.exec(name);
  return match === null ? undefined : Number(match[1]);
}

/** The layout that the name of a version directory belongs to; undefined for other names. */
export function layoutOf(directoryName: string): Layout | undefined {
  if (!VERSION_DIRECTORY.test(directoryName)) return undefined;
  return directoryName.startsWith("version_") ? "design" : "elasticdl";
}

/** The name of a shard file. */
export function formatShardName({ psId, psNum }: ShardName, layout: Layout): string {
  return `variables-${psId}-of-${psNum}.${layout === "design" ? "chkpt" : "ckpt"}`;
}

/** The name of a version directory. */
export function formatVersionName(modelVersion: number, layout: Layout): string {
  return `version${layout === "design" ? "_" : "-"}${modelVersion}`;
}

/**
 * The directory beside a checkpoint directory for what is not shards: files that are being written, metrics. Inside the
 * checkpoint directory ElasticDL's finder would stumble over them.
 * @throws {@link UsageError} (`usage`) for a path that ends in no name, such as `.`
 */
export function sidePath(checkpointDirectory: string): string {
  const name = baseName(checkpointDirectory);
  if (name === "" || name === "." || name === "..") {
    throw new UsageError("usage", "the checkpoint directory has to be given by its name", {
      file: checkpointDirectory,
      hint: "What is being written stands beside it, under its name and .cairn.",
    });
  }
  return joinPath(parentPath(checkpointDirectory), `${name}.cairn`);
}

/** Where a version goes. */
export interface VersionTarget {
  /** The checkpoint directory that the version is in. */
  readonly root: string;
  /** The version directory. */
  readonly path: string;
  readonly layout: Layout;
}

/**
 * Where a version goes when a user names a path: a name like `version_100` is the version directory itself, any other a
 * checkpoint directory that gets one.
 * @throws {@link UsageError} (`usage`) when the name contradicts the version or the layout
 */
export function versionTarget(path: string, modelVersion: number, layout?: Layout): VersionTarget {
  const name = baseName(path);
  const named = layoutOf(name);
  if (named === undefined) {
    const chosen = layout ?? "design";
    return { root: path, path: joinPath(path, formatVersionName(modelVersion, chosen)), layout: chosen };
  }
  if (layout !== undefined && layout !== named) {
    const expected = formatVersionName(modelVersion, layout);
    throw new UsageError("usage", `layout ${layout} with another name`, { file: path, expected, actual: name });
  }
  if (parseVersionName(name) !== modelVersion) {
    const expected = formatVersionName(modelVersion, named);
    throw new UsageError("usage", "the directory names another version", { file: path, expected, actual: name });
  }
  return { root: parentPath(path), path: path.replace(/\/+$/, ""), layout: named };
}
