import { Command, InvalidArgumentError } from "commander";
import type { VersionChoice } from "../../ops/export.js";
import { addConversionOptions, type ConversionFlags, convertPath } from "../conversion.js";
import { runCommand } from "../run.js";
import type { Terminal } from "../terminal.js";

interface ExportOptions extends ConversionFlags {
  readonly best?: boolean;
  readonly latest?: boolean;
  readonly version?: number;
}

/** `cairn export DIR OUT` */
export function exportCommand(): Command {
  const command = new Command("export")
    .summary("write one version of a training in another format")
    .description(
      "Writes a complete version of a training's checkpoint directory to OUT: the one that was evaluated best, the newest, or one by its number.",
    )
    .argument("<dir>", "checkpoint_dir of a training, or a CheckpointManager directory")
    .argument("<out>", "the path to write")
    .option("--best", "the version that was evaluated best")
    .option("--latest", "the newest complete version; this is the default")
    .option("--version <number>", "the version of this number", versionArgument);
  return addConversionOptions(command)
    .addHelpText(
      "after",
      "\nExamples:\n  cairn export ckpt model.safetensors --best\n  cairn export ckpt out/model --to checkpoint --version 300 --drop-slots",
    )
    .action((path: string, out: string, options: ExportOptions) =>
      runCommand(options, (terminal) => run(path, out, options, terminal)),
    );
}

async function run(path: string, out: string, options: ExportOptions, terminal: Terminal): Promise<void> {
  const { UsageError } = await import("../../errors.js");
  const { chooseVersion } = await import("../../ops/export.js");
  const { filesFor } = await import("../files.js");
  const choices: VersionChoice[] = [
    ...(options.best ? ["best" as const] : []),
    ...(options.latest ? ["latest" as const] : []),
    ...(options.version === undefined ? [] : [options.version]),
  ];
  if (choices.length > 1) throw new UsageError("usage", "one of --best, --latest and --version");
  const { signal } = terminal;
  const { version, path: chosen } = await chooseVersion(filesFor(path), path, choices[0] ?? "latest", { signal });
  terminal.note(`version ${version}: ${chosen}`);
  await convertPath(chosen, out, options, terminal);
}

function versionArgument(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("A version is a whole number.");
  return Number(text);
}
