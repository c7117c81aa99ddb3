import { UsageError } from "../errors.js";
import type { LiveEmbeddingTable } from "./embedding-table.js";
import { floatsOf } from "./float-view.js";
import { idWords } from "./ids.js";
import type { ModelMessage, SlicesMessage, TensorMessage } from "./messages.js";
import { checkTensor, type DenseParameter, type Parameters } from "./parameters.js";
import { combineRows } from "./row-gradients.js";

/** Gradients of a whole dense variable. */
export interface DenseGradient {
  readonly parameter: DenseParameter;
  readonly values: Float32Array;
}

/** Gradients of some rows of an embedding table or of a dense variable. */
export interface RowGradients {
  readonly target: LiveEmbeddingTable | DenseParameter;
  readonly ids: BigInt64Array;
  /** As many rows as ids. Applying them changes them. */
  readonly values: Float32Array;
}

/** Gradients that fit the parameters. */
export interface Gradients {
  readonly dense: readonly DenseGradient[];
  readonly rows: readonly RowGradients[];
}

/**
 * Holds gradients against the parameters they are for, before any of them is applied. Numbers that are not finite are
 * accepted, as by ElasticDL: what a worker's loss does is not the server's to judge.
 * @throws {@link UsageError} (`unknown-parameter`, `gradient-mismatch`, `usage`) in the words of ElasticDL's servicer
 */
export function checkGradients(
  parameters: Parameters,
  model: ModelMessage,
  scratch: (count: number) => Float32Array,
): Gradients {
  const dense = Array.from(model.denseParameters, ([name, tensor]) => checkDense(parameters, name, tensor, scratch));
  const rows = Array.from(model.embeddingTables, ([name, slices]) => checkRows(parameters, name, slices, scratch));
  return { dense, rows };
}

/** Applies gradients as one step of the optimizer. */
export function applyGradients(parameters: Parameters, gradients: Gradients, learningRate: number): void {
  parameters.step++;
  const kernel = parameters.optimizer.kernel(learningRate, parameters.step);
  for (const { parameter, values } of gradients.dense) {
    parameters.beforeDenseWrite(parameter);
    kernel(parameter.arrays, 0, values, 0, values.length);
  }
  for (const { target, ids, values } of gradients.rows) {
    const rows = new Int32Array(ids.length);
    if ("memory" in target) {
      const width = values.length / Math.max(1, ids.length);
      const words = idWords(ids);
      for (let i = 0; i < rows.length; i++) rows[i] = words[2 * i] as number;
      const count = combineRows(rows, values, width);
      for (let i = 0; i < count; i++) {
        const start = (rows[i] as number) * width;
        parameters.beforeDenseWrite(target, start * 4, (start + width) * 4);
        kernel(target.arrays, start, values, i * width, width);
      }
      continue;
    }
    target.ensureRows(ids, rows);
    const count = combineRows(rows, values, target.dim);
    for (let i = 0; i < count; i++) {
      const row = rows[i] as number;
      target.beforeWrite(row);
      kernel(target.arraysOf(row), target.offsetOf(row), values, i * target.dim, target.dim);
    }
  }
}

function checkDense(
  parameters: Parameters,
  name: string,
  tensor: TensorMessage,
  scratch: (count: number) => Float32Array,
): DenseGradient {
  const parameter = parameters.dense.get(name);
  if (parameter === undefined) throw unknown(name);
  const { shape } = parameter;
  if (!isSameShape(shape, tensor.shape)) {
    throw mismatch("Non embedding param", name, formatShape(tensor.shape), formatShape(shape));
  }
  checkFloats(name, tensor, parameter);
  return { parameter, values: floatsOf(tensor.content, scratch) };
}

function checkRows(
  parameters: Parameters,
  name: string,
  { tensor, ids }: SlicesMessage,
  scratch: (count: number) => Float32Array,
): RowGradients {
  const target = parameters.dense.get(name) ?? parameters.tables.get(name);
  if (target === undefined) throw unknown(name);
  const isDense = "memory" in target;
  const rowShape = isDense ? target.shape.slice(1) : [target.dim];
  const kind = isDense ? "Non embedding param" : "ElasticDL embedding param";
  const [, ...given] = tensor.shape;
  // Rows that are not there need no width: an empty tensor is what a worker without rows sends.
  const isEmpty = ids.length === 0 && tensor.content.length === 0;
  if (!isEmpty && !isSameShape(rowShape, given)) {
    throw mismatch(kind, name, formatShape(["None", ...given]), formatShape(["None", ...rowShape]));
  }
  if (!isEmpty && tensor.shape[0] !== ids.length) {
    throw new UsageError(
      "gradient-mismatch",
      `${kind} error: ${ids.length} ids for ${tensor.shape[0]} rows of ${name}`,
    );
  }
  if (isDense) checkRowNumbers(name, ids, target.shape[0] ?? 0);
  if (!isEmpty) checkFloats(name, tensor, isDense ? target : undefined);
  return { target, ids, values: floatsOf(tensor.content, scratch) };
}

function checkFloats(name: string, tensor: TensorMessage, parameter: DenseParameter | undefined): void {
  const dtype = checkTensor(name, tensor);
  if (dtype === "float32" && (parameter === undefined || parameter.dtype === "float32")) return;
  throw new UsageError("gradient-mismatch", `dtype of the gradient of "${name}", and of the parameter`, {
    expected: "float32",
    actual: parameter === undefined ? dtype : `${dtype}, ${parameter.dtype}`,
  });
}

/** Ids that are to be rows of a dense variable. */
function checkRowNumbers(name: string, ids: BigInt64Array, rowCount: number): void {
  const words = idWords(ids);
  for (let i = 0; i < words.length; i += 2) {
    const row = words[i] as number;
    if (words[i + 1] === 0 && row >= 0 && row < rowCount) continue;
    throw new UsageError("gradient-mismatch", `row of the gradient of "${name}"`, {
      expected: `0 to ${rowCount - 1}`,
      actual: ids[i / 2],
    });
  }
}

// The texts are those of elasticdl/python/ps/parameters.py, Parameters.check_grad.
function unknown(name: string): UsageError {
  return new UsageError("unknown-parameter", `Name error: Gradient ${name} is not in Parameters`);
}

function mismatch(kind: string, name: string, given: string, wanted: string): UsageError {
  const what = `${kind} error: the shape of gradient ${name} is ${given}, the shape of parameter ${name} is ${wanted}`;
  return new UsageError("gradient-mismatch", `${what}, which is incompatible`);
}

/** A shape as Python writes it: `(3,)`, `(2, 3)`, `()`. */
function formatShape(shape: readonly (number | string)[]): string {
  return `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
}

function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, at) => size === b[at]);
}
