import { MessageReader } from "./message-reader.js";
import {
  type DenseParametersMessage,
  emptyModel,
  emptyTensor,
  type GradientsAnswerMessage,
  type GradientsMessage,
  type ModelMessage,
  type SlicesMessage,
  type TableInfoMessage,
  type TensorMessage,
  type VectorsRequestMessage,
} from "./messages.js";

// Every function below follows protobuf's rules for messages that come in parts: single fields are replaced, repeated ones
// get longer, messages are merged, and an entry of a map replaces the one of its key.
// Data are views of the bytes that are decoded: who keeps them copies them.

/** Decodes a `proto.Model`. @throws CorruptionError (`invalid-wire`), LimitError (`limit`) */
export function decodeModel(bytes: Uint8Array): ModelMessage {
  const reader = new MessageReader(bytes);
  const model = emptyModel();
  reader.fields((field, wireType) => readModelField(reader, field, wireType, model));
  return model;
}

/** Decodes a `proto.PullDenseParametersRequest`: the version that the worker has. @throws CorruptionError (`invalid-wire`) */
export function decodeDenseRequest(bytes: Uint8Array): number {
  const reader = new MessageReader(bytes);
  let modelVersion = 0;
  reader.fields(
    (field, wireType) =>
      field === 1 &&
      reader.int32(wireType, (value) => {
        modelVersion = value;
      }),
  );
  return modelVersion;
}

/** Decodes a `proto.PullDenseParametersResponse`. @throws CorruptionError (`invalid-wire`) */
export function decodeDenseParameters(bytes: Uint8Array): DenseParametersMessage {
  const reader = new MessageReader(bytes);
  const message: DenseParametersMessage = { initialized: false, modelVersion: 0, denseParameters: new Map() };
  reader.fields((field, wireType) => {
    if (field === 1)
      return reader.int32(wireType, (value) => {
        message.initialized = value !== 0;
      });
    if (field === 2)
      return reader.int32(wireType, (value) => {
        message.modelVersion = value;
      });
    return field === 3 && readDenseEntry(reader, wireType, message.denseParameters);
  });
  return message;
}

/** Decodes a `proto.PullEmbeddingVectorsRequest`. @throws CorruptionError (`invalid-wire`) */
export function decodeVectorsRequest(bytes: Uint8Array): VectorsRequestMessage {
  const reader = new MessageReader(bytes);
  const message: VectorsRequestMessage = { name: "", ids: new BigInt64Array(0) };
  reader.fields((field, wireType) => {
    if (field === 1)
      return reader.text(wireType, (text) => {
        message.name = text;
      });
    return (
      field === 2 &&
      reader.ids(wireType, message.ids, (ids) => {
        message.ids = ids;
      })
    );
  });
  return message;
}

/** Decodes a `tensorflow.TensorProto`. @throws CorruptionError (`invalid-wire`), LimitError (`limit`) */
export function decodeTensor(bytes: Uint8Array): TensorMessage {
  const reader = new MessageReader(bytes);
  const tensor = emptyTensor();
  reader.fields((field, wireType) => readTensorField(reader, field, wireType, tensor));
  return tensor;
}

/** Decodes a `proto.PushGradientsRequest`. @throws CorruptionError (`invalid-wire`), LimitError (`limit`) */
export function decodeGradients(bytes: Uint8Array): GradientsMessage {
  const reader = new MessageReader(bytes);
  const message: GradientsMessage = { gradients: emptyModel(), learningRate: 0 };
  reader.fields((field, wireType) => {
    if (field === 2)
      return reader.float(wireType, (value) => {
        message.learningRate = value;
      });
    return field === 1 && reader.message(wireType, (f, w) => readModelField(reader, f, w, message.gradients));
  });
  return message;
}

/** Decodes a `proto.PushGradientsResponse`. @throws CorruptionError (`invalid-wire`) */
export function decodeGradientsAnswer(bytes: Uint8Array): GradientsAnswerMessage {
  const reader = new MessageReader(bytes);
  const message: GradientsAnswerMessage = { accepted: false, modelVersion: 0 };
  reader.fields((field, wireType) => {
    if (field === 1)
      return reader.int32(wireType, (value) => {
        message.accepted = value !== 0;
      });
    return (
      field === 2 &&
      reader.int32(wireType, (value) => {
        message.modelVersion = value;
      })
    );
  });
  return message;
}

function readModelField(reader: MessageReader, field: number, wireType: number, model: ModelMessage): boolean {
  if (field === 1)
    return reader.int32(wireType, (value) => {
      model.modelVersion = value;
    });
  if (field === 2) return readTableInfo(reader, wireType, model.tableInfos);
  if (field === 3) return readDenseEntry(reader, wireType, model.denseParameters);
  return field === 4 && readTableEntry(reader, wireType, model.embeddingTables);
}

function readTableInfo(reader: MessageReader, wireType: number, infos: TableInfoMessage[]): boolean {
  const info: TableInfoMessage = { name: "", dim: 0, initializer: "", dtype: 0 };
  const isRead = reader.message(wireType, (field, type) => {
    if (field === 1)
      return reader.text(type, (text) => {
        info.name = text;
      });
    if (field === 2)
      return reader.size(type, (value) => {
        info.dim = value;
      });
    if (field === 3)
      return reader.text(type, (text) => {
        info.initializer = text;
      });
    return (
      field === 4 &&
      reader.int32(type, (value) => {
        info.dtype = value;
      })
    );
  });
  if (isRead) infos.push(info);
  return isRead;
}

function readDenseEntry(reader: MessageReader, wireType: number, dense: Map<string, TensorMessage>): boolean {
  let key = "";
  const tensor = emptyTensor();
  const isRead = reader.message(wireType, (field, type) => {
    if (field === 1)
      return reader.text(type, (text) => {
        key = text;
      });
    return field === 2 && reader.message(type, (f, w) => readTensorField(reader, f, w, tensor));
  });
  if (isRead) dense.set(key, tensor);
  return isRead;
}

function readTableEntry(reader: MessageReader, wireType: number, tables: Map<string, SlicesMessage>): boolean {
  let key = "";
  const slices: SlicesMessage = { tensor: emptyTensor(), ids: new BigInt64Array(0) };
  const isRead = reader.message(wireType, (field, type) => {
    if (field === 1)
      return reader.text(type, (text) => {
        key = text;
      });
    return field === 2 && reader.message(type, (f, w) => readSlicesField(reader, f, w, slices));
  });
  if (isRead) tables.set(key, slices);
  return isRead;
}

function readSlicesField(reader: MessageReader, field: number, wireType: number, slices: SlicesMessage): boolean {
  if (field === 1) return reader.message(wireType, (f, w) => readTensorField(reader, f, w, slices.tensor));
  return (
    field === 2 &&
    reader.ids(wireType, slices.ids, (ids) => {
      slices.ids = ids;
    })
  );
}

// tensorflow/core/framework/tensor.proto: dtype 1, tensor_shape 2, tensor_content 4; tensor_shape.proto: dim 2, size 1.
function readTensorField(reader: MessageReader, field: number, wireType: number, tensor: TensorMessage): boolean {
  if (field === 1)
    return reader.int32(wireType, (value) => {
      tensor.dtype = value;
    });
  if (field === 4)
    return reader.data(wireType, (bytes) => {
      tensor.content = bytes;
    });
  return field === 2 && reader.message(wireType, (f, w) => f === 2 && readDimension(reader, w, tensor.shape));
}

function readDimension(reader: MessageReader, wireType: number, shape: number[]): boolean {
  let size = 0;
  const isRead = reader.message(
    wireType,
    (f, w) =>
      f === 1 &&
      reader.size(w, (value) => {
        size = value;
      }),
  );
  if (isRead) shape.push(size);
  reader.checkRank(shape.length);
  return isRead;
}
