import { UsageError } from "../errors.js";
import { type DType, elementBytes, findDType } from "../tensor/dtype.js";
import { type EmbeddingTableSpec, LiveEmbeddingTable, type TableContext } from "./embedding-table.js";
import { parseInitializer } from "./initializers.js";
import type { TensorMessage } from "./messages.js";
import type { Optimizer } from "./optimizers.js";
import { densePageBytes, makeBlock, PageNumbers, type ParameterBlock } from "./parameter-block.js";
import { NO_GUARD, type WriteGuard } from "./write-guard.js";

/** The dtypes that ElasticDL's tables of dtypes hold. Source: elasticdl/python/common/dtypes.py. */
const DTYPES: ReadonlySet<DType> = new Set(["float32", "float64", "int8", "int16", "int32", "int64", "bool"]);

/** A dense variable in memory that the thread which writes checkpoints sees too. */
export interface DenseParameter {
  readonly name: string;
  readonly dtype: DType;
  /** TensorFlow's number of the dtype. */
  readonly dtypeNumber: number;
  readonly shape: readonly number[];
  readonly memory: ParameterBlock;
  /** The values, row-major and little-endian. */
  readonly bytes: Uint8Array;
  /** Values and slots of a float32 variable; of others, which are not trained, none. */
  readonly arrays: readonly Float32Array[];
}

/** Options of {@link Parameters}. */
export interface ParametersOptions {
  readonly optimizer: Optimizer;
  /** What random rows depend on, beside table and id; 0 unless said. */
  readonly seed?: number | undefined;
  readonly guard?: WriteGuard | undefined;
}

/** A parameter server's share of a model: dense variables, rows of embedding tables, optimizer state and counters. */
export class Parameters {
  /** The model's version: how many updates have been applied, from where the first worker's model began. */
  modelVersion = 0;
  /** Whether the dense variables are there. */
  isInitialized = false;
  /** How often the optimizer has been applied: its step, as `iterations` in Keras. */
  step = 0;
  /** The learning rate that was used last; at first the optimizer's own. */
  learningRate: number;
  readonly optimizer: Optimizer;
  readonly seed: number;
  readonly dense: Map<string, DenseParameter> = new Map();
  readonly tables: Map<string, LiveEmbeddingTable> = new Map();
  readonly pages: PageNumbers = new PageNumbers();
  private readonly guard: WriteGuard;

  /** No parameters yet. */
  constructor({ optimizer, seed = 0, guard = NO_GUARD }: ParametersOptions) {
    this.optimizer = optimizer;
    this.learningRate = optimizer.learningRate;
    this.seed = seed;
    this.guard = guard;
  }

  /** Adds a dense variable. @throws {@link UsageError} (`usage`) when its data do not fit or its dtype is not one of ElasticDL's */
  addDense(name: string, tensor: TensorMessage): DenseParameter {
    const dtype = checkTensor(name, tensor);
    const isTrained = dtype === "float32";
    const slots = isTrained ? this.optimizer.slots : [];
    const { length } = tensor.content;
    const memory = makeBlock(this.pages, {
      byteLength: length,
      pageBytes: densePageBytes(),
      arrayCount: 1 + slots.length,
    });
    const arrays = isTrained ? memory.arrays.map((array) => new Float32Array(array)) : [];
    slots.forEach(({ initialValue }, slot) => void arrays[slot + 1]?.fill(initialValue));
    const bytes = new Uint8Array(memory.arrays[0] as SharedArrayBuffer);
    bytes.set(tensor.content);
    const { dtype: dtypeNumber, shape } = tensor;
    const parameter = { name, dtype, dtypeNumber, shape, memory, bytes, arrays };
    this.dense.set(name, parameter);
    return parameter;
  }

  /**
   * Adds an embedding table; one that is there stays as it is.
   * @throws {@link UsageError} (`usage`) when it is there with another width, (`unknown-initializer`)
   */
  addTable(spec: EmbeddingTableSpec): LiveEmbeddingTable {
    const known = this.tables.get(spec.name);
    if (known === undefined) {
      parseInitializer(spec.initializer, spec.dim);
      return this.addStoredTable(spec);
    }
    if (known.dim === spec.dim) return known;
    throw new UsageError("usage", `width of embedding table "${spec.name}"`, { expected: known.dim, actual: spec.dim });
  }

  /** The same for a table from a checkpoint: an initializer that cairn does not know is an error only once it is needed. */
  addStoredTable(spec: EmbeddingTableSpec): LiveEmbeddingTable {
    const table = new LiveEmbeddingTable(spec, this.tableContext());
    this.tables.set(spec.name, table);
    return table;
  }

  /** A table. @throws {@link UsageError} (`unknown-parameter`) */
  table(name: string): LiveEmbeddingTable {
    const table = this.tables.get(name);
    if (table !== undefined) return table;
    throw new UsageError("unknown-parameter", `no embedding table "${name}" on this parameter server`);
  }

  /** Must be called before a dense variable's values or slots change. */
  beforeDenseWrite({ memory }: DenseParameter, start: number = 0, end: number = memory.byteLength): void {
    if (this.guard.isActive) this.guard.beforeWrite(memory, start, end);
  }

  private tableContext(): TableContext {
    const slotValues = this.optimizer.slots.map(({ initialValue }) => initialValue);
    return { pages: this.pages, guard: this.guard, slotValues, seed: this.seed };
  }
}

/** The dtype of a tensor whose data are as long as its shape says. @throws {@link UsageError} (`usage`) */
export function checkTensor(name: string, { dtype: number, shape, content }: TensorMessage): DType {
  const dtype = findDType(number);
  if (dtype === undefined || !DTYPES.has(dtype)) {
    throw new UsageError("usage", `dtype of "${name}"`, { expected: [...DTYPES].join(", "), actual: dtype ?? number });
  }
  const expected = shape.reduce((count, size) => count * size, elementBytes(dtype));
  if (expected === content.length) return dtype;
  throw new UsageError("usage", `data of "${name}", ${dtype} [${shape.join(", ")}], in tensor_content`, {
    expected: `${expected} bytes`,
    actual: `${content.length} bytes`,
  });
}
