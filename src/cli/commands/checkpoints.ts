import { resolve } from "node:path";
import { Argument, Command } from "commander";
import type { DirectoryVersion, PassedOver, VersionedDirectory } from "../../formats/versioned-directory.js";
import { runCommand } from "../run.js";
import { type CommonOptions, EXIT, type Terminal } from "../terminal.js";

interface CheckpointsOptions extends CommonOptions {
  readonly keep?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly quick?: boolean;
}

type Action = "list" | "latest" | "best" | "prune";

/** `cairn checkpoints DIR [list|latest|best|prune]` */
export function checkpointsCommand(): Command {
  return new Command("checkpoints")
    .summary("versions of a training: list, latest, best, prune")
    .description(
      "Lists the versions of a checkpoint directory and tells which are complete: every shard there, readable, of one version, with right checksums.\nlatest and best print the path of a complete version; exit code 1 when there is none. prune removes old ones, never the best, and never one without enough newer complete versions.",
    )
    .argument("<dir>", "checkpoint_dir of a training")
    .addArgument(new Argument("[action]", "what to do").choices(["list", "latest", "best", "prune"]).default("list"))
    .option("--keep <n>", "prune: how many complete versions stay; 0 for all")
    .option("--dry-run", "prune: show what would go, and remove nothing")
    .option("--force", "prune: remove incomplete versions too that may still be written")
    .option("--quick", "look at names, sizes and heads only, not at every byte")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn checkpoints ckpt\n  cairn checkpoints ckpt latest --json\n  cairn checkpoints ckpt prune --keep 3 --dry-run",
    )
    .action((path: string, action: Action, options: CheckpointsOptions) =>
      runCommand(options, (terminal) => run(path, action, options, terminal)),
    );
}

async function run(path: string, action: Action, options: CheckpointsOptions, terminal: Terminal): Promise<number> {
  const { openVersions, parseKeep } = await import("../../ops/checkpoints.js");
  const { filesFor } = await import("../files.js");
  const keep = action === "prune" ? parseKeep(options.keep) : 0;
  const directory = await openVersions(filesFor(path), named(path));
  const progress = terminal.progress("check");
  const look = { quick: options.quick, onBytes: progress.add, signal: terminal.signal };
  if (action === "list") return list(directory, look, terminal);
  if (action === "prune") return prune(directory, { ...look, keep, force: options.force }, options, terminal);
  const found = action === "latest" ? await directory.latest(look) : await directory.best(look);
  const version = "latest" in found ? found.latest : found.best;
  noteSkipped(found.skipped, terminal);
  const skipped = found.skipped;
  if ("latest" in found) terminal.json({ latest: latestJson(version), skipped });
  else terminal.json({ best: versionJson(version), metric: found.metric, mode: found.mode, skipped });
  if (version === undefined) {
    const why =
      action === "best" && "metric" in found && found.metric === undefined
        ? "no metrics are recorded"
        : "none is complete";
    terminal.note(`${path}: no ${action} version: ${why}`);
    return EXIT.findings;
  }
  terminal.print(version.path);
  return EXIT.good;
}

/** A path that ends in a name: beside the directory stands another of its name with what belongs to it. */
function named(path: string): string {
  return /(^|\/)\.{1,2}\/*$/.test(path) ? resolve(path) : path;
}

async function list(
  directory: VersionedDirectory,
  look: Parameters<VersionedDirectory["list"]>[0],
  terminal: Terminal,
): Promise<number> {
  const { formatBytes, formatCount } = await import("../../formats/text.js");
  const { versions, skipped } = await directory.list(look);
  terminal.json({ path: directory.path, versions: versions.map(versionJson), skipped });
  for (const { version, path, shards, byteLength, isComplete, reason, metrics } of versions) {
    const state = isComplete
      ? terminal.style("green", "complete")
      : `${terminal.style("yellow", "not complete")}: ${reason}`;
    const measured = Object.entries(metrics ?? {}).map(([name, value]) => `  ${name} ${value}`);
    const size = `${formatCount(shards, "shard")}  ${formatBytes(byteLength)}`;
    terminal.print(`${String(version).padStart(8)}  ${path}  ${size}${measured.join("")}  ${state}`);
  }
  noteSkipped(skipped, terminal);
  return EXIT.good;
}

async function prune(
  directory: VersionedDirectory,
  options: Parameters<VersionedDirectory["planPrune"]>[0],
  { dryRun = false }: CheckpointsOptions,
  terminal: Terminal,
): Promise<number> {
  const plan = await directory.planPrune(options);
  if (!dryRun) await directory.prune(plan);
  terminal.json({ dryRun, removed: plan.remove, strays: plan.strays, kept: plan.keep });
  for (const { path, reason } of [...plan.remove, ...plan.strays])
    terminal.print(`${dryRun ? "would remove" : "removed"} ${path} (${reason})`);
  terminal.note(`${plan.keep.length} stay`);
  return EXIT.good;
}

/** The latest version as programs are promised it. */
function latestJson(version: DirectoryVersion | undefined) {
  return version === undefined ? null : { version: version.version, path: version.path, shards: version.shards };
}

function versionJson(version: DirectoryVersion | undefined) {
  if (version === undefined) return null;
  const { isComplete, ...rest } = version;
  return { ...rest, complete: isComplete };
}

function noteSkipped(skipped: readonly PassedOver[], terminal: Terminal): void {
  for (const { path, reason } of skipped) terminal.note(`passed over ${path}: ${reason}`);
}
