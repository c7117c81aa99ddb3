import { Command } from "commander";
import { UsageError } from "../../errors.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface MergeCheckpointsOptions extends CommonOptions {
  readonly move?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

/** `cairn merge-checkpoints PREFIX… OUT` */
export function mergeCheckpointsCommand(): Command {
  return new Command("merge-checkpoints")
    .summary("make one checkpoint of the parts that several tasks wrote")
    .description(
      "Merges checkpoints into one, as TensorFlow's MergeV2Checkpoints does: data files stay as they are and get new numbers. A tensor may be in one part only, or its slices in several.",
    )
    .argument("<prefixes...>", "prefixes of the parts, in their order, and last the prefix to write")
    .option("--move", "take the data files over instead of copying them, and remove the parts")
    .option("--force", "replace an existing output")
    .option("--dry-run", "show what would be merged, and write nothing")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn merge-checkpoints parts/worker-0 parts/worker-1 ckpt-100\n  cairn merge-checkpoints part-0 part-1 ckpt-100 --move",
    )
    .action((prefixes: readonly string[], options: MergeCheckpointsOptions) =>
      runCommand(options, (terminal) => run(prefixes, options, terminal)),
    );
}

async function run(prefixes: readonly string[], options: MergeCheckpointsOptions, terminal: Terminal): Promise<void> {
  const { mergeCheckpoints } = await import("../../formats/checkpoint/merge-checkpoints.js");
  const { formatBytes, formatCount } = await import("../../formats/text.js");
  const { filesFor } = await import("../files.js");
  const parts = prefixes.slice(0, -1);
  const out = prefixes.at(-1) as string;
  if (parts.length === 0)
    throw new UsageError("usage", "merge-checkpoints needs the prefix of a part and one to write");
  const { move, force, dryRun = false } = options;
  const byteLength = await sizeOf(parts);
  if (dryRun) {
    terminal.print(`${out}: would be of ${formatCount(parts.length, "part")}, ${formatBytes(byteLength)}`);
    terminal.json({ output: out, dryRun, parts, byteLength });
    return;
  }
  const progress = terminal.progress("merged", byteLength);
  const shards = await mergeCheckpoints(filesFor(out), parts, out, {
    move,
    overwrite: force,
    onBytes: progress.add,
    signal: terminal.signal,
  });
  const size = formatBytes(shards.reduce((sum, shard) => sum + shard.byteLength, 0));
  terminal.print(`${out}: ${formatCount(shards.length, "shard")} of ${formatCount(parts.length, "part")}, ${size}`);
  terminal.json({ output: out, dryRun, parts, byteLength, shards });
}

/** The bytes of all tensors of the parts; opening them also tells of one that is not there. */
async function sizeOf(parts: readonly string[]): Promise<number> {
  const { openCheckpoint } = await import("../../formats/checkpoint/checkpoint-reader.js");
  const { filesFor } = await import("../files.js");
  let byteLength = 0;
  for (const path of parts) {
    const reader = await openCheckpoint(path, { files: filesFor(path) });
    try {
      for await (const info of reader.tensors()) byteLength += info.byteLength;
    } finally {
      await reader.close();
    }
  }
  return byteLength;
}
