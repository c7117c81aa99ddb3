/** SavedModels: open, look into, save, split and merge. */
export type { GraphSummary } from "./graph-summary.js";
export { type MergeModelOptions, type MergePlan, mergeModel } from "./merge-model.js";
export { findModel, ModelFile, type ModelPaths } from "./model-file.js";
export { MetaGraph, OpenedModel, openSavedModel } from "./opened-model.js";
export { type SavableModel, type SaveOptions, saveSavedModel } from "./save.js";
export type { Signature, SignatureTensor } from "./signatures.js";
export { type PlannedChunk, type SplitModelOptions, type SplitPlan, splitModel } from "./split-model.js";
export { type ProtoTensor, readTensorProto } from "./tensor-proto.js";
