import { Command, Option } from "commander";
import { runCommand } from "../run.js";
import { sizeArgument } from "../sizes.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface SplitOptions extends CommonOptions {
  readonly maxChunkSize: number;
  readonly compression: "auto" | "none" | "zstd" | "brotli" | "snappy";
  readonly transpose?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

/** `cairn split SRC OUT` */
export function splitCommand(): Command {
  return new Command("split")
    .summary("split a model into a .cpb of chunks, at any size")
    .description(
      "Splits a SavedModel directory, or a .pb of a SavedModel or GraphDef, into a .cpb: chunks that no protobuf limit holds back.\nA model no larger than the chunk size is written as a .pb, and that is said.",
    )
    .argument("<src>", "SavedModel directory, .pb, .cpb or .pbtxt file")
    .argument("<out>", "directory for a directory, .cpb file for a file, - for standard output")
    .addOption(new Option("--max-chunk-size <size>", "largest chunk").default(2 ** 30, "1GiB").argParser(sizeArgument))
    .addOption(
      new Option("--compression <type>", "how chunks are compressed; auto leaves what does not compress as it is")
        .choices(["auto", "none", "zstd", "brotli", "snappy"])
        .default("auto"),
    )
    .option("--transpose", "write transposed Riegeli chunks for messages")
    .option("--force", "replace an existing output")
    .option("--dry-run", "show the chunks and write nothing")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn split my_model big_model_split\n  cairn split graph.pb graph.cpb --max-chunk-size 100MB --compression none\n  cairn split my_model out --dry-run",
    )
    .action((src: string, out: string, options: SplitOptions) =>
      runCommand(options, (terminal) => split(src, out, options, terminal)),
    );
}

async function split(src: string, out: string, options: SplitOptions, terminal: Terminal): Promise<void> {
  const { splitModel } = await import("../../formats/saved-model/split-model.js");
  const { filesFor } = await import("../files.js");
  const { formatBytes } = await import("../../formats/text.js");
  const { StdoutSink } = await import("../stdout-sink.js");
  const toStdout = out === "-" && !options.dryRun;
  const plan = await splitModel(src, out, {
    source: filesFor(src),
    target: filesFor(out),
    maxChunkSize: options.maxChunkSize,
    sink: toStdout ? new StdoutSink() : undefined,
    overwrite: options.force,
  });
  try {
    for (const note of plan.notes) terminal.note(note);
    terminal.warnAll(plan.warnings);
    const chunks = plan.chunks.map(({ type, path, size }, index) => ({ index, type, path, size }));
    if (options.dryRun) {
      terminal.print(
        plan.isSplit ? `${plan.outputPath}: ${chunks.length} chunks` : `${plan.outputPath}: nothing to split`,
      );
      for (const { index, type, path, size } of chunks) {
        terminal.print(
          `  ${String(index).padStart(5)}  ${type.padEnd(7)}  ${formatBytes(size).padStart(9)}  ${path || "(root)"}`,
        );
      }
      terminal.json({ output: plan.outputPath, split: plan.isSplit, dryRun: true, chunks, warnings: plan.warnings });
      return;
    }
    const progress = terminal.progress("split", plan.byteLength);
    const written = await plan.write({
      compression: options.compression,
      transpose: options.transpose,
      onBytes: progress.add,
      signal: terminal.signal,
    });
    if (toStdout) {
      const what = written.isSplit ? `${written.chunkCount} chunks` : "not split, so written as it is";
      terminal.note(`standard output: ${what}`);
      return;
    }
    const share = `${formatBytes(plan.protoBytes)} in ${formatBytes(written.byteLength)}`;
    if (written.isSplit) terminal.print(`${written.path}: ${written.chunkCount} chunks, ${share}`);
    else
      terminal.print(
        `${written.path}: not split, since it is no larger than ${formatBytes(options.maxChunkSize)}; written as .pb`,
      );
    terminal.json({
      output: written.path,
      split: written.isSplit,
      byteLength: written.byteLength,
      sourceByteLength: plan.protoBytes,
      chunks,
      warnings: plan.warnings,
    });
  } finally {
    await plan.close();
  }
}
