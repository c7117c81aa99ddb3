/**
 * cairn keeps the state of machine-learning models at any size. This is what most users need: look into a path, check
 * it, list its tensors, read, compare and convert them, whatever its format; and what a format of one's own needs. The
 * rest is in subpaths: `cairn/splitter`, `cairn/saved-model`, `cairn/riegeli`, `cairn/proto`, `cairn/tensorflow`,
 * `cairn/bytes`, and `cairn/node` for files.
 */
export {
  CairnError,
  CorruptionError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetails,
  isCairnError,
  LimitError,
  NotFoundError,
  PlanError,
  StorageError,
  TruncatedError,
  UnsupportedError,
  UsageError,
} from "./errors.js";
export type {
  ByteRange,
  Detection,
  Fact,
  Finding,
  Format,
  FormatId,
  Outline,
  OutlineNode,
  TemplateTensors,
  VerifyEvent,
  VerifyOptions,
  WriteOptions,
} from "./formats/format.js";
export { type Detected, detectFormat, FORMATS } from "./formats/registry.js";
export type { VersionedDirectory } from "./formats/versioned-directory.js";
export { CHECKED_TENSOR_BYTES, type CheckPartOptions, checkPart } from "./ops/check-part.js";
export type { ChoiceOptions, SkippedTensor } from "./ops/choose-tensors.js";
export {
  type Conversion,
  type ConversionOptions,
  type Place,
  planConversion,
} from "./ops/convert.js";
export { type ChangedTensor, type DiffOptions, type DiffReport, diff } from "./ops/diff.js";
export { type GottenTensor, getTensor, npySource } from "./ops/get.js";
export { type Inspection, inspect, type OutlineJson, outlineToJson } from "./ops/inspect.js";
export { parseRename, type RenameRule } from "./ops/rename.js";
export { planReshard, type Resharding, type ReshardOptions } from "./ops/reshard.js";
export { type ListedTensor, type ListOptions, listTensors, type OpenTensors, openTensors } from "./ops/tensors.js";
export { type GoodPart, type VerifyReport, type VerifyReportOptions, verify } from "./ops/verify.js";
export type { PlannedShard, PlannedSlice, ShardPlan } from "./sharding/shard-plan.js";
export type { CompareOptions } from "./tensor/compare.js";
export { type DType, elementBytes } from "./tensor/dtype.js";
export { compareKeys } from "./tensor/key-order.js";
export type { LazyEmbedding, LazyTensor } from "./tensor/lazy-tensor.js";
export { parseRegion, type Region, regionShape, regionSource, wholeRegion } from "./tensor/region.js";
export type { Shape } from "./tensor/shape.js";
export type {
  EmbeddingFacts,
  StoredPlace,
  StoredTensor,
  TensorFact,
  TensorInfo,
  TensorSource,
} from "./tensor/tensor-source.js";
export { decodeElements, type ElementValue } from "./tensor/values.js";
