import { UsageError } from "../errors.js";
import type { Layout } from "../formats/elasticdl/names.js";
import type { Terminal } from "./terminal.js";

/** What `cairn reshard` is told of a training checkpoint. */
export interface ReshardTrainingOptions {
  readonly numPs?: string | undefined;
  readonly layout?: Layout | undefined;
  readonly force?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
}

/** Whether a path is a training checkpoint, which is resharded for a number of servers and not by a policy. */
export async function isTraining(path: string): Promise<boolean> {
  const { elasticdlFormat } = await import("../formats/elasticdl/index.js");
  const { filesFor } = await import("./files.js");
  return (await elasticdlFormat.detect(filesFor(path), path)) !== undefined;
}

/**
 * `cairn reshard SRC OUT --num-ps M [--layout design|elasticdl]` of a training checkpoint.
 * @throws {@link UsageError} (`usage`) without a number of servers
 */
export async function reshardTraining(
  src: string,
  out: string,
  { numPs, layout, force, dryRun = false }: ReshardTrainingOptions,
  terminal: Terminal,
): Promise<void> {
  const { reshardVersion } = await import("../formats/elasticdl/reshard.js");
  const { formatBytes, formatCount } = await import("../formats/text.js");
  const { filesFor } = await import("./files.js");
  if (numPs === undefined || !/^\d{1,7}$/.test(numPs)) {
    throw new UsageError("usage", "a training checkpoint is resharded for a number of servers", {
      expected: "--num-ps M",
      actual: numPs,
    });
  }
  const progress = terminal.progress("resharded");
  const { path, modelVersion, shards } = await reshardVersion(filesFor(src), src, out, {
    target: filesFor(out),
    psNum: Number(numPs),
    layout,
    overwrite: force,
    dryRun,
    onBytes: progress.add,
    signal: terminal.signal,
  });
  const byteLength = shards.reduce((sum, shard) => sum + shard.byteLength, 0);
  terminal.print(
    `${path}: version ${modelVersion} in ${formatCount(shards.length, "shard")}, ${formatBytes(byteLength)}`,
  );
  if (dryRun) {
    for (const shard of shards) terminal.print(`  ${shard.path}: ${formatBytes(shard.byteLength)}`);
    terminal.print("nothing was written (--dry-run)");
  }
  terminal.json({ output: path, dryRun, version: modelVersion, byteLength, shards });
}
