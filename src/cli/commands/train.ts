import { Command, Option } from "commander";
import type { Layout } from "../../formats/elasticdl/names.js";
import type { TrainingResult } from "../../training/job/supervisor.js";
import { runCommand } from "../run.js";
import type { Terminal } from "../terminal.js";
import { addTrainingOptions, count, countFromOne, jobOptions, type TrainingFlags } from "../training-options.js";

interface TrainOptions extends TrainingFlags {
  readonly numPs: number;
  readonly optType?: string;
  readonly optArgs?: string;
  readonly syncVersionTolerance: number;
  readonly lrStalenessModulation?: boolean;
  readonly layout: Layout;
  readonly logDir?: string;
  readonly output?: string;
}

/** `cairn train MODEL_DEF` */
export function trainCommand(): Command {
  const command = new Command("train")
    .summary("train a model with parameter servers")
    .description(
      "Trains a model on this machine: starts parameter servers, workers and a master, each a process of its own, and goes on from the newest complete version when one of them dies.",
    )
    .argument("<model-def>", "a JavaScript module whose default export is the model definition")
    .option("--num-ps <count>", "parameter servers", countFromOne, 1)
    .option("--opt-type <type>", "SGD, Adam or Adagrad; the definition's unless said")
    .option("--opt-args <settings>", "settings, as learning_rate=0.1;momentum=0.9;nesterov=true;")
    .option("--sync-version-tolerance <count>", "versions that a push may be behind, without --use-async", count, 0)
    .option("--lr-staleness-modulation", "divide a push's learning rate by how far it is behind, with --use-async")
    .addOption(
      new Option("--layout <layout>", "names of versions and shards")
        .choices(["design", "elasticdl"])
        .default("design"),
    )
    .option("--log-dir <dir>", "where each process writes its log; beside the checkpoint directory unless said")
    .option("--output <path>", "write the best version there when it is done, or the last when none is evaluated");
  return addTrainingOptions(command)
    .addHelpText(
      "after",
      "\nExamples:\n  cairn train model.js --num-ps 2 --num-workers 2 --checkpoint-dir ckpt --checkpoint-steps 100 --keep-checkpoint-max 3\n  cairn train model.js --checkpoint-dir ckpt --checkpoint-steps 50 --evaluation-steps 50 --best-metric auc:max --patience 3 --output best.safetensors",
    )
    .action((path: string, options: TrainOptions) => runCommand(options, (terminal) => train(path, options, terminal)));
}

async function train(path: string, options: TrainOptions, terminal: Terminal): Promise<void> {
  const { loadModelDefinition, optimizerOf } = await import("../../training/model/model-definition.js");
  const { masterOptions } = await import("../../training/job/job-options.js");
  const { trainingLogDir } = await import("../../training/job/log-dir.js");
  const { StatusLine } = await import("../status-line.js");
  const definition = await loadModelDefinition(path);
  const ofDefinition = optimizerOf(definition);
  const { optType: type, optArgs } = options;
  const args = optArgs ?? (type === undefined ? ofDefinition.args : "");
  const optimizer = optimizerOf({ optimizer: { type: type ?? ofDefinition.type, args } });
  const job = jobOptions(options);
  // What contradicts itself is said before any process is there.
  await masterOptions(definition, job);
  await checkOutput(options.output);
  const logDir = trainingLogDir(options.logDir, options.checkpointDir);
  const line = new StatusLine(terminal);
  const shared = { ...options, ...job, optimizer, signal: terminal.signal, onStatus: line.show, onNote: line.note };
  terminal.note(`logs are in ${logDir}`);
  const { superviseTraining } = await import("../../training/job/supervisor.js");
  const result = await superviseTraining({
    ...shared,
    definitionPath: path,
    command: [process.execPath, process.argv[1] ?? ""],
    lrStalenessModulation: options.lrStalenessModulation === true,
    logDir,
  });
  line.end();
  await finish(result, options, terminal);
}

/** An output that exists is told of before the training, not after it. */
async function checkOutput(output: string | undefined): Promise<void> {
  if (output === undefined) return;
  const { UsageError } = await import("../../errors.js");
  const { filesFor } = await import("../files.js");
  if ((await filesFor(output).stat(output)) === undefined) return;
  throw new UsageError("exists", "the output exists already", {
    file: output,
    hint: "Choose another name, or remove it.",
  });
}

async function finish(result: TrainingResult, options: TrainOptions, terminal: Terminal): Promise<void> {
  const { modelVersion, reason, metrics, restarts } = result;
  const measured = Object.entries(metrics).map(([name, value]) => `  ${name} ${value}`);
  terminal.print(`version ${modelVersion}: ${reason}${measured.join("")}`);
  const { checkpointDir, output, evaluationSteps } = options;
  const { openVersions } = await import("../../ops/checkpoints.js");
  const { filesFor } = await import("../files.js");
  const directory =
    checkpointDir === undefined ? undefined : await openVersions(filesFor(checkpointDir), checkpointDir);
  const best = evaluationSteps > 0 ? (await directory?.best())?.best : undefined;
  const latest = (await directory?.latest())?.latest;
  if (best !== undefined) terminal.print(`best is version ${best.version}: ${best.path}`);
  const chosen = best ?? latest;
  if (output !== undefined && chosen !== undefined) await writeOutput(chosen.path, output, terminal);
  terminal.json({
    modelVersion,
    reason,
    metrics,
    restarts,
    latest: latest?.path ?? null,
    best: best?.path ?? null,
    output: output ?? null,
  });
}

/** Writes a version without the optimizer's state in the format that the name of the output says. */
async function writeOutput(path: string, output: string, terminal: Terminal): Promise<void> {
  const { planConversion } = await import("../../ops/convert.js");
  const { filesFor } = await import("../files.js");
  const { signal } = terminal;
  const target = { files: filesFor(output), path: output };
  const conversion = await planConversion({ files: filesFor(path), path }, target, { dropSlots: true, signal });
  try {
    await conversion.write({ signal });
    terminal.print(`${output}: ${conversion.to}, from ${path}`);
  } finally {
    await conversion.close();
  }
}
