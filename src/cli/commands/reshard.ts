import { Command, Option } from "commander";
import type { Resharding } from "../../ops/reshard.js";
import { runCommand } from "../run.js";
import { sizeArgument } from "../sizes.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface ReshardCommandOptions extends CommonOptions {
  readonly policy?: string;
  readonly maxShardSize?: number;
  readonly numPs?: string;
  readonly layout?: "design" | "elasticdl";
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

/** Slices of a shard that are shown. */
const SHOWN_SLICES = 20;

/** `cairn reshard SRC OUT` */
export function reshardCommand(): Command {
  return new Command("reshard")
    .summary("write a checkpoint in other shards")
    .description(
      "Writes a checkpoint anew under a sharding policy. Values stream and every checksum is checked.\nby-task puts all into one shard and keeps what is cut into slices as it is; by-device keeps the shards as they are; max-shard-size fills shards up to a size and cuts what is larger; a .js file has a ShardingCallback as its default export.",
    )
    .argument("<src>", "prefix of a checkpoint, or a training checkpoint")
    .argument("<out>", "prefix to write, or a checkpoint or version directory")
    .option("--policy <name>", "by-task, by-device, max-shard-size, or ./policy.js (default: by-task)")
    .option("--max-shard-size <size>", "bytes of tensors in a shard, for max-shard-size", sizeArgument)
    .option("--num-ps <n>", "of a training checkpoint: for how many parameter servers")
    .addOption(
      new Option("--layout <names>", "of a training checkpoint: names of the files (default: design)").choices([
        "design",
        "elasticdl",
      ]),
    )
    .option("--force", "replace an existing output")
    .option("--dry-run", "show the shards and write nothing")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn reshard ckpt-100 small/ckpt-100 --max-shard-size 500MB\n  cairn reshard ckpt-100 one/ckpt-100 --policy by-task\n  cairn reshard ckpt-100 out --policy ./policy.js --dry-run\n  cairn reshard training_ckpt out --num-ps 4",
    )
    .action((src: string, out: string, options: ReshardCommandOptions) =>
      runCommand(options, (terminal) => reshard(src, out, options, terminal)),
    );
}

async function reshard(src: string, out: string, options: ReshardCommandOptions, terminal: Terminal): Promise<void> {
  const { isTraining, reshardTraining } = await import("../reshard-training.js");
  if (options.numPs !== undefined || (await isTraining(src))) return reshardTraining(src, out, options, terminal);
  const { planReshard } = await import("../../ops/reshard.js");
  const { filesFor } = await import("../files.js");
  const { loadPolicy } = await import("../policies.js");
  const callback = await loadPolicy(options.policy, options.maxShardSize);
  const { ShardByTaskPolicy } = await import("../../sharding/index.js");
  const resharding = await planReshard(
    { files: filesFor(src), path: src },
    { files: filesFor(out), path: out },
    callback ?? new ShardByTaskPolicy(),
  );
  try {
    for (const warning of resharding.plan.warnings) terminal.warn(warning);
    if (!options.dryRun) {
      const progress = terminal.progress("resharded", resharding.byteLength);
      await resharding.write({ overwrite: options.force, onBytes: progress.add, signal: terminal.signal });
    }
    await report(resharding, out, options.dryRun === true, terminal);
  } finally {
    await resharding.close();
  }
}

async function report(resharding: Resharding, out: string, dryRun: boolean, terminal: Terminal): Promise<void> {
  const { formatBytes, formatCount } = await import("../../formats/text.js");
  const { summarizeShards } = await import("../../sharding/index.js");
  const { plan, byteLength, sourceShardCount } = resharding;
  const summaries = summarizeShards(plan);
  const shards = `${formatCount(summaries.length, "shard")} of ${formatCount(sourceShardCount, "shard")}`;
  terminal.print(`${out}: ${shards}, ${formatBytes(byteLength)}. ${plan.description}`);
  if (dryRun) {
    for (const [i, { bytes, slices }] of summaries.entries()) {
      terminal.print(`  shard ${i}: ${formatBytes(bytes)} in ${formatCount(slices, "slice")}`);
      const listed = plan.shards[i]?.slices ?? [];
      for (const { key, sliceSpec } of listed.slice(0, SHOWN_SLICES)) {
        terminal.print(`    ${key}${sliceSpec === "" ? "" : `  [${sliceSpec}]`}`);
      }
      if (listed.length > SHOWN_SLICES) terminal.print(`    … and ${listed.length - SHOWN_SLICES} more`);
    }
    terminal.print("nothing was written (--dry-run)");
  }
  terminal.json({
    output: out,
    dryRun,
    description: plan.description,
    byteLength,
    sourceShards: sourceShardCount,
    shards: summaries.map((summary, i) => ({
      ...summary,
      content: plan.shards[i]?.slices.map(({ key, sliceSpec }) => ({ key, sliceSpec })),
    })),
    warnings: plan.warnings,
  });
}
