/** TF.js: its files (`model.json`), and handlers by which it loads and saves models in any format that cairn knows. */

export type { Place } from "../../formats/format.js";
export { tfjsFormat } from "../../formats/tfjs/index.js";
export { TfjsModel } from "../../formats/tfjs/model.js";
export type { ModelJson, Quantization, WeightDType, WeightGroup, WeightSpec } from "../../formats/tfjs/model-json.js";
export { DEFAULT_WEIGHT_FILE_BYTES, planTfjs, type TfjsPlan } from "../../formats/tfjs/plan.js";
export { writeTfjs } from "../../formats/tfjs/write.js";
export { parseRename, type RenameRule } from "../../ops/rename.js";
export type { TfModelArtifacts, TfSaveResult, TfWeightSpec } from "./artifacts.js";
export {
  type CairnHandler,
  type CairnHandlerOptions,
  cairnHandler,
  type ModelTopology,
  type WeightReport,
} from "./load-handler.js";
export { type CairnSaveHandler, type CairnSaveOptions, cairnSaveHandler } from "./save-handler.js";
