import { Command } from "commander";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";
import { countFromOne } from "../training-options.js";

interface PredictOptions extends CommonOptions {
  readonly checkpointDirForInit: string;
  readonly minibatchSize: number;
  readonly output?: string;
  readonly force?: boolean;
}

/** `cairn predict MODEL_DEF` */
export function predictCommand(): Command {
  return new Command("predict")
    .summary("predict with a saved version of a training")
    .description(
      "Writes what a saved version gives for the prediction data of a model definition: one line of JSON for each record, by the name of the output.",
    )
    .argument("<model-def>", "a JavaScript module whose default export is the model definition")
    .requiredOption(
      "--checkpoint-dir-for-init <dir>",
      "a version, or a checkpoint directory, of which the newest is taken",
    )
    .option("--minibatch-size <count>", "records at a time", countFromOne, 256)
    .option("-o, --output <file>", "the file to write; standard output unless said")
    .option("--force", "replace an existing output")
    .addHelpText("after", "\nExample:\n  cairn predict model.js --checkpoint-dir-for-init ckpt -o predictions.jsonl")
    .action((path: string, options: PredictOptions) => runCommand(options, (terminal) => run(path, options, terminal)));
}

async function run(path: string, options: PredictOptions, terminal: Terminal): Promise<void> {
  const { loadModelDefinition } = await import("../../training/model/model-definition.js");
  const { predictWithVersion } = await import("../../training/job/run-evaluation.js");
  const { predictionLines } = await import("../../training/job/prediction-lines.js");
  const { fillSink } = await import("../../bytes/byte-sink.js");
  const { filesFor } = await import("../files.js");
  const { StdoutSink } = await import("../stdout-sink.js");
  const { output, force: overwrite } = options;
  const batches = predictWithVersion({
    definition: await loadModelDefinition(path),
    path: options.checkpointDirForInit,
    minibatchSize: options.minibatchSize,
    signal: terminal.signal,
    onNote: (text) => terminal.note(text),
  });
  const sink =
    output === undefined || output === "-" ? new StdoutSink() : await filesFor(output).create(output, { overwrite });
  let records = 0;
  await fillSink(sink, async () => {
    for await (const outputs of batches) {
      const lines = predictionLines(outputs);
      records += lines.length;
      await sink.write(new TextEncoder().encode(lines.join("")));
    }
  });
  if (output !== undefined && output !== "-") terminal.json({ output, records });
  terminal.note(`${records} records`);
}
