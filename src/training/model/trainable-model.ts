import type { Scalar } from "@tensorflow/tfjs-core";
import { CorruptionError, UsageError } from "../../errors.js";
import type { SlicesMessage, TableInfoMessage, TensorMessage } from "../messages.js";
import { planBatchRows, type RowSource, type TableRows } from "./batch-rows.js";
import { type Table, toTable } from "./columns.js";
import type { Batch, EmbeddingDefinition, ModelDefinition } from "./model-definition.js";
import { withSeededRandom } from "./seeded-random.js";
import { loadTf, type Tf, type TfModel, type TfTensor, type TfVariable } from "./tfjs.js";

/** TensorFlow's number of float32. Source: tensorflow/core/framework/types.proto. */
const DT_FLOAT = 1;

/** Records of a range, checked: inputs and labels by row. */
export interface CheckedBatch {
  readonly count: number;
  readonly inputs: ReadonlyMap<string, Table>;
  readonly labels: Table | undefined;
}

/** Loss of a batch, and gradients by it. */
export interface BatchGradients {
  readonly loss: number;
  /** How many records they are the mean of. */
  readonly records: number;
  readonly dense: Map<string, TensorMessage>;
  readonly rows: Map<string, SlicesMessage>;
}

/** Outputs of a batch by name, in the model's order. */
export type BatchOutputs = ReadonlyMap<string, { readonly values: Float32Array; readonly shape: readonly number[] }>;

/**
 * A model of TF.js whose weights are set from outside, batch by batch, and whose embedding rows are fetched for each
 * batch. Names in checkpoints are those of Keras: `layer/kernel:0`.
 */
export class TrainableModel {
  readonly definition: ModelDefinition;
  readonly embeddings: readonly EmbeddingDefinition[];
  private readonly tf: Tf;
  private readonly model: TfModel;
  private readonly weights: ReadonlyMap<string, TfVariable>;
  /** The dense variables as they begin. */
  readonly initialDense: Map<string, TensorMessage>;

  private constructor(definition: ModelDefinition, tf: Tf, model: TfModel) {
    this.definition = definition;
    this.embeddings = definition.embeddings ?? [];
    this.tf = tf;
    this.model = model;
    this.weights = weightsOf(model);
    this.initialDense = new Map(
      Array.from(this.weights, ([name, variable]) => [name, floatTensor(variable.dataSync(), variable.shape)]),
    );
    for (const { input } of this.embeddings) {
      if (model.inputNames.includes(input)) continue;
      throw new UsageError("usage", `input "${input}" of an embedding`, {
        expected: `one of ${model.inputNames.join(", ")}`,
        actual: input,
      });
    }
  }

  /**
   * Makes the model of a definition, its first weights by `seed`.
   * @throws {@link UsageError} (`usage`) when it is no layers model, or has weights that parameter servers cannot carry
   */
  static async build(definition: ModelDefinition, seed: number): Promise<TrainableModel> {
    const tf = await loadTf();
    const model = await withSeededRandom(seed, () => definition.model(tf, { seed }));
    if (!Array.isArray(model?.inputNames) || typeof model.apply !== "function") {
      throw new UsageError("usage", "what the definition's model() gives", { expected: "a model of TF.js layers" });
    }
    return new TrainableModel(definition, tf, model);
  }

  /** The embedding tables, each once. */
  get tableInfos(): TableInfoMessage[] {
    const infos = this.embeddings.map(({ table: name, dim, initializer = "uniform" }) => {
      return [name, { name, dim, initializer, dtype: DT_FLOAT }] as const;
    });
    return [...new Map(infos).values()];
  }

  /** Sets dense variables. @throws {@link UsageError} (`usage`) for one that the model does not have so */
  setDense(values: ReadonlyMap<string, TensorMessage>): void {
    for (const [name, { dtype, shape, content }] of values) {
      const variable = this.weights.get(name);
      if (variable === undefined) continue;
      if (dtype !== DT_FLOAT || shape.join() !== variable.shape.join()) {
        throw new UsageError("usage", `variable "${name}" of the servers or the checkpoint`, {
          expected: `float32 [${variable.shape.join(", ")}]`,
          actual: `dtype ${dtype} [${shape.join(", ")}]`,
          hint: "The model definition is another than the one that was trained.",
        });
      }
      const floats = new Float32Array(content.slice().buffer);
      const tensor = this.tf.tensor(floats, [...variable.shape]);
      variable.assign(tensor);
      tensor.dispose();
    }
  }

  /** Checks that all variables of the model are among `names`. @throws {@link UsageError} (`usage`) */
  requireDense(names: { has(name: string): boolean }): void {
    const missing = [...this.weights.keys()].filter((name) => !names.has(name));
    if (missing.length === 0) return;
    throw new UsageError("usage", `no variable "${missing[0]}" in the checkpoint or on the servers`, {
      hint: "The model definition is another than the one that was trained.",
    });
  }

  /** Holds a batch against the model's inputs. @throws {@link UsageError} (`usage`) */
  check(batch: Batch, count: number): CheckedBatch {
    const inputs = new Map<string, Table>();
    for (const name of this.model.inputNames) {
      const column = batch.inputs[name];
      if (column === undefined)
        throw new UsageError("usage", `the batch has no column for the model's input "${name}"`);
      inputs.set(name, toTable(name, column, count));
    }
    const labels = batch.labels === undefined ? undefined : toTable("labels", batch.labels, count);
    return { count, inputs, labels };
  }

  /**
   * Computes loss and gradients of a batch.
   * @throws {@link CorruptionError} (`not-finite`) when the loss is no number, {@link UsageError} (`usage`)
   */
  async gradients(batch: CheckedBatch, source: RowSource): Promise<BatchGradients> {
    const { tf } = this;
    const { labels } = batch;
    if (labels === undefined) throw new UsageError("usage", "the batch has no labels to train with");
    const tables = await this.pull(batch, source);
    const rows = tables.map(({ values, ids, dim }) => tf.variable(tf.tensor2d(values, [ids.length, dim])));
    const weights = [...this.weights];
    const lossTensor = () => {
      const outputs = this.apply(batch, tables, rows, true);
      const [output] = Object.values(outputs);
      const given = { tf, labels: tensorOf(tf, labels, "float32"), output: output as TfTensor, outputs };
      return this.definition.loss(given) as Scalar;
    };
    let result: BatchGradients | undefined;
    try {
      tf.tidy(() => {
        const { value, grads } = tf.variableGrads(lossTensor, [...weights.map(([, weight]) => weight), ...rows]);
        const loss = value.dataSync()[0] as number;
        if (!Number.isFinite(loss)) {
          throw new CorruptionError("not-finite", "the loss is no number any more", {
            actual: loss,
            hint: "A smaller learning rate may help.",
          });
        }
        const gradient = (variable: TfVariable) => {
          const found = grads[variable.name];
          return floatTensor(found?.dataSync() ?? new Float32Array(variable.size), variable.shape);
        };
        result = {
          loss,
          records: batch.count,
          dense: new Map(weights.map(([name, weight]) => [name, gradient(weight)])),
          rows: new Map(tables.map(({ table, ids }, i) => [table, { ids, tensor: gradient(rows[i] as TfVariable) }])),
        };
      });
    } finally {
      for (const variable of rows) variable.dispose();
    }
    return result as unknown as BatchGradients;
  }

  /** What the model gives for a batch. */
  async predict(batch: CheckedBatch, source: RowSource): Promise<BatchOutputs> {
    const { tf } = this;
    const tables = await this.pull(batch, source);
    const outputs = new Map<string, { values: Float32Array; shape: readonly number[] }>();
    tf.tidy(() => {
      const rows = tables.map(({ values, ids, dim }) => tf.tensor2d(values, [ids.length, dim]));
      for (const [name, tensor] of Object.entries(this.apply(batch, tables, rows, false))) {
        outputs.set(name, { values: Float32Array.from(tensor.dataSync()), shape: [...tensor.shape] });
      }
    });
    return outputs;
  }

  private async pull(batch: CheckedBatch, source: RowSource): Promise<(TableRows & { values: Float32Array })[]> {
    const plans = planBatchRows(this.embeddings, batch.inputs);
    return Promise.all(
      plans.map(async (plan) => {
        const values = await source.pullRows(plan.table, plan.ids);
        if (values.length === plan.ids.length * plan.dim) return { ...plan, values };
        throw new UsageError("usage", `width of embedding table "${plan.table}"`, {
          expected: plan.dim,
          actual: values.length / Math.max(1, plan.ids.length),
          hint: "The model definition is another than the one that was trained.",
        });
      }),
    );
  }

  private apply(
    { inputs }: CheckedBatch,
    tables: readonly TableRows[],
    rows: readonly TfTensor[],
    training: boolean,
  ): Record<string, TfTensor> {
    const { tf, model } = this;
    const given = model.inputNames.map((name, i) => {
      const at = tables.findIndex((table) => table.inputs.has(name));
      const use = tables[at]?.inputs.get(name);
      if (use === undefined) return tensorOf(tf, inputs.get(name) as Table, model.inputs[i]?.dtype ?? "float32");
      const gathered = tf.gather(rows[at] as TfTensor, tf.tensor1d(use.rows, "int32"));
      return tf.reshape(gathered, [...use.shape, tables[at]?.dim ?? 0]);
    });
    const result = model.apply(given, { training }) as TfTensor | TfTensor[];
    const list = Array.isArray(result) ? result : [result];
    return Object.fromEntries(model.outputNames.map((name, i) => [name, list[i] as TfTensor]));
  }
}

function weightsOf(model: TfModel): Map<string, TfVariable> {
  const weights = new Map<string, TfVariable>();
  if (model.nonTrainableWeights.length > 0) {
    throw new UsageError(
      "usage",
      `weight "${model.nonTrainableWeights[0]?.originalName}" of the model is not trained`,
      {
        expected: "trained weights alone",
        hint: "Parameter servers hold what gradients change: batch normalization and frozen layers have no place there.",
      },
    );
  }
  for (const weight of model.trainableWeights) {
    const name = `${weight.originalName}:0`;
    const variable = weight.read() as TfVariable;
    if (weights.has(name)) throw new UsageError("usage", `two weights of the model are called "${name}"`);
    if (variable.dtype !== "float32") {
      throw new UsageError("usage", `dtype of weight "${name}"`, { expected: "float32", actual: variable.dtype });
    }
    weights.set(name, variable);
  }
  return weights;
}

function tensorOf(tf: Tf, { values, shape }: Table, dtype: string): TfTensor {
  const isWhole = dtype === "int32";
  const plain = values instanceof BigInt64Array ? Array.from(values, Number) : (values as readonly number[]);
  const typed = isWhole ? Int32Array.from(plain) : Float32Array.from(plain);
  return tf.tensor(typed, [...shape], isWhole ? "int32" : "float32");
}

function floatTensor(values: ArrayLike<number>, shape: readonly number[]): TensorMessage {
  const floats = Float32Array.from(values);
  return { dtype: DT_FLOAT, shape: [...shape], content: new Uint8Array(floats.buffer) };
}
