import { Command } from "commander";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";
import { countFromOne } from "../training-options.js";

interface EvaluateOptions extends CommonOptions {
  readonly checkpointDirForInit: string;
  readonly minibatchSize: number;
}

/** `cairn evaluate MODEL_DEF` */
export function evaluateCommand(): Command {
  return new Command("evaluate")
    .summary("measure a saved version of a training")
    .description(
      "Computes the metrics of a model definition for a saved version, whatever the number of servers that saved it.",
    )
    .argument("<model-def>", "a JavaScript module whose default export is the model definition")
    .requiredOption(
      "--checkpoint-dir-for-init <dir>",
      "a version, or a checkpoint directory, of which the newest is taken",
    )
    .option("--minibatch-size <count>", "records at a time", countFromOne, 256)
    .addHelpText("after", "\nExample:\n  cairn evaluate model.js --checkpoint-dir-for-init ckpt/version_300")
    .action((path: string, options: EvaluateOptions) =>
      runCommand(options, (terminal) => run(path, options, terminal)),
    );
}

async function run(path: string, options: EvaluateOptions, terminal: Terminal): Promise<void> {
  const { loadModelDefinition } = await import("../../training/model/model-definition.js");
  const { evaluateVersion } = await import("../../training/job/run-evaluation.js");
  const evaluated = await evaluateVersion({
    definition: await loadModelDefinition(path),
    path: options.checkpointDirForInit,
    minibatchSize: options.minibatchSize,
    signal: terminal.signal,
    onNote: (text) => terminal.note(text),
  });
  for (const [name, value] of Object.entries(evaluated.metrics)) terminal.print(`${name} ${value}`);
  terminal.json(evaluated);
}
