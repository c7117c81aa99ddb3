import { Command } from "commander";
import type { ListedTensor } from "../../ops/tensors.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface TensorsOptions extends CommonOptions {
  readonly filter?: string;
  readonly sha256?: boolean;
}

/** `cairn tensors PATH`, also `cairn ls PATH` */
export function tensorsCommand(): Command {
  return new Command("tensors")
    .alias("ls")
    .summary("list tensors: key, dtype, shape, size")
    .description(
      "Lists the tensors of a path in key order. Of a model these are its constants: NODE, or FUNCTION:NODE in a function.",
    )
    .argument("<path>", "SavedModel directory, .pb, .cpb or .pbtxt file")
    .option("--filter <glob>", "only keys that match; * stands for any characters, ? for one")
    .option("--sha256", "hash the data of each tensor")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn tensors my_model\n  cairn ls my_model --filter '*weights*'\n  cairn tensors my_model --sha256 --json",
    )
    .action((path: string, options: TensorsOptions) => runCommand(options, (terminal) => run(path, options, terminal)));
}

async function run(path: string, options: TensorsOptions, terminal: Terminal): Promise<void> {
  const { listTensors, openTensors } = await import("../../ops/tensors.js");
  const { filesFor } = await import("../files.js");
  const { detection, tensors } = await openTensors(filesFor(path), path);
  try {
    for (const note of detection.notes) terminal.note(note);
    const progress = terminal.progress("hash");
    const listed: ListedTensor[] = [];
    const listing = { filter: options.filter, sha256: options.sha256, onBytes: progress.add, signal: terminal.signal };
    for await (const tensor of listTensors(tensors, listing)) listed.push(tensor);
    terminal.json({ format: detection.format, tensors: listed.map(toJson) });
    await printTable(listed, terminal);
  } finally {
    await tensors.close();
  }
}

function toJson({ key, dtype, shape, byteLength, facts, sha256 }: ListedTensor): Record<string, unknown> {
  return { key, dtype, shape, byteLength, ...facts, sha256 };
}

async function printTable(listed: readonly ListedTensor[], terminal: Terminal): Promise<void> {
  const { formatBytes, formatCount } = await import("../../formats/text.js");
  const { formatShape } = await import("../../tensor/shape.js");
  const rows = listed.map(({ key, dtype, shape, byteLength, sha256 }) => [
    key,
    dtype,
    formatShape(shape),
    formatBytes(byteLength),
    sha256 ?? "",
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(0, ...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of rows) {
    const cells = row.map((cell, column) =>
      column === 3 ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
    );
    terminal.print(cells.join("  ").trimEnd());
  }
  const total = listed.reduce((sum, { byteLength }) => sum + byteLength, 0);
  terminal.note(`${formatCount(listed.length, "tensor")}, ${formatBytes(total)}`);
}
