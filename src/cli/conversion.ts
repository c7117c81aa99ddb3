import { type Command, InvalidArgumentError, Option } from "commander";
import { UsageError } from "../errors.js";
import type { Conversion, SkippedTensor } from "../ops/convert.js";
import type { DType } from "../tensor/dtype.js";
import { sizeArgument } from "./sizes.js";
import type { CommonOptions, Terminal } from "./terminal.js";

/** Options of the commands that convert. */
export interface ConversionFlags extends CommonOptions {
  readonly to?: string;
  readonly rename: readonly string[];
  readonly filter?: string;
  readonly dropSlots?: boolean;
  readonly constants?: boolean;
  readonly template?: string;
  readonly dtype: readonly { readonly from: DType; readonly to: DType }[];
  readonly policy?: string;
  readonly maxShardSize?: number;
  readonly numPs?: number;
  readonly layout?: "design" | "elasticdl";
  readonly skipUnsupported?: boolean;
  readonly skipDamaged?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

/** Gives a command the options of a conversion. */
export function addConversionOptions(command: Command): Command {
  return command
    .option("--to <format>", "checkpoint, safetensors, elasticdl, tfjs, saved-model")
    .option("--rename <from=to>", "give tensors other names: a name, a glob, or /expression/=name", collect, [])
    .option("--filter <glob>", "only tensors whose name matches, as 'encoder/*'")
    .option("--drop-slots", "leave away the state of optimizers")
    .option("--constants", "take the constants of a SavedModel too, beside its variables")
    .option("--template <model>", "of tfjs and saved-model: copy all but the values from this model")
    .option("--dtype <from=to>", "change floats, as float32=bfloat16, or int64=int32", collectDtype, [])
    .option("--policy <name>", "by-task, max-shard-size, or ./policy.js")
    .option("--max-shard-size <size>", "begin a new shard before this size", sizeArgument)
    .option("--num-ps <n>", "of elasticdl: for how many parameter servers (default: 1)", numPsArgument)
    .addOption(
      new Option("--layout <names>", "of elasticdl: names of the files (default: design)").choices([
        "design",
        "elasticdl",
      ]),
    )
    .option("--skip-unsupported", "leave away what the format cannot hold")
    .option("--skip-damaged", "leave away what is damaged, and say what")
    .option("--force", "replace an existing output")
    .option("--dry-run", "show what would be written, and write nothing");
}

/** Converts, and tells what was done. */
export async function convertPath(
  src: string,
  out: string,
  options: ConversionFlags,
  terminal: Terminal,
): Promise<void> {
  refuseStandardOutput(out);
  const { NAMED_TENSORS } = await import("../ops/choose-tensors.js");
  const { planConversion } = await import("../ops/convert.js");
  const { parseRename } = await import("../ops/rename.js");
  const { filesFor } = await import("./files.js");
  const { loadPolicy } = await import("./policies.js");
  const { filter, dropSlots, constants, template, skipUnsupported, skipDamaged, to } = options;
  const { signal } = terminal;
  const refused: SkippedTensor[] = [];
  const checking = skipDamaged ? terminal.progress("checked") : undefined;
  const conversion = await planConversion(
    { files: filesFor(src), path: src },
    { files: filesFor(out), path: out },
    {
      to,
      filter,
      dropSlots,
      constants,
      template: template === undefined ? undefined : { files: filesFor(template), path: template },
      skipUnsupported,
      skipDamaged,
      signal,
      rename: options.rename.map(parseRename),
      dtypes: options.dtype,
      ...(options.policy === undefined
        ? { maxShardSize: options.maxShardSize }
        : { callback: await loadPolicy(options.policy, options.maxShardSize) }),
      onChecked: checking?.add,
      onRefused: (tensor) => void refused.push(tensor),
    },
  ).catch((error: unknown) => {
    // The error names a few; a longer list comes before it.
    if (refused.length > NAMED_TENSORS) {
      for (const { key, reason } of refused) terminal.note(`cannot hold ${key}: ${reason}`);
    }
    throw error;
  });
  try {
    checkTraining(conversion.to, options);
    for (const note of conversion.notes) terminal.note(note);
    for (const warning of conversion.warnings) terminal.warn(warning);
    for (const { key, reason } of conversion.skipped) terminal.note(`skipped ${key}: ${reason}`);
    if (!options.dryRun) await write(conversion, options, terminal);
    await report(conversion, out, options, terminal);
  } finally {
    await conversion.close();
  }
}

async function write(conversion: Conversion, options: ConversionFlags, terminal: Terminal): Promise<void> {
  const progress = terminal.progress("converted", conversion.byteLength);
  const { numPs: psNum, layout } = options;
  const losses = await conversion.write({
    training: { psNum, layout },
    overwrite: options.force,
    onBytes: progress.add,
    signal: terminal.signal,
  });
  for (const loss of losses) terminal.warn(loss);
}

async function report(
  conversion: Conversion,
  out: string,
  { dryRun = false, numPs }: ConversionFlags,
  terminal: Terminal,
): Promise<void> {
  const { formatBytes, formatCount } = await import("../formats/text.js");
  const { from, to, tensorCount, byteLength, skipped, warnings, plan } = conversion;
  const shardCount = numPs ?? plan.shards.length;
  const shards = shardCount > 1 ? ` in ${formatCount(shardCount, "shard")}` : "";
  const skipping = skipped.length === 0 ? "" : `; ${skipped.length} skipped`;
  const size = formatBytes(byteLength);
  terminal.print(`${out}: ${to} of ${formatCount(tensorCount, "tensor")}, ${size}${shards}, from ${from}${skipping}`);
  if (dryRun) {
    for (const [i, { slices }] of numPs === undefined ? plan.shards.entries() : []) {
      const bytes = slices.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
      terminal.print(`  shard ${i}: ${formatCount(slices.length, "tensor")}, ${formatBytes(bytes)}`);
    }
    terminal.print("nothing was written (--dry-run)");
  }
  const shardList = plan.shards.map(({ slices }) => slices.map(({ key, sliceSpec }) => ({ key, sliceSpec })));
  terminal.json({ output: out, from, to, dryRun, tensorCount, byteLength, skipped, warnings, shards: shardList });
}

function refuseStandardOutput(out: string): void {
  if (!/^(-|\/dev\/(stdout|stderr|fd\/.*))$/.test(out)) return;
  throw new UsageError("usage", "a conversion cannot be written to standard output", {
    file: out,
    hint: "It writes files that are named in the end. One tensor can be: cairn get SRC KEY -o -.",
  });
}

function checkTraining(to: string, { numPs, layout }: ConversionFlags): void {
  if (to === "elasticdl" || (numPs === undefined && layout === undefined)) return;
  throw new UsageError("usage", `${numPs === undefined ? "--layout" : "--num-ps"} with ${to}`, {
    hint: "Only training checkpoints have parameter servers: --to elasticdl.",
  });
}

function numPsArgument(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError("A number from 1 up.");
  return Number(text);
}

function collect(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

function collectDtype(text: string, before: readonly { from: DType; to: DType }[]): { from: DType; to: DType }[] {
  const [from, to, ...rest] = text.split(/=|→|->/).map((part) => part.trim());
  if (!from || !to || rest.length > 0) throw new InvalidArgumentError("Write it as float32=bfloat16.");
  return [...before, { from: from as DType, to: to as DType }];
}
