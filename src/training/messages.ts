/**
 * What workers and parameter servers say to each other, as values. Source: elasticdl/proto/elasticdl.proto; the schema is
 * `proto/elasticdl/elasticdl.proto`.
 */

/** A tensor: `tensorflow.TensorProto` with its data in `tensor_content`, the only form that ElasticDL uses. */
export interface TensorMessage {
  /** TensorFlow's number of the dtype. */
  dtype: number;
  shape: number[];
  /** Row-major, little-endian. */
  content: Uint8Array;
}

/** Rows of an embedding table, or gradients of them: `proto.IndexedSlicesProto`. */
export interface SlicesMessage {
  tensor: TensorMessage;
  ids: BigInt64Array;
}

/** What an embedding table is: `proto.EmbeddingTableInfo`. */
export interface TableInfoMessage {
  name: string;
  dim: number;
  initializer: string;
  /** TensorFlow's number of the dtype; 0 when it is not said. */
  dtype: number;
}

/** A model, a share of one, or gradients: `proto.Model`. */
export interface ModelMessage {
  modelVersion: number;
  tableInfos: TableInfoMessage[];
  denseParameters: Map<string, TensorMessage>;
  embeddingTables: Map<string, SlicesMessage>;
}

/** `proto.PullDenseParametersResponse` */
export interface DenseParametersMessage {
  initialized: boolean;
  modelVersion: number;
  denseParameters: Map<string, TensorMessage>;
}

/** `proto.PullEmbeddingVectorsRequest` */
export interface VectorsRequestMessage {
  name: string;
  ids: BigInt64Array;
}

/** `proto.PushGradientsRequest` */
export interface GradientsMessage {
  gradients: ModelMessage;
  /** 0 leaves it to the server. */
  learningRate: number;
}

/** `proto.PushGradientsResponse` */
export interface GradientsAnswerMessage {
  accepted: boolean;
  modelVersion: number;
}

/** An empty tensor. */
export function emptyTensor(): TensorMessage {
  return { dtype: 0, shape: [], content: new Uint8Array(0) };
}

/** An empty model. */
export function emptyModel(): ModelMessage {
  return { modelVersion: 0, tableInfos: [], denseParameters: new Map(), embeddingTables: new Map() };
}

/** A float32 tensor of these values; they are not copied. `shape` is `[values.length]` unless said. */
export function floatTensor(values: Float32Array, shape: readonly number[] = [values.length]): TensorMessage {
  // tensorflow/core/framework/types.proto, DT_FLOAT = 1.
  return { dtype: 1, shape: [...shape], content: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}
