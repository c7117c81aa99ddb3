import { localFiles } from "../../platform/node/index.js";
import { dataSize, type ModelDefinition, metricsOf } from "../model/model-definition.js";
import { type BatchOutputs, TrainableModel } from "../model/trainable-model.js";
import { EvaluationRound } from "./evaluation-round.js";
import { EvaluationWork } from "./evaluation-work.js";
import { findVersion } from "./start-version.js";

/** What is evaluated, or predicted with. */
export interface VersionRunOptions {
  readonly definition: ModelDefinition;
  /** A version directory, or a checkpoint directory, of which the newest complete version is taken. */
  readonly path: string;
  readonly minibatchSize: number;
  readonly signal?: AbortSignal | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
}

/** How a version is. */
export interface EvaluatedVersion {
  readonly modelVersion: number;
  /** The version directory. */
  readonly path: string;
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * Evaluates a saved version, whatever the number of servers that saved it, in this process.
 * @throws NotFoundError (`not-found`, `no-complete-version`), UsageError (`usage`)
 */
export async function evaluateVersion(options: VersionRunOptions): Promise<EvaluatedVersion> {
  const { definition, minibatchSize, signal } = options;
  const { modelVersion, path } = await find(options);
  const size = await dataSize(definition, "evaluation");
  const round = new EvaluationRound({ round: 1, modelVersion, path }, size, minibatchSize);
  const work = new EvaluationWork(await TrainableModel.build(definition, 0));
  try {
    for (let part = round.take(0); part !== undefined; part = round.take(0)) {
      signal?.throwIfAborted();
      round.handIn(0, await work.run({ ...part, path, round: 1 }));
      round.complete(part.index);
    }
  } finally {
    await work.close();
  }
  return { modelVersion, path, metrics: round.metrics(metricsOf(definition)) };
}

/** Outputs of a saved version for all records of the prediction data, batch by batch. @throws as {@link evaluateVersion} */
export async function* predictWithVersion(options: VersionRunOptions): AsyncIterable<BatchOutputs> {
  const { definition, minibatchSize, signal } = options;
  const { path } = await find(options);
  const size = await dataSize(definition, "prediction");
  const work = new EvaluationWork(await TrainableModel.build(definition, 0));
  try {
    for (let start = 0; start < size; start += minibatchSize) {
      signal?.throwIfAborted();
      yield await work.predict(path, { start, end: Math.min(size, start + minibatchSize) });
    }
  } finally {
    await work.close();
  }
}

async function find({ path, onNote }: VersionRunOptions) {
  const found = await findVersion(localFiles, path);
  for (const note of found.notes) onNote?.(note);
  onNote?.(`version ${found.modelVersion}: ${found.path}`);
  return found;
}
