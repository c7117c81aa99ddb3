/**
 * Checkpoints: of programs, by the structure of their objects (`Checkpoint`, `CheckpointManager`); as files
 * (`openCheckpoint`, `writeCheckpoint`, `mergeCheckpoints`); and how their tensors go to shards (sharding callbacks and
 * policies).
 */
export * from "../formats/checkpoint/public.js";
export type { DirectoryVersion, LatestVersion, PassedOver } from "../formats/versioned-directory.js";
export * from "../sharding/index.js";
export { useKerasLayout } from "./adapters.js";
export { Checkpoint, type CheckpointOptions, type CheckpointSetup, type CheckpointTarget } from "./checkpoint.js";
export { LOCAL_DEVICE, placeOn } from "./devices.js";
export type { LoadStatus } from "./load-status.js";
export {
  CheckpointManager,
  type CheckpointManagerOptions,
  type ManagedSaveOptions,
  type RestoredOrInitialized,
} from "./manager.js";
export { type NumberDType, TrackedNumber } from "./scalars.js";
export { decodeStrings, memorySnapshot, stringSnapshot } from "./snapshot.js";
export type { TfLayer, TfLayersModel, TfLayerVariable, TfOptimizer, TfTensor, TfVariable } from "./tfjs/types.js";
export type {
  SlotOwner,
  TensorSnapshot,
  TensorValue,
  Trackable,
  TrackableValue,
  TrackedTensor,
} from "./trackable.js";
