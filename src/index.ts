/**
 * cairn keeps the state of machine-learning models at any size. This is what most users need: look into a path, check
 * it, list its tensors and read them, whatever its format. The rest is in subpaths: `cairn/splitter`,
 * `cairn/saved-model`, `cairn/riegeli`, `cairn/proto`, `cairn/tensorflow`, `cairn/bytes`, and `cairn/node` for files.
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
  VerifyEvent,
  VerifyOptions,
} from "./formats/format.js";
export { type Detected, detectFormat } from "./formats/registry.js";
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
export { type ListedTensor, type ListOptions, listTensors, type OpenTensors, openTensors } from "./ops/tensors.js";
export { type GoodPart, type VerifyReport, type VerifyReportOptions, verify } from "./ops/verify.js";
export type { CompareOptions } from "./tensor/compare.js";
export { type DType, elementBytes } from "./tensor/dtype.js";
export { parseRegion, type Region, regionShape } from "./tensor/region.js";
export type { Shape } from "./tensor/shape.js";
export type { TensorInfo, TensorSource } from "./tensor/tensor-source.js";
export { decodeElements, type ElementValue } from "./tensor/values.js";
