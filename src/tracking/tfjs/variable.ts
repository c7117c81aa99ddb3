import { UnsupportedError } from "../../errors.js";
import type { DType } from "../../tensor/dtype.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import { VARIABLE_VALUE } from "../object-path.js";
import { decodeStrings, memorySnapshot, stringSnapshot } from "../snapshot.js";
import type { TensorSnapshot, TensorValue, Trackable, TrackedTensor } from "../trackable.js";
import type { TfTensor, TfVariable } from "./types.js";

/** The dtypes of TF.js; their names are TensorFlow's. */
const TF_DTYPES: readonly string[] = ["float32", "int32", "bool", "complex64", "string"];

/** A variable of TF.js in a checkpoint. */
export class TrackedVariable implements Trackable {
  readonly variable: TfVariable;

  /** Made by `trackableOf`. */
  constructor(variable: TfVariable) {
    this.variable = variable;
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    return [variableTensor(this.variable)];
  }
}

/** The tensor of a variable of TF.js. @throws {@link UnsupportedError} (`unsupported-dtype`) */
export function variableTensor(variable: TfVariable, name: string = VARIABLE_VALUE): TrackedTensor {
  return {
    name,
    fullName: variable.name,
    dtype: dtypeOfTensor(variable, variable.name),
    shape: variable.shape,
    snapshot: () => tensorSnapshot(variable),
    prepare: async (value) => {
      const tensor = await makeTensor(value);
      return () => {
        variable.assign(tensor);
        tensor.dispose();
      };
    },
  };
}

function dtypeOfTensor({ dtype }: TfTensor, name: string): DType {
  if (TF_DTYPES.includes(dtype)) return dtype as DType;
  throw new UnsupportedError("unsupported-dtype", `dtype ${dtype} of "${name}"`);
}

/**
 * The value of a tensor of TF.js as it is now. TF.js never changes a tensor's data but gives a variable another, so a
 * clone, which shares the data, holds on to it; it is read when its turn comes.
 */
export async function tensorSnapshot(tensor: TfTensor): Promise<TensorSnapshot> {
  const clone = tensor.clone();
  const dtype = dtypeOfTensor(clone, "tensor");
  const { shape } = clone;
  if (dtype === "string") {
    const strings = [await clone.bytes()].flat();
    clone.dispose();
    return stringSnapshot(strings, shape);
  }
  return {
    dtype,
    shape,
    byteLength: elementCount(shape) * elementBytes(dtype),
    data: async (region) => memorySnapshot({ dtype, shape, bytes: await readBytes(clone) }).data(region),
    dispose: () => clone.dispose(),
  };
}

async function readBytes(tensor: TfTensor): Promise<Uint8Array> {
  // A typed array of the dtype; a complex64 is its parts in turn, which is how it is stored.
  const data = (await tensor.data()) as Uint8Array | Float32Array | Int32Array;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A tensor of TF.js with a value. Loads `@tensorflow/tfjs-core`. */
export async function makeTensor({ dtype, shape, bytes }: TensorValue): Promise<TfTensor> {
  const tf = await import("@tensorflow/tfjs-core");
  const dimensions = [...shape];
  if (dtype === "string") return tf.tensor(decodeStrings(bytes, "strings") as never, dimensions, "string");
  if (dtype === "bool") return tf.tensor(bytes, dimensions, "bool");
  // The engine keeps the array as it is. Nothing changes what was read, so it may be a part of a larger one.
  const { buffer, byteOffset, length } = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  if (dtype === "int32") return tf.tensor(new Int32Array(buffer, byteOffset, length / 4), dimensions, "int32");
  const floats = new Float32Array(buffer, byteOffset, length / 4);
  if (dtype === "float32") return tf.tensor(floats, dimensions, "float32");
  return tf.tidy(() => {
    const part = (first: number) => floats.filter((_, i) => i % 2 === first);
    return tf.complex(tf.tensor(part(0), dimensions), tf.tensor(part(1), dimensions));
  });
}
