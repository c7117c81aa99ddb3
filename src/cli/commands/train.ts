import { Command } from "commander";
import type { SuperviseOptions, TrainingResult } from "../../training/job/supervise-options.js";
import type { ModelDefinition } from "../../training/model/model-definition.js";
import { runCommand } from "../run.js";
import type { Terminal } from "../terminal.js";
import {
  addModelOptions,
  addTrainingOptions,
  count,
  countFromOne,
  jobOptions,
  type TrainingFlags,
} from "../training-options.js";

interface TrainOptions extends TrainingFlags {
  readonly numPs: number;
  readonly syncVersionTolerance: number;
  readonly lrStalenessModulation?: boolean;
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
    .option("--sync-version-tolerance <count>", "versions that a push may be behind, without --use-async", count, 0)
    .option("--lr-staleness-modulation", "divide a push's learning rate by how far it is behind, with --use-async")
    .option("--log-dir <dir>", "where each process writes its log; beside the checkpoint directory unless said")
    .option("--output <path>", "write the best version there when it is done, or the last when none is evaluated");
  return addModelOptions(addTrainingOptions(command))
    .addHelpText(
      "after",
      "\nExamples:\n  cairn train model.js --num-ps 2 --num-workers 2 --checkpoint-dir ckpt --checkpoint-steps 100 --keep-checkpoint-max 3\n  cairn train model.js --checkpoint-dir ckpt --checkpoint-steps 50 --evaluation-steps 50 --best-metric auc:max --patience 3 --output best.safetensors",
    )
    .action((path: string, options: TrainOptions) => runCommand(options, (terminal) => train(path, options, terminal)));
}

async function train(path: string, options: TrainOptions, terminal: Terminal): Promise<void> {
  const { loadModelDefinition } = await import("../../training/model/model-definition.js");
  const { masterOptions, optimizerOfJob } = await import("../../training/job/job-options.js");
  const { trainingLogDir } = await import("../../training/job/log-dir.js");
  const { StatusLine } = await import("../status-line.js");
  const definition = await loadModelDefinition(path);
  const job = jobOptions(options);
  // What contradicts itself is said before any process is there.
  await masterOptions(definition, job);
  await checkOutput(options.output);
  const logDir = trainingLogDir(options.logDir, options.checkpointDir);
  const optimizer = optimizerOfJob(definition, options);
  const line = new StatusLine(terminal);
  const shared = {
    ...options,
    ...job,
    optimizer,
    signal: terminal.signal,
    onStatus: line.show,
    onNote: line.note,
  };
  if (job.strategy !== "local") terminal.note(`logs are in ${logDir}`);
  const result = await start(path, definition, { ...shared, logDir });
  line.end();
  await finish(result, options, terminal);
}

type Shared = Omit<SuperviseOptions, "definitionPath" | "command" | "lrStalenessModulation"> &
  Pick<TrainOptions, "lrStalenessModulation">;

/** Trains in this process, or with processes. */
async function start(path: string, definition: ModelDefinition, options: Shared): Promise<TrainingResult> {
  if (options.strategy === "local") {
    const { trainLocally } = await import("../../training/job/train-locally.js");
    return trainLocally(definition, options);
  }
  const { superviseTraining } = await import("../../training/job/supervisor.js");
  const command = [process.execPath, process.argv[1] ?? ""];
  const lrStalenessModulation = options.lrStalenessModulation === true;
  return superviseTraining({ ...options, definitionPath: path, command, lrStalenessModulation });
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
