/**
 * What cairn uses of the handlers of TF.js, as `@tensorflow/tfjs-core` has them in `tf.io`: their types are not needed to
 * use this package.
 */

/** What is known of a weight. Source: tfjs-core/src/io/types.ts, WeightsManifestEntry. */
export interface TfWeightSpec {
  name: string;
  shape: number[];
  dtype: "float32" | "int32" | "bool" | "string" | "complex64";
  group?: "model" | "optimizer";
  quantization?: { scale?: number; min?: number; dtype: "uint16" | "uint8" | "float16" };
}

/** A model as TF.js hands it to a handler and takes it from one. Source: same file, ModelArtifacts. */
export interface TfModelArtifacts {
  modelTopology?: object | ArrayBuffer;
  // biome-ignore lint/suspicious/noExplicitAny: TF.js's own type of it changes with its versions
  trainingConfig?: any;
  weightSpecs?: TfWeightSpec[];
  weightData?: ArrayBuffer | ArrayBuffer[];
  format?: string;
  generatedBy?: string;
  convertedBy?: string | null;
  signature?: object;
  userDefinedMetadata?: { [key: string]: object };
  modelInitializer?: object;
  initializerSignature?: object;
}

/** What TF.js is told of a save. Source: same file, SaveResult. */
export interface TfSaveResult {
  modelArtifactsInfo: {
    dateSaved: Date;
    modelTopologyType: "JSON";
    modelTopologyBytes: number;
    weightSpecsBytes: number;
    weightDataBytes: number;
  };
}
