import { MemoryStore } from "../../bytes/memory-store.js";
import { UnsupportedError } from "../../errors.js";
import type { Place } from "../../formats/format.js";
import { type ConversionOptions, planConversion, type SkippedTensor } from "../../ops/convert.js";
import { parseRename, type RenameRule } from "../../ops/rename.js";
import type { TfModelArtifacts, TfSaveResult } from "./artifacts.js";

/** Options of {@link cairnSaveHandler}. */
export interface CairnSaveOptions
  extends Pick<ConversionOptions, "to" | "filter" | "dropSlots" | "dtypes" | "callback" | "maxShardSize" | "template"> {
  /** New names for the weights, one rule after another: `FROM=TO` as in `cairn convert --rename`. */
  readonly rename?: readonly (string | RenameRule)[] | undefined;
  /** Replace what is there. */
  readonly overwrite?: boolean | undefined;
  /** Leave away what the format cannot hold, and call this with it, instead of refusing. */
  readonly onSkipped?: ((skipped: readonly SkippedTensor[]) => void) | undefined;
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A handler for `model.save`. */
export interface CairnSaveHandler {
  /** Writes what TF.js gives. */
  save(artifacts: TfModelArtifacts): Promise<TfSaveResult>;
}

/** Where the model is while it is in memory: a path that no one writes to. */
const FOLDER = "(TF.js model in memory)";
const MODEL = `${FOLDER}/model.json`;

/**
 * Lets TF.js save a model in any format that cairn writes: that of the path's name, or of `to`. A TF.js model is written
 * with its topology; in other formats the weights stand under their names.
 *
 * `save` throws what `planConversion` and its `write` throw.
 */
export function cairnSaveHandler(target: Place, options: CairnSaveOptions = {}): CairnSaveHandler {
  return { save: (artifacts) => save(artifacts, target, options) };
}

async function save(artifacts: TfModelArtifacts, target: Place, options: CairnSaveOptions): Promise<TfSaveResult> {
  const { overwrite, onBytes, signal, rename = [], onSkipped, ...conversionOptions } = options;
  const { files, topologyBytes, specBytes, dataBytes } = filesOf(artifacts);
  const source: Place = { files, path: MODEL };
  const conversion = await planConversion(source, target, {
    ...conversionOptions,
    rename: rename.map((rule) => (typeof rule === "string" ? parseRename(rule) : rule)),
    skipUnsupported: onSkipped !== undefined,
    signal,
  });
  try {
    // A model of TF.js is its own template, unless names are others now.
    const isCopy = conversion.to === conversion.from && options.template === undefined;
    onSkipped?.(conversion.skipped);
    await conversion.write({ overwrite, onBytes, signal, ...(isCopy ? { template: source } : {}) });
  } finally {
    await conversion.close();
  }
  return {
    modelArtifactsInfo: {
      dateSaved: new Date(),
      modelTopologyType: "JSON",
      modelTopologyBytes: topologyBytes,
      weightSpecsBytes: specBytes,
      weightDataBytes: dataBytes,
    },
  };
}

/** A model of TF.js as files in memory; the weights are not copied. */
function filesOf({ modelTopology, weightSpecs = [], weightData = [], ...fields }: TfModelArtifacts) {
  if (modelTopology instanceof ArrayBuffer) {
    throw new UnsupportedError("unsupported-operation", "a topology that is a binary GraphDef", {
      hint: "Save it as TF.js's own JSON.",
    });
  }
  const buffers = weightData instanceof ArrayBuffer ? [weightData] : weightData;
  const paths = buffers.map((_, i) => `weights-${i}.bin`);
  const weightsManifest = [{ paths, weights: weightSpecs }];
  const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const files = new MemoryStore([
    [MODEL, encode({ modelTopology, ...fields, weightsManifest })],
    ...buffers.map((buffer, i) => [`${FOLDER}/${paths[i]}`, new Uint8Array(buffer)] as const),
  ]);
  return {
    files,
    topologyBytes: modelTopology === undefined ? 0 : encode(modelTopology).length,
    specBytes: encode(weightSpecs).length,
    dataBytes: buffers.reduce((sum, { byteLength }) => sum + byteLength, 0),
  };
}
