import type { FileStore } from "../../bytes/file-store.js";
import { CorruptionError, LimitError, UnsupportedError } from "../../errors.js";
import { MAX_TFJS_JSON_BYTES, MAX_TFJS_SHARDS } from "../../limits.js";
import { checkShape, elementCount, formatShape, type Shape } from "../../tensor/shape.js";

/** The dtypes of weights. Source: tfjs-core/src/io/types.ts, WeightsManifestEntry. */
export const WEIGHT_DTYPES = ["float32", "int32", "bool", "string", "complex64"] as const;
/** A dtype of weights. */
export type WeightDType = (typeof WEIGHT_DTYPES)[number];

/** In how few bits the numbers of a weight are stored. */
export interface Quantization {
  readonly dtype: "uint8" | "uint16" | "float16";
  /** Of the integers: a number is `stored * scale + min`. */
  readonly scale: number;
  readonly min: number;
}

/** What a manifest says of a weight. */
export interface WeightSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: WeightDType;
  /** `optimizer` for the state of one. */
  readonly group: string | undefined;
  readonly quantization: Quantization | undefined;
}

/** Weights one behind the other in files one behind the other. */
export interface WeightGroup {
  /** Relative to the manifest. */
  readonly paths: readonly string[];
  readonly weights: readonly WeightSpec[];
}

/** A `model.json`, or a manifest of weights alone. */
export interface ModelJson {
  /** The path of the file. */
  readonly path: string;
  readonly byteLength: number;
  /** All of it; only the manifest for one that is nothing else. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly groups: readonly WeightGroup[];
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Tells whether a value of JSON is an object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads a `model.json`.
 * @throws NotFoundError (`not-found`), {@link CorruptionError} (`invalid-json`, `weight-map`), {@link UnsupportedError}
 * (`unsupported-dtype`), {@link LimitError} (`limit`)
 */
export async function readModelJson(files: FileStore, path: string): Promise<ModelJson> {
  const source = await files.open(path);
  try {
    if (source.size > MAX_TFJS_JSON_BYTES) {
      const expected = `at most ${MAX_TFJS_JSON_BYTES} bytes`;
      throw new LimitError("limit", "model.json", { file: path, expected, actual: source.size });
    }
    return parseModelJson(await source.read(0, source.size), path);
  } finally {
    await source.close();
  }
}

/** Parses a `model.json`; see {@link readModelJson}. */
export function parseModelJson(bytes: Uint8Array, path: string): ModelJson {
  let value: unknown;
  try {
    // As TF.js reads it: a byte order mark is passed over, and of equal keys the last one counts.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new CorruptionError("invalid-json", `not JSON: ${(cause as Error).message}`, { file: path, cause });
  }
  return modelJsonOf(value, path, bytes.length);
}

/** A `model.json` that is parsed already; see {@link readModelJson}. `path` is what errors print. */
export function modelJsonOf(value: unknown, path: string, byteLength = 0): ModelJson {
  const fields = Array.isArray(value) ? { weightsManifest: value } : value;
  if (!isObject(fields)) throw wrong(path, "the file is no object");
  return { path, byteLength, fields, groups: parseManifest(fields.weightsManifest, path) };
}

/** Whether a parsed file is a `model.json`: it has a manifest, or is one. */
export function looksLikeManifest(value: unknown): boolean {
  const manifest = isObject(value) ? value.weightsManifest : value;
  const isGroup = (group: unknown) => isObject(group) && Array.isArray(group.paths) && Array.isArray(group.weights);
  if (!Array.isArray(manifest)) return false;
  return manifest.length === 0 ? isObject(value) : manifest.every(isGroup);
}

function parseManifest(manifest: unknown, file: string): WeightGroup[] {
  if (!Array.isArray(manifest)) throw wrong(file, "weightsManifest is no list");
  const groups = manifest.map((group: unknown, i): WeightGroup => {
    const where = `group ${i + 1} of weightsManifest`;
    if (!isObject(group)) throw wrong(file, `${where} is no object`);
    const { paths, weights } = group;
    if (!Array.isArray(paths) || !Array.isArray(weights)) throw wrong(file, `${where} lacks paths or weights`);
    return {
      paths: paths.map((path: unknown) => parsePath(path, file)),
      weights: weights.map((weight: unknown) => parseWeight(weight, file)),
    };
  });
  checkOnce(
    groups.flatMap(({ paths }) => paths),
    "file",
    file,
  );
  checkOnce(
    groups.flatMap(({ weights }) => weights.map(({ name }) => name)),
    "weight",
    file,
  );
  const shardCount = groups.reduce((sum, { paths }) => sum + paths.length, 0);
  if (shardCount <= MAX_TFJS_SHARDS) return groups;
  const expected = `at most ${MAX_TFJS_SHARDS}`;
  throw new LimitError("limit", "files of a model", { file, expected, actual: shardCount });
}

function checkOnce(names: readonly string[], what: string, file: string): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw new CorruptionError("weight-map", `the ${what} "${name}" is named twice`, { file });
    seen.add(name);
  }
}

/** A file of weights lies beside its manifest or below it, whatever the manifest says. */
function parsePath(path: unknown, file: string): string {
  if (typeof path !== "string") throw wrong(file, "a path of weightsManifest is no text");
  const steps = path.split("/");
  // A server takes %2e for a dot, and so does URL.
  const isSafe = /^[^\\:?#]+$/.test(path) && !/%(2e|2f|5c)/i.test(path) && !/\p{Cc}/u.test(path);
  if (isSafe && steps.every((step) => step !== "" && step !== "." && step !== "..")) return path;
  throw new CorruptionError("weight-map", `"${path}" is no name of a file beside the manifest`, { file });
}

function parseWeight(weight: unknown, file: string): WeightSpec {
  if (!isObject(weight) || typeof weight.name !== "string") throw wrong(file, "a weight has no name");
  const { name, shape, dtype, group } = weight;
  if (!Array.isArray(shape) || !shape.every((size) => typeof size === "number")) {
    throw wrong(file, `the shape of "${name}" is no list of numbers`);
  }
  checkShape(shape, file, name);
  if (elementCount(shape) > Number.MAX_SAFE_INTEGER / 8) {
    throw new LimitError("limit", `bytes of "${name}"`, { file, actual: formatShape(shape) });
  }
  const known = WEIGHT_DTYPES.find((one) => one === dtype);
  if (known === undefined) {
    throw new UnsupportedError("unsupported-dtype", `"${name}" is of dtype ${JSON.stringify(dtype)}`, {
      file,
      expected: WEIGHT_DTYPES.join(", "),
    });
  }
  const quantization = parseQuantization(weight.quantization, { name, dtype: known }, file);
  return { name, shape, dtype: known, group: typeof group === "string" ? group : undefined, quantization };
}

/** Source: tfjs-core/src/io/io_utils.ts, decodeWeight. */
function parseQuantization(
  quantization: unknown,
  { name, dtype }: { name: string; dtype: WeightDType },
  file: string,
): Quantization | undefined {
  if (quantization === undefined || quantization === null) return undefined;
  if (!isObject(quantization)) throw wrong(file, `the quantization of "${name}" is no object`);
  const { dtype: stored, scale, min } = quantization;
  if (stored === "float16" && dtype === "float32") return { dtype: stored, scale: 1, min: 0 };
  if ((stored === "uint8" || stored === "uint16") && (dtype === "float32" || dtype === "int32")) {
    if (Number.isFinite(scale) && Number.isFinite(min)) {
      return { dtype: stored, scale: scale as number, min: min as number };
    }
    throw wrong(file, `the quantization of "${name}" lacks scale or min`);
  }
  throw new UnsupportedError("unsupported-dtype", `"${name}" is ${dtype} stored as ${JSON.stringify(stored)}`, {
    file,
    expected: "float32 as float16, uint8 or uint16, or int32 as uint8 or uint16",
  });
}

function wrong(file: string, what: string): CorruptionError {
  return new CorruptionError("invalid-json", `${what}: no model.json of TF.js`, { file });
}
