import { UsageError } from "../errors.js";
import type { RowRandom } from "./random.js";

/** Fills `row` from `start` to `end` with the first values of a row; `random` has been started for it. */
export type RowInitializer = (row: Float32Array, start: number, end: number, random: RowRandom) => void;

/** Deviation of a normal distribution cut at two deviations. Source: Keras, VarianceScaling (scipy.stats.truncnorm). */
const TRUNCATED_DEVIATION = 0.87962566103423978;

/** Makes the initializer of a row of `dim` values; `args` are those in brackets behind the name. */
type Maker = (dim: number, args: readonly number[]) => RowInitializer;

interface Known {
  /** Greatest number of arguments. */
  readonly args: number;
  readonly make: Maker;
}

const constant: Known = { args: 1, make: (_dim, [value = 0]) => fill(value) };
const uniform: Known = { args: 2, make: (_dim, [low = -0.05, high = 0.05]) => drawUniform(low, high) };
const normal: Known = { args: 2, make: (_dim, [mean = 0, deviation = 0.05]) => drawNormal(mean, deviation) };
const truncated: Known = { args: 2, make: (_dim, [mean = 0, deviation = 0.05]) => drawTruncated(mean, deviation) };

/**
 * What Keras calls them, by function name; class names (`RandomUniform`) are the same without the underscores. A row's
 * shape is `[dim]`, for which Keras takes both fans as `dim`. Source: keras/initializers; elasticdl/python/ps/embedding_table.py.
 */
const KNOWN: Record<string, Known> = {
  zero: { args: 0, make: () => fill(0) },
  zeros: { args: 0, make: () => fill(0) },
  one: { args: 0, make: () => fill(1) },
  ones: { args: 0, make: () => fill(1) },
  constant,
  uniform,
  randomuniform: uniform,
  normal,
  randomnormal: normal,
  truncatednormal: truncated,
  glorotuniform: scaledUniform(1),
  glorotnormal: scaledNormal(1),
  heuniform: scaledUniform(2),
  henormal: scaledNormal(2),
  lecununiform: scaledUniform(1),
  lecunnormal: scaledNormal(1),
};

/**
 * The initializer that a name stands for: a Keras name or class name, and where it takes them its arguments, as
 * `constant(0.5)`, `uniform(-0.1, 0.1)` or `normal(0, 0.01)`. `uniform` alone is from -0.05 to 0.05.
 * @throws {@link UsageError} (`unknown-initializer`)
 */
export function parseInitializer(text: string, dim: number): RowInitializer {
  const match = /^\s*([A-Za-z_]+)\s*(?:\(([^()]*)\))?\s*$/.exec(text);
  const name = (match?.[1] ?? "").replaceAll("_", "").toLowerCase();
  const known = Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined;
  const args = (match?.[2] ?? "").split(",").filter((part) => part.trim() !== "");
  const numbers = args.map(Number);
  if (known === undefined || args.length > known.args || !numbers.every(Number.isFinite)) {
    throw new UsageError("unknown-initializer", "no such initializer of rows", { actual: JSON.stringify(text) });
  }
  return known.make(dim, numbers);
}

function fill(value: number): RowInitializer {
  return (row, start, end) => void row.fill(value, start, end);
}

function drawUniform(low: number, high: number): RowInitializer {
  return (row, start, end, random) => {
    for (let i = start; i < end; i++) row[i] = low + (high - low) * random.uniform();
  };
}

function drawNormal(mean: number, deviation: number): RowInitializer {
  return (row, start, end, random) => {
    for (let i = start; i < end; i++) row[i] = mean + deviation * random.normal();
  };
}

function drawTruncated(mean: number, deviation: number): RowInitializer {
  return (row, start, end, random) => {
    for (let i = start; i < end; i++) row[i] = mean + deviation * random.truncatedNormal();
  };
}

function scaledUniform(scale: number): Known {
  const make: Maker = (dim) => {
    const limit = Math.sqrt((3 * scale) / Math.max(1, dim));
    return drawUniform(-limit, limit);
  };
  return { args: 0, make };
}

function scaledNormal(scale: number): Known {
  const make: Maker = (dim) => drawTruncated(0, Math.sqrt(scale / Math.max(1, dim)) / TRUNCATED_DEVIATION);
  return { args: 0, make };
}
