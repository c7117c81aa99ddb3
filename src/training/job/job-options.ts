import { randomUUID } from "node:crypto";
import { UsageError } from "../../errors.js";
import type { MetricsRecord } from "../../formats/elasticdl/metrics.js";
import type { Layout } from "../../formats/elasticdl/names.js";
import { localFiles } from "../../platform/node/index.js";
import { METRICS } from "../model/metric-functions.js";
import { dataSize, type ModelDefinition, metricsOf, optimizerOf } from "../model/model-definition.js";
import type { EvaluationOptions } from "./evaluator.js";
import type { Strategy } from "./master-link.js";
import type { MasterOptions } from "./master-options.js";
import { TaskSchedule } from "./task-schedule.js";

/** What a training is to be, apart from the processes that do it. */
export interface JobOptions {
  readonly strategy: Strategy;
  readonly numWorkers: number;
  readonly numEpochs: number;
  readonly minibatchSize: number;
  /** Batches of a task. */
  readonly numMinibatchesPerTask: number;
  readonly maxStep: number;
  readonly shuffle: boolean;
  readonly seed: number;
  readonly useAsync: boolean;
  readonly gradsToWait: number;
  readonly checkpointDir?: string | undefined;
  readonly checkpointSteps: number;
  readonly keepCheckpointMax: number;
  /** The version directory that training begins with. */
  readonly initPath?: string | undefined;
  readonly evaluationSteps: number;
  /** `NAME:min` or `NAME:max`. */
  readonly bestMetric?: string | undefined;
  readonly patience: number;
  readonly jobId?: string | undefined;
  /** Type and settings; the definition's unless said. */
  readonly optType?: string | undefined;
  readonly optArgs?: string | undefined;
  readonly layout: Layout;
  /** A worker that says nothing for so many seconds has lost its task. */
  readonly workerTimeout: number;
}

/** Servers that cannot be reached for so long end a training, in milliseconds. */
const SERVER_TIMEOUT_MS = 120_000;

/** What a master of such a training is given. @throws {@link UsageError} (`usage`) for options that contradict each other or the definition */
export async function masterOptions(definition: ModelDefinition, options: JobOptions): Promise<MasterOptions> {
  checkJob(options);
  const { strategy, seed, minibatchSize, shuffle, maxStep, checkpointDir, initPath } = options;
  const { checkpointSteps, keepCheckpointMax, layout } = options;
  const size = await dataSize(definition, "training");
  const { numMinibatchesPerTask: batchesPerTask, numEpochs } = options;
  return {
    job: {
      strategy,
      seed,
      minibatchSize,
      shuffle,
      maxStep,
      isExact: isExact(options),
      optimizer: optimizerOfJob(definition, options),
      saving: checkpointDir === undefined ? undefined : { checkpointDir, checkpointSteps, keepCheckpointMax, layout },
    },
    numWorkers: options.numWorkers,
    schedule: new TaskSchedule({ size, minibatchSize, batchesPerTask, numEpochs, shuffle, seed }),
    jobId: options.jobId ?? randomUUID(),
    files: localFiles,
    checkpointDir,
    initPath,
    evaluation: options.evaluationSteps > 0 ? await evaluationOptions(definition, options) : undefined,
    now: () => performance.now(),
    workerTimeoutMs: options.workerTimeout * 1000,
    serverTimeoutMs: SERVER_TIMEOUT_MS,
  };
}

/** The optimizer that is asked for: the definition's, unless another is named. @throws {@link UsageError} (`usage`) */
export function optimizerOfJob(
  definition: ModelDefinition,
  { optType, optArgs }: Pick<JobOptions, "optType" | "optArgs">,
): { readonly type: string; readonly args: string } {
  const own = optimizerOf(definition);
  const args = optArgs ?? (optType === undefined ? own.args : "");
  return optimizerOf({ optimizer: { type: optType ?? own.type, args } });
}

/** Whether each batch makes one version, in the order of the data: one worker, whose pushes are all applied at once. */
function isExact({ strategy, numWorkers, useAsync, gradsToWait }: JobOptions): boolean {
  if (strategy !== "parameter-server") return strategy === "local" || numWorkers === 1;
  return numWorkers === 1 && (useAsync || gradsToWait === 1);
}

/** Checks what can be checked without the definition. @throws {@link UsageError} (`usage`) */
export function checkJob(options: JobOptions): void {
  const { checkpointDir, checkpointSteps, evaluationSteps, patience, bestMetric, strategy, numWorkers } = options;
  if (strategy === "local" && numWorkers > 1) {
    throw new UsageError("usage", "workers of a training in one process", { expected: 1, actual: numWorkers });
  }
  if (checkpointSteps > 0 && checkpointDir === undefined) {
    throw new UsageError("usage", "checkpoints are to be saved, and --checkpoint-dir does not say where");
  }
  if (evaluationSteps > 0 && (checkpointSteps === 0 || evaluationSteps % checkpointSteps !== 0)) {
    throw new UsageError("usage", "--evaluation-steps", {
      expected: "a multiple of --checkpoint-steps: saved versions are evaluated",
      actual: `${evaluationSteps}, and --checkpoint-steps ${checkpointSteps}`,
    });
  }
  if (evaluationSteps === 0 && (patience > 0 || bestMetric !== undefined)) {
    throw new UsageError("usage", "--best-metric and --patience need --evaluation-steps");
  }
}

async function evaluationOptions(definition: ModelDefinition, options: JobOptions): Promise<EvaluationOptions> {
  const metrics = metricsOf(definition);
  const best = bestMetricOf(options.bestMetric, [...metrics.keys()]);
  const { evaluationSteps: steps, patience, minibatchSize, numMinibatchesPerTask } = options;
  const size = await dataSize(definition, "evaluation");
  return { steps, size, partSize: minibatchSize * numMinibatchesPerTask, metrics, best, patience };
}

/** Which metric says what is best: `NAME:min`, `NAME:max`; the first of the definition unless said. @throws {@link UsageError} (`usage`) */
export function bestMetricOf(text: string | undefined, names: readonly string[]): MetricsRecord["best"] {
  const [metric = "", mode = METRICS.get(metric)?.mode, rest] = (text ?? names[0] ?? "").split(":");
  if (!names.includes(metric)) {
    throw new UsageError("usage", "best metric", {
      expected: names.length === 0 ? "a metric in the model definition" : `one of ${names.join(", ")}`,
      actual: metric === "" ? "none" : metric,
    });
  }
  if ((mode === "min" || mode === "max") && rest === undefined) return { metric, mode };
  throw new UsageError("usage", `--best-metric ${metric}`, { expected: `${metric}:min or ${metric}:max` });
}

/** The options as the command line of a master has them. */
export function masterArguments(options: JobOptions): string[] {
  const given: readonly [string, string | number | boolean | undefined][] = [
    ["--strategy", options.strategy],
    ["--num-workers", options.numWorkers],
    ["--num-epochs", options.numEpochs],
    ["--minibatch-size", options.minibatchSize],
    ["--num-minibatches-per-task", options.numMinibatchesPerTask],
    ["--max-step", options.maxStep],
    ["--shuffle", options.shuffle],
    ["--seed", options.seed],
    ["--use-async", options.useAsync],
    ["--grads-to-wait", options.gradsToWait],
    ["--checkpoint-dir", options.checkpointDir],
    ["--checkpoint-steps", options.checkpointSteps],
    ["--keep-checkpoint-max", options.keepCheckpointMax],
    ["--checkpoint-dir-for-init", options.initPath],
    ["--evaluation-steps", options.evaluationSteps],
    ["--best-metric", options.bestMetric],
    ["--patience", options.patience],
    ["--job-id", options.jobId],
    ["--opt-type", options.optType],
    ["--opt-args", options.optArgs],
    ["--layout", options.layout],
    ["--worker-timeout", options.workerTimeout],
  ];
  return given.flatMap(([name, value]) => {
    if (value === undefined || value === false) return [];
    return value === true ? [name] : [name, String(value)];
  });
}
