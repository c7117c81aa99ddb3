import { UsageError } from "../../errors.js";
import { emptyModel, type ModelMessage, type SlicesMessage, type TensorMessage } from "../messages.js";

/** Gradients of one worker's batch. */
export interface Contribution {
  readonly gradients: ModelMessage;
  /** Records of the batch; 0 from a worker that has none. */
  readonly records: number;
}

/**
 * The gradients of the joined batch: the mean over all records. Sums are made in float64 in the order of the list, so that
 * the same contributions give the same bits.
 * @throws {@link UsageError} (`gradient-mismatch`) when a variable has two shapes
 */
export function meanGradients(contributions: readonly Contribution[]): Contribution {
  const given = contributions.filter(({ records }) => records > 0);
  const records = given.reduce((sum, one) => sum + one.records, 0);
  const mean = { ...emptyModel(), modelVersion: contributions[0]?.gradients.modelVersion ?? 0 };
  const [only] = given;
  if (only === undefined) return { gradients: mean, records: 0 };
  if (given.length === 1) return only;
  const names = new Set(given.flatMap(({ gradients }) => [...gradients.denseParameters.keys()]));
  for (const name of names) mean.denseParameters.set(name, meanDense(name, given, records));
  const tables = new Set(given.flatMap(({ gradients }) => [...gradients.embeddingTables.keys()]));
  for (const name of tables) mean.embeddingTables.set(name, meanRows(name, given, records));
  return { gradients: mean, records };
}

function meanDense(name: string, given: readonly Contribution[], records: number): TensorMessage {
  let sums: Float64Array | undefined;
  let first: TensorMessage | undefined;
  for (const { gradients, records: weight } of given) {
    const tensor = gradients.denseParameters.get(name);
    if (tensor === undefined) continue;
    first ??= tensor;
    if (tensor.shape.join() !== first.shape.join()) throw mismatch(name, first.shape, tensor.shape);
    const values = floatsOf(tensor);
    sums ??= new Float64Array(values.length);
    for (let i = 0; i < values.length; i++) sums[i] = (sums[i] as number) + weight * (values[i] as number);
  }
  return floatTensor(
    (sums ?? new Float64Array(0)).map((sum) => sum / records),
    first?.shape ?? [],
  );
}

function meanRows(name: string, given: readonly Contribution[], records: number): SlicesMessage {
  const sums = new Map<bigint, Float64Array>();
  let dim: number | undefined;
  for (const { gradients, records: weight } of given) {
    const slices = gradients.embeddingTables.get(name);
    if (slices === undefined || slices.ids.length === 0) continue;
    const values = floatsOf(slices.tensor);
    const width = values.length / slices.ids.length;
    dim ??= width;
    if (width !== dim) throw mismatch(name, [dim], [width]);
    slices.ids.forEach((id, row) => {
      const sum = sums.get(id) ?? new Float64Array(width);
      sums.set(id, sum);
      for (let k = 0; k < width; k++) sum[k] = (sum[k] as number) + weight * (values[row * width + k] as number);
    });
  }
  const width = dim ?? 0;
  const all = new Float64Array(sums.size * width);
  [...sums.values()].forEach((sum, row) => void all.set(sum, row * width));
  const tensor = floatTensor(
    all.map((sum) => sum / records),
    [sums.size, width],
  );
  return { ids: BigInt64Array.from(sums.keys()), tensor };
}

function floatsOf({ content }: TensorMessage): Float32Array {
  return new Float32Array(content.slice().buffer);
}

function floatTensor(values: Float64Array, shape: readonly number[]): TensorMessage {
  const floats = Float32Array.from(values);
  return { dtype: 1, shape: [...shape], content: new Uint8Array(floats.buffer) };
}

function mismatch(name: string, expected: readonly number[], actual: readonly number[]): UsageError {
  return new UsageError("gradient-mismatch", `gradients of "${name}" from two workers`, {
    expected: `[${expected.join(", ")}]`,
    actual: `[${actual.join(", ")}]`,
  });
}
