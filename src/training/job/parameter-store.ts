import type { TableInfoMessage, TensorMessage } from "../messages.js";
import type { RowSource } from "../model/batch-rows.js";
import type { BatchGradients } from "../model/trainable-model.js";

/** What a pull gives. */
export interface PulledDense {
  readonly isInitialized: boolean;
  /** The version of each server. */
  readonly modelVersions: readonly number[];
  /** The variables of servers that are newer than what was had. */
  readonly dense: ReadonlyMap<string, TensorMessage>;
}

/** A model to begin with. */
export interface FirstModel {
  readonly dense: Map<string, TensorMessage>;
  readonly tableInfos: TableInfoMessage[];
}

/** How a push went. */
export interface PushResult {
  /** False when the gradients were of too old a version. */
  readonly accepted: boolean;
  /** The version of each server after it. */
  readonly modelVersions: readonly number[];
}

/** Where a worker's parameters are: on servers, or in its own memory. */
export interface ParameterStore extends RowSource {
  /** Makes the embedding tables that are not there. */
  prepare(tableInfos: TableInfoMessage[]): Promise<void>;
  /** Gives a model to a store that has none. */
  pushModel(model: FirstModel): Promise<void>;
  /** The dense variables that are newer than these versions; all unless versions are given. */
  pullDense(modelVersions?: readonly number[]): Promise<PulledDense>;
  /** Applies the gradients of a batch, made with these versions. */
  push(gradients: BatchGradients, modelVersions: readonly number[], learningRate: number): Promise<PushResult>;
  close(): Promise<void>;
}

/** Parameters in a worker's own memory. */
export interface OwnStore extends ParameterStore {
  /** Saves the last state unless it has been, and gives its version. */
  saveLast(): Promise<number>;
  /** Takes part in what others do together, where a worker has nothing of its own to do. */
  takePart?(learningRate: (modelVersion: number) => number): Promise<void>;
}
