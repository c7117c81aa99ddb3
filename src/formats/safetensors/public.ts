/** safetensors, in one file or several, as the reference library and the Hugging Face hub have them. */

export type { SafetensorsMetadata } from "./header.js";
export { safetensorsFormat } from "./index.js";
export { SafetensorsModel } from "./model.js";
export { DEFAULT_MAX_SHARD_SIZE, planSafetensors } from "./plan.js";
export { openSafetensors, type SavedTensor, type SaveSafetensorsOptions, saveSafetensors } from "./save.js";
export { writeSafetensors } from "./write.js";
