import { UsageError } from "../errors.js";
import type { TensorContent } from "./encode-messages.js";
import { FloatScratch, floatsOf } from "./float-view.js";
import { GradientBuffer } from "./gradient-buffer.js";
import { applyGradients, checkGradients } from "./gradients.js";
import { idWords } from "./ids.js";
import type {
  DenseParametersMessage,
  GradientsAnswerMessage,
  GradientsMessage,
  ModelMessage,
  TensorMessage,
  VectorsRequestMessage,
} from "./messages.js";
import { checkTensor, type Parameters } from "./parameters.js";

/** TensorFlow's number of float32. Source: tensorflow/core/framework/types.proto. */
const DT_FLOAT = 1;

/**
 * What a parameter server does for workers: `proto.Pserver`. Every call is done when it returns. Tensors that it takes may
 * be views of a message, and are changed by it; those that it gives are views of the parameters.
 */
export interface Pserver {
  /** Takes the first worker's model as the one to train; that of later ones is ignored. */
  pushModel(model: ModelMessage): void;
  /** Makes the embedding tables that are not there. */
  pushEmbeddingTableInfos(model: ModelMessage): void;
  /** The dense variables, when they are newer than what the worker has. */
  pullDenseParameters(modelVersion: number): DenseParametersMessage;
  /** Rows in the order of the ids, made where there are none. */
  pullEmbeddingVectors(request: VectorsRequestMessage): TensorContent;
  /** Applies gradients, or keeps them until there are enough. */
  pushGradients(request: GradientsMessage): GradientsAnswerMessage;
}

/** How gradients are applied. */
export interface SgdOptions {
  /** Apply each push at once. */
  readonly useAsync?: boolean | undefined;
  /** In sync mode: how many pushes are applied together; 1 unless said. */
  readonly gradsToWait?: number | undefined;
  /** In sync mode: how many versions behind a push may be; 0 unless said. */
  readonly syncVersionTolerance?: number | undefined;
  /** In async mode: divide a push's learning rate by how many versions it is behind. */
  readonly lrStalenessModulation?: boolean | undefined;
  /** Called after every update, before the push is answered. */
  readonly onUpdate?: ((modelVersion: number) => void) | undefined;
}

/**
 * The SGD of ElasticDL's parameter server, asynchronous or synchronous, over {@link Parameters}.
 * Source: elasticdl/python/ps/servicer.py, PserverServicer.
 */
export class PserverService implements Pserver {
  readonly parameters: Parameters;
  private readonly options: SgdOptions;
  private readonly buffer = new GradientBuffer();
  private readonly scratch = new FloatScratch();

  /** Serves these parameters. @throws {@link UsageError} (`usage`) for options that are no counts */
  constructor(parameters: Parameters, options: SgdOptions = {}) {
    const { gradsToWait = 1, syncVersionTolerance = 0 } = options;
    if (!Number.isInteger(gradsToWait) || gradsToWait < 1 || !(syncVersionTolerance >= 0)) {
      throw new UsageError("usage", "gradients to wait for from 1, versions of tolerance from 0", {
        actual: `${gradsToWait}, ${syncVersionTolerance}`,
      });
    }
    this.parameters = parameters;
    this.options = options;
  }

  /** See {@link Pserver.pushModel}. @throws {@link UsageError} (`usage`, `unknown-initializer`); the model is not taken then */
  pushModel(model: ModelMessage): void {
    const { parameters } = this;
    if (parameters.isInitialized) return;
    for (const [name, tensor] of model.denseParameters) checkTensor(name, tensor);
    this.pushEmbeddingTableInfos(model);
    for (const [name, { tensor, ids }] of model.embeddingTables) this.setRows(name, tensor, ids);
    for (const [name, tensor] of model.denseParameters) parameters.addDense(name, tensor);
    parameters.modelVersion = Math.max(0, model.modelVersion);
    parameters.isInitialized = true;
  }

  /** See {@link Pserver.pushEmbeddingTableInfos}. @throws {@link UsageError} (`usage`, `unknown-initializer`) */
  pushEmbeddingTableInfos(model: ModelMessage): void {
    for (const { name, dim, initializer } of model.tableInfos) this.parameters.addTable({ name, dim, initializer });
  }

  /** See {@link Pserver.pullDenseParameters}. */
  pullDenseParameters(modelVersion: number): DenseParametersMessage {
    const { isInitialized, modelVersion: current, dense } = this.parameters;
    const denseParameters = new Map<string, TensorMessage>();
    // Python's server sends them when its version is greater, Go's also when it is equal.
    if (isInitialized && current > modelVersion) {
      for (const [name, { dtypeNumber, shape, bytes }] of dense) {
        denseParameters.set(name, { dtype: dtypeNumber, shape: [...shape], content: bytes });
      }
    }
    return { initialized: isInitialized, modelVersion: isInitialized ? current : 0, denseParameters };
  }

  /** See {@link Pserver.pullEmbeddingVectors}. @throws {@link UsageError} (`unknown-parameter`) */
  pullEmbeddingVectors({ name, ids }: VectorsRequestMessage): TensorContent {
    if (ids.length === 0) return { dtype: 0, shape: [], byteLength: 0, fill: () => {} };
    const table = this.parameters.table(name);
    const { dim } = table;
    const rows = new Int32Array(ids.length);
    table.ensureRows(ids, rows);
    const fill = (target: Uint8Array, offset: number): void => {
      const bytes = target.subarray(offset, offset + 4 * rows.length * dim);
      const isAligned = bytes.byteOffset % 4 === 0;
      const floats = isAligned ? floatsOf(bytes, this.scratch.take) : new Float32Array(rows.length * dim);
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i] as number;
        const source = table.arraysOf(row)[0] as Float32Array;
        const start = table.offsetOf(row);
        for (let k = 0; k < dim; k++) floats[i * dim + k] = source[start + k] as number;
      }
      if (!isAligned) bytes.set(new Uint8Array(floats.buffer));
    };
    return { dtype: DT_FLOAT, shape: [ids.length, dim], byteLength: 4 * ids.length * dim, fill };
  }

  /** See {@link Pserver.pushGradients}. @throws {@link UsageError} (`unknown-parameter`, `gradient-mismatch`); nothing has changed then */
  pushGradients(request: GradientsMessage): GradientsAnswerMessage {
    return this.options.useAsync === true ? this.pushAsync(request) : this.pushSync(request);
  }

  private pushAsync({ gradients, learningRate }: GradientsMessage): GradientsAnswerMessage {
    const { parameters } = this;
    this.scratch.reset();
    const checked = checkGradients(parameters, gradients, this.scratch.take);
    let rate = learningRate;
    if (this.options.lrStalenessModulation === true && rate > 0) {
      rate /= Math.max(1, parameters.modelVersion - gradients.modelVersion);
    }
    applyGradients(parameters, checked, this.useLearningRate(rate));
    return this.updated();
  }

  private pushSync({ gradients, learningRate }: GradientsMessage): GradientsAnswerMessage {
    const { parameters, options } = this;
    const { gradsToWait = 1, syncVersionTolerance = 0 } = options;
    if (gradients.modelVersion < parameters.modelVersion - syncVersionTolerance) {
      return { accepted: false, modelVersion: parameters.modelVersion };
    }
    this.scratch.reset();
    const checked = checkGradients(parameters, gradients, this.scratch.take);
    if (gradsToWait === 1) {
      applyGradients(parameters, checked, this.useLearningRate(learningRate));
      return this.updated();
    }
    this.buffer.add(checked);
    if (this.buffer.count < gradsToWait) return { accepted: true, modelVersion: parameters.modelVersion };
    applyGradients(parameters, this.buffer.take(), this.useLearningRate(learningRate));
    return this.updated();
  }

  /** The learning rate of an update: that of the push, or when it says 0 the one used last. */
  private useLearningRate(rate: number): number {
    if (!Number.isFinite(rate))
      throw new UsageError("gradient-mismatch", "the learning rate is no number", { actual: rate });
    if (rate !== 0) this.parameters.learningRate = rate;
    return this.parameters.learningRate;
  }

  private updated(): GradientsAnswerMessage {
    const modelVersion = ++this.parameters.modelVersion;
    this.options.onUpdate?.(modelVersion);
    return { accepted: true, modelVersion };
  }

  private setRows(name: string, tensor: TensorMessage, ids: BigInt64Array): void {
    const table = this.parameters.table(name);
    const isFloat = checkTensor(name, tensor) === "float32";
    if (ids.length === 0) return;
    if (!isFloat || tensor.shape.length !== 2 || tensor.shape[0] !== ids.length || tensor.shape[1] !== table.dim) {
      throw new UsageError("usage", `rows of embedding table "${name}"`, {
        expected: `float32 [${ids.length}, ${table.dim}]`,
        actual: `[${tensor.shape.join(", ")}]`,
      });
    }
    const words = idWords(ids);
    const values = floatsOf(tensor.content, (count) => new Float32Array(count));
    for (let i = 0; i < ids.length; i++) {
      table.setRow(words[2 * i] as number, words[2 * i + 1] as number, values, i * table.dim);
    }
  }
}
