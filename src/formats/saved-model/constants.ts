import { fromBinary } from "@bufbuild/protobuf";
import type { ByteSource } from "../../bytes/byte-source.js";
import { CorruptionError, NotFoundError, UnsupportedError } from "../../errors.js";
import type { Field } from "../../proto/field-list.js";
import { NodeDefSchema } from "../../proto/gen/tensorflow/core/framework/node_def_pb.js";
import type { MessageView } from "../../proto/message-view.js";
import { dtypeOf, elementBytes } from "../../tensor/dtype.js";
import { compareKeys } from "../../tensor/key-order.js";
import { type Region, regionSource } from "../../tensor/region.js";
import { checkShape, elementCount } from "../../tensor/shape.js";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import { type NodeList, nodeListsOf } from "./graphs.js";
import type { ModelFile } from "./model-file.js";
import { constantTensor, type NodeFacts, walkNodes } from "./nodes.js";
import { readTensorProto } from "./tensor-proto.js";

/** A constant: a node whose op is Const, and where it is. */
interface Constant {
  readonly info: TensorInfo;
  readonly list: NodeList;
  readonly index: number;
}

/** The constants of a model as tensors. Their data is read only when it is asked for. */
export class ModelConstants implements TensorSource {
  private readonly model: ModelFile;
  private found: Promise<Map<string, Constant>> | undefined;

  /** The constants of an open model, which is closed with them. */
  constructor(model: ModelFile) {
    this.model = model;
  }

  /** See {@link TensorSource.tensors}. */
  async *tensors(): AsyncGenerator<TensorInfo> {
    const constants = await this.constants();
    const keys = [...constants.keys()].sort(compareKeys);
    for (const key of keys) yield (constants.get(key) as Constant).info;
  }

  /** See {@link TensorSource.info}. */
  async info(key: string): Promise<TensorInfo> {
    return (await this.constant(key)).info;
  }

  /** See {@link TensorSource.data}. */
  async data(key: string, region?: Region): Promise<ByteSource> {
    const { info, list, index } = await this.constant(key);
    const nodes = await list.view.open();
    const node = list.view.message(nodes.at(list.field, index) as Field) as MessageView;
    const tensor = await tensorOf(node, key, this.model.view.name);
    const data = await tensor.data();
    if (region === undefined) return data;
    const width = elementBytes(info.dtype);
    if (width > 0) return regionSource(data, info.shape, width, region);
    throw new UnsupportedError("unsupported-operation", `a region of a ${info.dtype} tensor`, {
      file: this.model.view.name,
    });
  }

  /** See {@link TensorSource.verify}. */
  verify(): Promise<void> {
    return this.model.proto.verify();
  }

  /** See {@link TensorSource.close}. */
  close(): Promise<void> {
    return this.model.close();
  }

  private async constant(key: string): Promise<Constant> {
    const constants = await this.constants();
    const constant = constants.get(key);
    if (constant !== undefined) return constant;
    throw new NotFoundError("no-such-key", `no constant "${key}"`, {
      file: this.model.paths.protoPath,
      hint: nearKeys(key, [...constants.keys()]),
    });
  }

  private constants(): Promise<Map<string, Constant>> {
    this.found ??= this.find();
    return this.found;
  }

  private async find(): Promise<Map<string, Constant>> {
    const constants = new Map<string, Constant>();
    for await (const list of nodeListsOf(this.model.view)) {
      await walkNodes(list.view, list.field, (node) => {
        if (node.op !== "Const") return undefined;
        return this.add(constants, list, node);
      });
    }
    return constants;
  }

  private async add(constants: Map<string, Constant>, list: NodeList, node: NodeFacts): Promise<void> {
    const key = list.keyPrefix + node.name();
    const facts = await constantFacts(node, key, this.model.view.name);
    const where: Record<string, string> = list.functionName === undefined ? {} : { function: list.functionName };
    constants.set(key, { info: { key, ...facts, facts: where }, list, index: node.index });
  }
}

/** Dtype, shape and size of a constant. A small node is parsed as a whole, of a large one only the heads are read. */
export async function constantFacts(
  node: NodeFacts,
  key: string,
  file: string,
): Promise<{ dtype: TensorInfo["dtype"]; shape: number[]; byteLength: number }> {
  if (node.bytes === undefined) {
    const tensor = await tensorOf(node.open(), key, file);
    const width = elementBytes(tensor.dtype);
    const byteLength = width > 0 ? elementCount(tensor.shape) * width : await stringBytes(tensor);
    return { dtype: tensor.dtype, shape: [...tensor.shape], byteLength };
  }
  const value = fromBinary(NodeDefSchema, node.bytes).attr.value?.value;
  if (value?.case !== "tensor") throw noValue(key, file);
  const tensor = value.value;
  const dtype = dtypeOf(tensor.dtype, file, key);
  const shape = tensor.tensorShape?.dim.map(({ size }) => Number(size)) ?? [];
  checkShape(shape, file, key);
  const width = elementBytes(dtype);
  const strings = tensor.stringVal;
  const missing = elementCount(shape) - strings.length;
  const listed =
    strings.reduce((sum, one) => sum + one.length, 0) + Math.max(0, missing) * (strings.at(-1)?.length ?? 0);
  return { dtype, shape, byteLength: width > 0 ? elementCount(shape) * width : listed };
}

async function stringBytes(tensor: { shape: readonly number[]; data(): Promise<ByteSource> }): Promise<number> {
  return (await tensor.data()).size - 8 * elementCount(tensor.shape);
}

async function tensorOf(node: MessageView, key: string, file: string) {
  const tensor = await constantTensor(node);
  if (tensor === undefined) throw noValue(key, file);
  return readTensorProto(tensor, key);
}

function noValue(key: string, file: string): CorruptionError {
  return new CorruptionError("tensor-data", `constant "${key}" has no value`, { file });
}

function nearKeys(key: string, keys: readonly string[]): string {
  const part = key.toLowerCase();
  const near = keys.filter((one) => one.toLowerCase().includes(part)).slice(0, 3);
  if (near.length > 0) return `Did you mean ${near.map((one) => `"${one}"`).join(", ")}?`;
  return keys.length === 0 ? "It has no constants." : 'List its keys with "cairn tensors".';
}
