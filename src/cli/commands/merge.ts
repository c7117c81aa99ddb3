import { Command } from "commander";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface MergeOptions extends CommonOptions {
  readonly ignoreVersion?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

/** `cairn merge SRC OUT` */
export function mergeCommand(): Command {
  return new Command("merge")
    .summary("merge a split model into the .pb it was")
    .description("Merges a .cpb, or a SavedModel directory with one, into the .pb that was split, byte for byte.")
    .argument("<src>", "SavedModel directory or .cpb file")
    .argument("<out>", "directory for a directory, .pb file for a file, - for standard output")
    .option("--ignore-version", "merge a file of a newer version all the same, as TensorFlow does")
    .option("--force", "replace an existing output")
    .option("--dry-run", "check that it merges and write nothing")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn merge big_model_split my_model\n  cairn merge graph.cpb graph.pb\n  cairn merge graph.cpb - | sha256sum",
    )
    .action((src: string, out: string, options: MergeOptions) =>
      runCommand(options, (terminal) => merge(src, out, options, terminal)),
    );
}

async function merge(src: string, out: string, options: MergeOptions, terminal: Terminal): Promise<void> {
  const { mergeModel } = await import("../../formats/saved-model/merge-model.js");
  const { filesFor } = await import("../files.js");
  const { formatBytes } = await import("../../formats/text.js");
  const { StdoutSink } = await import("../stdout-sink.js");
  const toStdout = out === "-";
  const plan = await mergeModel(src, out, {
    source: filesFor(src),
    target: filesFor(out),
    sink: toStdout ? new StdoutSink() : undefined,
    ignoreVersion: options.ignoreVersion,
    overwrite: options.force,
  });
  try {
    for (const note of plan.notes) terminal.note(note);
    terminal.warnAll(plan.warnings);
    if (!options.dryRun) {
      const progress = terminal.progress("merge", plan.byteLength);
      await plan.write({ onBytes: progress.add, signal: terminal.signal });
    }
    const from = plan.chunkCount === 0 ? "which was not split" : `from ${plan.chunkCount} chunks`;
    const would = options.dryRun ? "would be " : "";
    if (toStdout) return;
    terminal.print(`${plan.outputPath}: ${would}${plan.typeName} of ${formatBytes(plan.byteLength)}, ${from}`);
    terminal.json({
      output: plan.outputPath,
      type: plan.typeName,
      byteLength: plan.byteLength,
      chunkCount: plan.chunkCount,
      dryRun: options.dryRun ?? false,
      warnings: plan.warnings,
      notes: plan.notes,
    });
  } finally {
    await plan.close();
  }
}
