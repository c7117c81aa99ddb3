import { Command, InvalidArgumentError } from "commander";
import type { ChangedTensor, DiffReport } from "../../ops/diff.js";
import { runCommand } from "../run.js";
import { type CommonOptions, EXIT, type Terminal } from "../terminal.js";

interface DiffCommandOptions extends CommonOptions {
  readonly filter?: string;
  readonly tolerance: number;
  readonly relativeTolerance: number;
}

/** `cairn diff A B` */
export function diffCommand(): Command {
  return new Command("diff")
    .summary("compare the tensors of two models or checkpoints")
    .description(
      "Compares two paths tensor by tensor, across formats: what was added or removed, whose shape or dtype differs, and whose values, by how much and where first. Nothing is loaded whole.\nExit code 1 when there is a difference.",
    )
    .argument("<a>", "what is compared")
    .argument("<b>", "what it is compared with")
    .option("--filter <glob>", "only tensors whose name matches, as 'encoder/*'")
    .option("--tolerance <number>", "differences up to this are none", toleranceArgument, 0)
    .option("--relative-tolerance <number>", "the same, as a part of the larger of two values", toleranceArgument, 0)
    .addHelpText(
      "after",
      "\nExamples:\n  cairn diff run1/ckpt-100 run1/ckpt-200\n  cairn diff ckpt-100 model.safetensors --tolerance 1e-3\n  cairn diff old_model new_model --json",
    )
    .action((a: string, b: string, options: DiffCommandOptions) =>
      runCommand(options, (terminal) => run(a, b, options, terminal)),
    );
}

async function run(a: string, b: string, options: DiffCommandOptions, terminal: Terminal): Promise<number> {
  const { openTensors } = await import("../../ops/tensors.js");
  const { diff } = await import("../../ops/diff.js");
  const { filesFor } = await import("../files.js");
  const left = (await openTensors(filesFor(a), a)).tensors;
  try {
    const right = (await openTensors(filesFor(b), b)).tensors;
    try {
      const progress = terminal.progress("compared");
      const { filter, tolerance, relativeTolerance } = options;
      const { signal } = terminal;
      const report = await diff(left, right, { filter, tolerance, relativeTolerance, signal, onBytes: progress.add });
      await Promise.all([left.verify(), right.verify()]);
      terminal.json(report);
      return printReport(report, terminal);
    } finally {
      await right.close();
    }
  } finally {
    await left.close();
  }
}

function printReport({ added, removed, changed, sameCount }: DiffReport, terminal: Terminal): number {
  for (const key of removed) terminal.print(terminal.style("red", `- ${key}`));
  for (const key of added) terminal.print(terminal.style("green", `+ ${key}`));
  for (const change of changed) terminal.print(`${terminal.style("yellow", "~")} ${changeLine(change)}`);
  const isSame = added.length + removed.length + changed.length === 0;
  const counts = [
    [removed.length, "removed"],
    [added.length, "added"],
    [changed.length, "changed"],
    [sameCount, "the same"],
  ].flatMap(([count, what]) => (count === 0 ? [] : [`${count?.toLocaleString("en-US")} ${what}`]));
  terminal.print(counts.length === 0 ? "no tensors to compare" : counts.join(", "));
  return isSame ? EXIT.good : EXIT.findings;
}

function changeLine({ key, reason, detail, maxAbs, maxRel }: ChangedTensor): string {
  const amounts =
    maxAbs === null || maxRel === null
      ? ""
      : `; at most ${maxAbs.toPrecision(3)} apart, ${maxRel.toPrecision(3)} of the value`;
  return `${key}: ${reason}: ${detail}${amounts}`;
}

function toleranceArgument(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0)) throw new InvalidArgumentError("A tolerance is a number from 0 up.");
  return value;
}
