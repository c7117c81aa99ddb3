import { Command } from "commander";
import { CairnError } from "../../errors.js";
import type { ListedTensor } from "../../ops/tensors.js";
import { hexOfKey } from "../../tensor/key.js";
import { runCommand } from "../run.js";
import { type CommonOptions, EXIT, errorJson, type Terminal } from "../terminal.js";

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
      "Lists the tensors of a path in key order. Of a model these are its constants: NODE, or FUNCTION:NODE in a function. When one is damaged, the others are listed and the exit code is 3.",
    )
    .argument("<path>", "SavedModel, checkpoint prefix or directory, .pb, .cpb or .pbtxt file")
    .option("--filter <glob>", "only keys that match; * stands for any characters, ? for one")
    .option("--sha256", "hash the data of each tensor")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn tensors my_model\n  cairn ls my_model --filter '*weights*'\n  cairn tensors my_model --sha256 --json\n  cairn tensors training/ckpt-30",
    )
    .action((path: string, options: TensorsOptions) => runCommand(options, (terminal) => run(path, options, terminal)));
}

async function run(path: string, options: TensorsOptions, terminal: Terminal): Promise<number> {
  const { listTensors, openTensors } = await import("../../ops/tensors.js");
  const { filesFor } = await import("../files.js");
  const { detection, tensors } = await openTensors(filesFor(path), path);
  try {
    for (const note of detection.notes) terminal.note(note);
    const progress = terminal.progress("hash");
    const listing = { filter: options.filter, sha256: options.sha256, onBytes: progress.add, signal: terminal.signal };
    const { listed, damage } = await listAll(listTensors(tensors, listing), terminal.signal);
    const good = listed.filter(({ error }) => error === undefined);
    const damaged = damage.map(({ key, error }) => ({ ...keyJson(key), ...errorJson(error) }));
    const rows = { format: detection.format, tensors: good.map(toJson) };
    terminal.json(damaged.length === 0 ? rows : { ...rows, damaged });
    await printTable(good, terminal);
    for (const { key, error } of damage) terminal.warn(key === undefined ? error.message : `${key}: ${error.message}`);
    return damage.length === 0 ? EXIT.good : EXIT.input;
  } finally {
    await tensors.close();
  }
}

/** A tensor that cannot be read, or the list that breaks off in an index that cannot be. */
interface Damage {
  readonly key?: string;
  readonly error: CairnError;
}

/** Lists what there is, and what of it is damaged. */
async function listAll(
  tensors: AsyncIterable<ListedTensor>,
  signal: AbortSignal,
): Promise<{ listed: readonly ListedTensor[]; damage: readonly Damage[] }> {
  const listed: ListedTensor[] = [];
  const damage: Damage[] = [];
  try {
    for await (const tensor of tensors) {
      listed.push(tensor);
      if (tensor.error !== undefined) damage.push({ key: tensor.key, error: tensor.error });
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof CairnError) || listed.length === 0) throw error;
    damage.push({ error });
  }
  return { listed, damage };
}

function toJson({ key, dtype, shape, byteLength, facts, sha256 }: ListedTensor): Record<string, unknown> {
  return { ...keyJson(key), dtype, shape, byteLength, ...facts, sha256 };
}

/** A key that is not plain text stands as its bytes. */
function keyJson(key: string | undefined): Record<string, unknown> {
  if (key === undefined) return {};
  const keyHex = hexOfKey(key);
  return keyHex === undefined ? { key } : { keyHex };
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
