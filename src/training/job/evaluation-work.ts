import { UsageError } from "../../errors.js";
import type { TensorMessage } from "../messages.js";
import { readBatch } from "../model/model-definition.js";
import type { BatchOutputs, TrainableModel } from "../model/trainable-model.js";
import { LocalStore } from "./local-store.js";
import type { EvaluationOutputs } from "./master-link.js";

/** TensorFlow's number of float32. Source: tensorflow/core/framework/types.proto. */
const DT_FLOAT = 1;

/** A saved version, and a range of records. */
export interface EvaluationRange {
  readonly start: number;
  readonly end: number;
  /** The version directory. */
  readonly path: string;
  /** Counts evaluations: of another one the files may be others. */
  readonly round: number;
}

/**
 * Computes what a saved version gives for evaluation records. The version is read from its files as a whole and kept until
 * another is asked for; the model that is being trained has no part in it.
 */
export class EvaluationWork {
  private readonly model: TrainableModel;
  private opened: { readonly key: string; readonly store: LocalStore } | undefined;

  constructor(model: TrainableModel) {
    this.model = model;
  }

  /** Does one range. @throws {@link UsageError} (`usage`), and what damaged versions give */
  async run(range: EvaluationRange): Promise<Omit<EvaluationOutputs, "workerId">> {
    const { model } = this;
    const store = await this.open(range.path, range.round);
    const { dense } = await store.pullDense();
    model.requireDense(dense);
    model.setDense(dense);
    const count = range.end - range.start;
    const batch = model.check(await readBatch(model.definition, "evaluation", range), count);
    if (batch.labels === undefined) throw new UsageError("usage", "the evaluation data have no labels");
    const outputs = await model.predict(batch, store);
    const values = Float32Array.from(batch.labels.values as readonly number[], Number);
    const labels: TensorMessage = {
      dtype: DT_FLOAT,
      shape: [...batch.labels.shape],
      content: new Uint8Array(values.buffer),
    };
    return { outputs, labels };
  }

  /** Outputs for records without labels. */
  async predict(path: string, range: { readonly start: number; readonly end: number }): Promise<BatchOutputs> {
    const store = await this.open(path, 0);
    const { dense } = await store.pullDense();
    this.model.requireDense(dense);
    this.model.setDense(dense);
    const batch = await readBatch(this.model.definition, "prediction", range);
    return this.model.predict(this.model.check(batch, range.end - range.start), store);
  }

  /** Lets go of the version. */
  async close(): Promise<void> {
    const { opened } = this;
    this.opened = undefined;
    await opened?.store.close();
  }

  private async open(path: string, round: number): Promise<LocalStore> {
    const key = `${round}:${path}`;
    if (this.opened?.key === key) return this.opened.store;
    await this.close();
    // The state of an optimizer is not needed: plain SGD has none.
    const store = await LocalStore.open({ optimizer: { type: "SGD", args: "" }, checkpointDirForInit: path });
    await store.prepare(this.model.tableInfos);
    this.opened = { key, store };
    return store;
  }
}
