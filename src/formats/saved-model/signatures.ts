import { SignatureDefSchema, type TensorInfo } from "../../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { textOfKey } from "../../proto/map-key.js";
import type { MessageView } from "../../proto/message-view.js";
import { type DType, findDType } from "../../tensor/dtype.js";
import type { Shape } from "../../tensor/shape.js";
import { parseView } from "./model-file.js";

/** One input or output of a signature. */
export interface SignatureTensor {
  /** The argument's name. */
  readonly name: string;
  /** The tensor in the graph, such as `serving_default_x:0`. */
  readonly tensor: string;
  readonly dtype: DType | undefined;
  /** -1 for an unknown size; undefined for an unknown rank. */
  readonly shape: Shape | undefined;
}

/** A function that a model offers to be called. */
export interface Signature {
  readonly name: string;
  /** Such as `tensorflow/serving/predict`. */
  readonly methodName: string;
  readonly inputs: readonly SignatureTensor[];
  readonly outputs: readonly SignatureTensor[];
}

// Source: tensorflow/core/protobuf/meta_graph.proto, MetaGraphDef.signature_def.
const SIGNATURE_DEF = 5;

/** The signatures of a meta graph, by name. Reads nothing of the graph. */
export async function signaturesOf(metaGraph: MessageView): Promise<Signature[]> {
  const rule = metaGraph.rules.field(SIGNATURE_DEF);
  if (rule === undefined) return [];
  const signatures: Signature[] = [];
  for (const [key, field] of await (await metaGraph.open()).entries(rule)) {
    const entry = metaGraph.message(field);
    const valueRule = entry?.rules.field(2);
    const valueField = valueRule === undefined ? undefined : await entry?.single(valueRule);
    const value = valueField === undefined ? undefined : entry?.message(valueField);
    if (value === undefined) continue;
    const { inputs, outputs, methodName } = await parseView(SignatureDefSchema, value);
    signatures.push({ name: textOfKey(key), methodName, inputs: tensorsOf(inputs), outputs: tensorsOf(outputs) });
  }
  return signatures.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function tensorsOf(tensors: { readonly [name: string]: TensorInfo }): SignatureTensor[] {
  const list = Object.entries(tensors).map(([name, { encoding, dtype, tensorShape }]) => ({
    name,
    tensor: encoding.case === "name" ? encoding.value : `(${encoding.case ?? "no encoding"})`,
    dtype: findDType(dtype),
    shape:
      tensorShape === undefined || tensorShape.unknownRank
        ? undefined
        : tensorShape.dim.map(({ size }) => Number(size)),
  }));
  return list.sort((a, b) => (a.name < b.name ? -1 : 1));
}
