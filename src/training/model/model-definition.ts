import { pathToFileURL } from "node:url";
import { CairnError, NotFoundError, UsageError } from "../../errors.js";
import { parseInitializer } from "../initializers.js";
import { parseOptimizer } from "../optimizers.js";
import type { Columns } from "./columns.js";
import { METRICS, type MetricFunction } from "./metric-functions.js";
import type { Tf, TfModel, TfTensor } from "./tfjs.js";

/** What data are for. */
export type Mode = "training" | "evaluation" | "prediction";

/** Records as a model takes them. */
export interface Batch {
  /** By the name of the model's input; an embedding's input has ids, any number of each record. */
  readonly inputs: Columns;
  /** What the model should give; none for prediction. */
  readonly labels?: Columns[string] | undefined;
}

/** Where records come from. Workers read different ranges, at the same time, and some of them more than once. */
export interface DataSource {
  /** How many records there are. */
  readonly size: number | (() => number | Promise<number>);
  /** The records from `start` to `end`, which is exclusive: a batch, or with a `feed` whatever that takes. */
  readonly read: (start: number, end: number) => unknown;
}

/** An embedding table: its rows live on the parameter servers, and come to the model as one of its inputs. */
export interface EmbeddingDefinition {
  /** The table's name in checkpoints. */
  readonly table: string;
  /** Numbers in a row. */
  readonly dim: number;
  /** As Keras calls it; `uniform` unless said. */
  readonly initializer?: string | undefined;
  /** The input of the model that gets the rows, [records, …ids of a record, dim]; its column has the ids. */
  readonly input: string;
}

/** What a loss function is given. */
export interface LossArguments {
  readonly tf: Tf;
  /** The labels, [records, …]. */
  readonly labels: TfTensor;
  /** What the model gives; with several outputs the first. */
  readonly output: TfTensor;
  /** By the name of the output. */
  readonly outputs: Readonly<Record<string, TfTensor>>;
}

/** A model and how it is trained: the default export of a module. */
export interface ModelDefinition {
  readonly name?: string | undefined;
  /** Makes the model of TF.js layers. Weights begin with what the initializers give; `seed` makes their numbers the same in every process. */
  readonly model: (tf: Tf, options: { readonly seed: number }) => TfModel | Promise<TfModel>;
  /** A scalar: the mean over the records. */
  readonly loss: (given: LossArguments) => TfTensor;
  /** What the parameter servers apply: SGD, Adam or Adagrad, with settings as Keras calls them. */
  readonly optimizer?: OptimizerDefinition | undefined;
  /** The learning rate of each version; the optimizer's when absent. */
  readonly learningRate?: ((modelVersion: number) => number) | undefined;
  readonly embeddings?: readonly EmbeddingDefinition[] | undefined;
  readonly data: Readonly<Partial<Record<Mode, DataSource>>>;
  /** Makes a batch of what a source reads. */
  readonly feed?: ((records: unknown, mode: Mode) => Batch | Promise<Batch>) | undefined;
  /** Names of ready metrics, or functions by name. */
  readonly metrics?: readonly string[] | Readonly<Record<string, string | MetricFunction>> | undefined;
}

/** An optimizer by type and settings. */
export interface OptimizerDefinition {
  readonly type: string;
  /** `learning_rate=0.1;` or `{ learning_rate: 0.1 }` */
  readonly args?: string | Readonly<Record<string, number | boolean>> | undefined;
}

/** Helps an editor to know what a definition holds. */
export function defineModel(definition: ModelDefinition): ModelDefinition {
  return definition;
}

/**
 * Imports a model definition from a JavaScript module.
 * @throws {@link NotFoundError} (`not-found`), {@link UsageError} (`usage`) when it is not one, or fails
 */
export async function loadModelDefinition(path: string): Promise<ModelDefinition> {
  const { stat } = await import("node:fs/promises");
  const info = await stat(path).catch(() => undefined);
  if (!info?.isFile()) throw new NotFoundError("not-found", "no module with a model definition", { file: path });
  let module: { default?: unknown };
  try {
    module = (await import(pathToFileURL(path).href)) as { default?: unknown };
  } catch (cause) {
    const details = { file: path, cause, hint: hintFor(path) };
    throw new UsageError("usage", `the module fails: ${(cause as Error).message}`, details);
  }
  try {
    return checkDefinition(module.default ?? module);
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
    throw new UsageError("usage", `model definition: ${error.message}`, { file: path, cause: error, hint: error.hint });
  }
}

function hintFor(path: string): string | undefined {
  return /\.[cm]?tsx?$/.test(path) ? "Compile TypeScript first, and name the JavaScript file." : undefined;
}

/** Checks that a value is a model definition. @throws {@link UsageError} (`usage`) saying which part is wrong */
export function checkDefinition(value: unknown): ModelDefinition {
  if (typeof value !== "object" || value === null) throw wrong("the default export", "an object", value);
  const definition = value as ModelDefinition;
  for (const part of ["model", "loss"] as const) {
    if (typeof definition[part] !== "function") throw wrong(`"${part}"`, "a function", definition[part]);
  }
  for (const part of ["feed", "learningRate"] as const) {
    const given = definition[part];
    if (given !== undefined && typeof given !== "function") throw wrong(`"${part}"`, "a function", given);
  }
  checkData(definition.data);
  (definition.embeddings ?? []).forEach(checkEmbedding);
  checkUnique(definition.embeddings ?? []);
  optimizerOf(definition);
  metricsOf(definition);
  return definition;
}

function checkData(data: ModelDefinition["data"] | undefined): void {
  if (typeof data !== "object" || data === null) throw wrong(`"data"`, "an object with training, evaluation", data);
  for (const [mode, source] of Object.entries(data)) {
    const isSize = ["number", "function"].includes(typeof source?.size);
    if (isSize && typeof source?.read === "function") continue;
    throw wrong(`"data.${mode}"`, "an object with size and read(start, end)", source);
  }
}

function checkEmbedding({ table, dim, initializer = "uniform", input }: EmbeddingDefinition): void {
  if (typeof table !== "string" || table === "") throw wrong(`"table" of an embedding`, "a name", table);
  if (typeof input !== "string" || input === "") throw wrong(`"input" of embedding "${table}"`, "a name", input);
  if (!Number.isInteger(dim) || dim < 1) throw wrong(`"dim" of embedding "${table}"`, "a whole number from 1", dim);
  parseInitializer(initializer, dim);
}

function checkUnique(embeddings: readonly EmbeddingDefinition[]): void {
  const inputs = new Set<string>();
  const tables = new Map<string, EmbeddingDefinition>();
  for (const embedding of embeddings) {
    const { table, input, dim } = embedding;
    if (inputs.has(input)) throw new UsageError("usage", `two embeddings for input "${input}"`);
    inputs.add(input);
    const known = tables.get(table);
    tables.set(table, embedding);
    if (known === undefined) continue;
    if (known.dim !== dim || known.initializer !== embedding.initializer) {
      throw new UsageError("usage", `embedding table "${table}" is declared in two ways`);
    }
  }
}

/** The optimizer as parameter servers are told it: type and settings. @throws {@link UsageError} (`usage`) */
export function optimizerOf({ optimizer = { type: "SGD" } }: Pick<ModelDefinition, "optimizer">): {
  readonly type: string;
  readonly args: string;
} {
  const { type, args = "" } = optimizer;
  const text =
    typeof args === "string"
      ? args
      : Object.entries(args)
          .map(([key, value]) => `${key}=${value};`)
          .join("");
  parseOptimizer(String(type), text);
  return { type, args: text };
}

/** The metrics of a definition, by name. @throws {@link UsageError} (`usage`) for one that is not known */
export function metricsOf({ metrics = [] }: Pick<ModelDefinition, "metrics">): ReadonlyMap<string, MetricFunction> {
  const entries = Array.isArray(metrics)
    ? metrics.map((name: string) => [name, name] as const)
    : Object.entries(metrics as Readonly<Record<string, string | MetricFunction>>);
  return new Map(
    entries.map(([name, given]) => {
      const metric = typeof given === "function" ? given : METRICS.get(given)?.compute;
      if (metric !== undefined) return [name, metric];
      throw wrong(`metric "${name}"`, `a function or one of ${[...METRICS.keys()].join(", ")}`, given);
    }),
  );
}

/** How many records a source has. @throws {@link UsageError} (`usage`) when the definition has no such source, or no count */
export async function dataSize(definition: ModelDefinition, mode: Mode): Promise<number> {
  const size = sourceOf(definition, mode).size;
  const count = typeof size === "function" ? await size() : size;
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw wrong(`"data.${mode}.size"`, "a whole number from 1", count);
}

/** The records of a range as a batch. */
export async function readBatch(
  definition: ModelDefinition,
  mode: Mode,
  { start, end }: { readonly start: number; readonly end: number },
): Promise<Batch> {
  const records = await sourceOf(definition, mode).read(start, end);
  const batch = (definition.feed === undefined ? records : await definition.feed(records, mode)) as Batch | undefined;
  if (typeof batch?.inputs === "object") return batch;
  throw wrong(`what "data.${mode}.read" gives`, "an object with inputs and labels", batch);
}

function sourceOf({ data }: ModelDefinition, mode: Mode): DataSource {
  const source = data[mode];
  if (source !== undefined) return source;
  throw new UsageError("usage", `the model definition has no "data.${mode}"`);
}

function wrong(what: string, expected: string, actual: unknown): UsageError {
  const shown = typeof actual === "object" && actual !== null ? "another object" : String(actual);
  return new UsageError("usage", what, { expected, actual: shown });
}
