import type { ByteSource } from "../../bytes/byte-source.js";
import { LimitError, UsageError } from "../../errors.js";
import type { Place } from "../../formats/format.js";
import { checkFit, checkMissing } from "../../formats/tfjs/fit-template.js";
import { matchWeights, readObjectGraph, type WeightMatch } from "../../formats/tfjs/match-weights.js";
import { locateModelJson, TfjsModel } from "../../formats/tfjs/model.js";
import { type ModelJson, modelJsonOf, readModelJson, type WeightSpec } from "../../formats/tfjs/model-json.js";
import { storedData } from "../../formats/tfjs/stored-data.js";
import { MAX_ARRAY_BYTES } from "../../limits.js";
import { parseRename, type RenameRule, renamed } from "../../ops/rename.js";
import { openTensors } from "../../ops/tensors.js";
import { canCast, castTensor, isLossy } from "../../tensor/cast.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { tensorFrom } from "../../tensor/stored-tensor.js";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import type { TfModelArtifacts, TfWeightSpec } from "./artifacts.js";

/** Where the structure of a model comes from: a TF.js model in files, or what TF.js gave to a save handler. */
export type ModelTopology = Place | Pick<TfModelArtifacts, "modelTopology" | "weightSpecs">;

/** Options of {@link cairnHandler}. */
export interface CairnHandlerOptions {
  /** The model whose weights are to be filled; not needed when the tensors are those of a TF.js model. */
  readonly topology?: ModelTopology | undefined;
  /** New names for the tensors, one rule after another: `FROM=TO` as in `cairn convert --rename`. */
  readonly rename?: readonly (string | RenameRule)[] | undefined;
  /** Whether a weight without a tensor is an error, which is the default; otherwise it keeps its initial value. */
  readonly strict?: boolean | undefined;
  /** Called with what became of the tensors, before the model is given to TF.js. */
  readonly onReport?: ((report: WeightReport) => void) | undefined;
  /** Called with the number of bytes just read. */
  readonly onBytes?: ((count: number) => void) | undefined;
}

/** What became of the tensors of a load. */
export interface WeightReport {
  /** The tensor of each weight. */
  readonly matched: readonly { readonly weight: string; readonly key: string }[];
  /** Weights without a tensor. */
  readonly missing: readonly string[];
  /** Keys of tensors that are no weight of the model. */
  readonly extra: readonly string[];
}

/** A handler for `tf.loadLayersModel` and `tf.loadGraphModel`. */
export interface CairnHandler {
  /** Reads the tensors and gives the model to TF.js. */
  load(): Promise<TfModelArtifacts>;
}

/**
 * Lets TF.js load a model from anything that has tensors: a TensorFlow checkpoint, a training checkpoint, safetensors, a
 * TF.js model, local or remote. A tensor is a weight when it has its name, after `rename`; or when it stands where Keras
 * keeps the weight in a checkpoint. Floats of fewer bits are widened.
 *
 * `load` throws UsageError (`not-consumed`) for weights without a tensor, (`tensor-mismatch`) for one of another dtype or
 * shape, (`usage`) without a topology; and what reading damaged files throws.
 */
export function cairnHandler(source: TensorSource | Place, options: CairnHandlerOptions = {}): CairnHandler {
  return {
    load: async () => {
      if ("tensors" in source) return loadFrom(source, options, undefined);
      const { tensors } = await openTensors(source.files, source.path);
      try {
        return await loadFrom(tensors, options, source.path);
      } finally {
        await tensors.close();
      }
    },
  };
}

async function loadFrom(
  source: TensorSource,
  options: CairnHandlerOptions,
  path: string | undefined,
): Promise<TfModelArtifacts> {
  const model = await modelOf(source, options.topology, path);
  const infos = await namedTensors(source, options.rename ?? []);
  const keys = new Map(Array.from(infos, ([name, { key }]) => [name, key]));
  const match = matchWeights(model, { keys, graph: await readObjectGraph(source) });
  if (options.strict !== false) checkMissing(match.missing, path ?? model.path);
  options.onReport?.(reportOf(match));
  const specs = model.groups.flatMap(({ weights }) => weights).filter(({ name }) => match.keys.has(name));
  const weightData: ArrayBuffer[] = [];
  for (const spec of specs) {
    const tensor = await weightTensor(source, spec, { key: match.keys.get(spec.name) as string, file: path });
    const data = await storedData(spec.name, tensor);
    // TF.js takes the weights one behind the other, in any number of buffers that are not empty.
    if (data.size > 0) weightData.push(await readBuffer(data));
    options.onBytes?.(data.size);
  }
  await source.verify();
  const { weightsManifest: _, weightSpecs: __, ...fields } = model.fields;
  return { ...(fields as TfModelArtifacts), weightSpecs: specs.map(specOf), weightData };
}

async function modelOf(
  source: TensorSource,
  topology: ModelTopology | undefined,
  path: string | undefined,
): Promise<ModelJson> {
  if (topology === undefined) {
    if (source instanceof TfjsModel) return source.json;
    throw new UsageError("usage", "tensors alone are no model of TF.js", {
      file: path,
      hint: "Pass a model.json of the same structure as topology.",
    });
  }
  if ("files" in topology) return readModelJson(topology.files, await locateModelJson(topology.files, topology.path));
  const { modelTopology, weightSpecs } = topology;
  if (modelTopology instanceof ArrayBuffer || weightSpecs === undefined) {
    throw new UsageError("usage", "the topology has no weightSpecs, or is no JSON", {
      hint: "Pass what TF.js gives to the handler of model.save.",
    });
  }
  return modelJsonOf({ ...topology, weightsManifest: [{ paths: [], weights: weightSpecs }] }, "topology");
}

/** The tensors that may be weights, by the name that they have after all rules. */
async function namedTensors(
  source: TensorSource,
  rename: readonly (string | RenameRule)[],
): Promise<ReadonlyMap<string, TensorInfo>> {
  const rules = rename.map((rule) => (typeof rule === "string" ? parseRename(rule) : rule));
  const named = new Map<string, TensorInfo>();
  for await (const info of source.tensors()) {
    if (info.role === "structure" || info.role === "constant") continue;
    const name = renamed(info.name ?? info.key, rules);
    const other = named.get(name);
    if (other !== undefined) {
      throw new UsageError("usage", `two tensors are called "${name}"`, { actual: `${other.key} and ${info.key}` });
    }
    named.set(name, info);
  }
  return named;
}

function reportOf({ keys, missing, extra }: WeightMatch): WeightReport {
  return {
    matched: Array.from(keys, ([weight, key]) => ({ weight, key })),
    missing: missing.map(({ name }) => name),
    extra,
  };
}

/** The tensor of a weight, in the weight's dtype. */
async function weightTensor(
  source: TensorSource,
  spec: WeightSpec,
  { key, file }: { key: string; file: string | undefined },
): Promise<LazyTensor> {
  const tensor = await tensorFrom(source, key);
  const { dtype } = tensor;
  const isNarrower = dtype !== spec.dtype && canCast(dtype, spec.dtype) && !isLossy(dtype, spec.dtype);
  const fitting = isNarrower ? castTensor(tensor, spec.dtype) : tensor;
  checkFit(spec, { key, dtype: fitting.dtype, shape: tensor.shape }, file ?? "tensors");
  return fitting;
}

async function readBuffer(data: ByteSource): Promise<ArrayBuffer> {
  if (data.size >= MAX_ARRAY_BYTES) {
    const expected = `less than ${MAX_ARRAY_BYTES} bytes`;
    throw new LimitError("limit", "a weight for TF.js", { file: data.name, expected, actual: data.size });
  }
  const bytes = await data.read(0, data.size);
  const { buffer, byteLength } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) return buffer;
  return bytes.slice().buffer as ArrayBuffer;
}

function specOf({ name, shape, dtype, group }: WeightSpec): TfWeightSpec {
  const spec: TfWeightSpec = { name, shape: [...shape], dtype };
  return group === "optimizer" ? { ...spec, group } : spec;
}
