/**
 * ElasticDL's training checkpoints and its parameter servers: shard files, version directories, retention, repartition;
 * the server, its client, optimizers and embedding tables. For Node.
 */
export * from "../formats/elasticdl/public.js";
export { CheckpointSaver, type CheckpointSaverOptions, type SavedShard } from "./checkpoint-saver.js";
export { type EmbeddingTableSpec, LiveEmbeddingTable, type TableBlock, type TableContext } from "./embedding-table.js";
export type { Allocate, TensorContent } from "./encode-messages.js";
export { type CallOptions, GrpcChannel } from "./grpc-channel.js";
export { type AnswerEncoder, GrpcServer, type ListenOptions, type UnaryHandler } from "./grpc-server.js";
export { type GrpcFailure, RpcError } from "./grpc-status.js";
export { type Id, toIds } from "./ids.js";
export { ImagePool } from "./image-pool.js";
export { parseInitializer, type RowInitializer } from "./initializers.js";
export {
  type DenseParametersMessage,
  emptyModel,
  floatTensor,
  type GradientsAnswerMessage,
  type GradientsMessage,
  type ModelMessage,
  type SlicesMessage,
  type TableInfoMessage,
  type TensorMessage,
  type VectorsRequestMessage,
} from "./messages.js";
export type { Column, Columns, ColumnValues } from "./model/columns.js";
export type { Evaluated, MetricFunction } from "./model/metric-functions.js";
export {
  type Batch,
  type DataSource,
  defineModel,
  type EmbeddingDefinition,
  type LossArguments,
  loadModelDefinition,
  type ModelDefinition,
  type OptimizerDefinition,
} from "./model/model-definition.js";
export { type Optimizer, type OptimizerSlot, parseOptimizer, type UpdateKernel } from "./optimizers.js";
export { PageNumbers, type ParameterBlock } from "./parameter-block.js";
export { type CheckpointOptions, ParameterServer, type ParameterServerOptions } from "./parameter-server.js";
export { type DenseParameter, Parameters, type ParametersOptions } from "./parameters.js";
export {
  type GradientsToPush,
  PserverClient,
  type PulledParameters,
  type PulledRows,
} from "./pserver-client.js";
export { PSERVER_PATHS, pserverHandlers } from "./pserver-methods.js";
export { type Pserver, PserverService, type SgdOptions } from "./pserver-service.js";
export { RowRandom } from "./random.js";
export { readShare, restoreParameters, type ShareChoice, storedSeed } from "./restore-parameters.js";
export { type Snapshot, Snapshots, type SnapshotTable, type SnapshotVariable } from "./snapshot.js";
export type { SnapshotPages } from "./snapshot-pages.js";
export { NO_GUARD, type WriteGuard } from "./write-guard.js";
