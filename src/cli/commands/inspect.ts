import { Command, InvalidArgumentError } from "commander";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface InspectOptions extends CommonOptions {
  readonly depth: number;
  readonly all?: boolean;
}

/** Siblings that are shown before the rest is only counted. */
const SHOWN_SIBLINGS = 24;

/** `cairn inspect PATH`, also `cairn show PATH` */
export function inspectCommand(): Command {
  return new Command("inspect")
    .alias("show")
    .summary("show what a path holds")
    .description(
      "Shows what a path holds: signatures, functions, ops and constants of a model; the chunks of a .cpb with their byte ranges.",
    )
    .argument("<path>", "SavedModel, checkpoint prefix or directory, .pb, .cpb, .pbtxt or Riegeli file")
    .option("--depth <levels>", "levels of the tree", parseDepth, 4)
    .option("--all", "show all nodes of long lists")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn inspect my_model\n  cairn inspect big.cpb --depth 2\n  cairn show my_model --json | jq .outline.facts",
    )
    .action((path: string, options: InspectOptions) => runCommand(options, (terminal) => run(path, options, terminal)));
}

async function run(path: string, options: InspectOptions, terminal: Terminal): Promise<void> {
  const { inspect, outlineToJson } = await import("../../ops/inspect.js");
  const { printTree } = await import("../tree.js");
  const { filesFor } = await import("../files.js");
  const inspection = await inspect(filesFor(path), path);
  try {
    const { detection, root } = inspection;
    for (const note of detection.notes) terminal.note(note);
    if (options.json) {
      terminal.json({
        path,
        format: detection.format,
        notes: detection.notes,
        outline: await outlineToJson(root, options.depth),
      });
      return;
    }
    const breadth = options.all ? Number.POSITIVE_INFINITY : SHOWN_SIBLINGS;
    await printTree(root, { depth: options.depth, breadth, width: terminal.columns }, terminal);
  } finally {
    await inspection.close();
  }
}

function parseDepth(text: string): number {
  const depth = Number(text);
  if (Number.isInteger(depth) && depth >= 0) return depth;
  throw new InvalidArgumentError("It is a whole number, 0 or more.");
}
