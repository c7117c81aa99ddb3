import { UsageError } from "../errors.js";
import type { DType } from "../tensor/dtype.js";
import { decodeElements } from "../tensor/values.js";
import { VARIABLE_VALUE } from "./object-path.js";
import { decodeStrings, memorySnapshot, stringSnapshot } from "./snapshot.js";
import type { TensorValue, Trackable, TrackedTensor } from "./trackable.js";

/** Dtypes of numbers that one JavaScript number can stand for. */
export type NumberDType = "float32" | "float64" | "int32" | "int64";

const NUMBER_DTYPES: readonly DType[] = ["float32", "float64", "int32", "int64"];

/** Somewhere that holds a number or a string: an entry of a list or map, or a {@link TrackedNumber}. */
export interface ScalarPlace {
  get(): number | string;
  set(value: number | string): void;
}

/**
 * A number that is saved as a scalar of a chosen dtype, as Python's `tf.Variable(0, dtype=tf.int64)`. A number that
 * stands in a list or map by itself is saved as a float64.
 */
export class TrackedNumber implements Trackable {
  /** The number. */
  value: number;
  readonly dtype: NumberDType;
  /** The name that it has in the program, for people. */
  readonly fullName: string | undefined;

  /** Makes one; `dtype` is int64 when it isn't given. */
  constructor(value = 0, dtype: NumberDType = "int64", fullName?: string) {
    this.value = value;
    this.dtype = dtype;
    this.fullName = fullName;
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    const place: ScalarPlace = {
      get: () => this.value,
      set: (value) => {
        this.value = Number(value);
      },
    };
    return [{ ...scalarTensor(place, this.dtype), fullName: this.fullName }];
  }
}

/** The tensor of a number of a dtype, or of a string. */
export function scalarTensor(place: ScalarPlace, dtype: NumberDType | "string"): TrackedTensor {
  return {
    name: VARIABLE_VALUE,
    dtype,
    shape: [],
    snapshot: async () => {
      if (dtype === "string") return stringSnapshot([String(place.get())], []);
      return memorySnapshot({ dtype, shape: [], bytes: encodeNumber(place.get(), dtype) });
    },
    prepare: async (value) => {
      const scalar = decodeScalar(value);
      return () => place.set(scalar);
    },
  };
}

/** The tensor of a number that stands by itself: saved as float64, restored from any number that is a scalar. */
export function bareNumberTensor(place: ScalarPlace): TrackedTensor {
  const accepts: TrackedTensor["accepts"] = ({ dtype, shape }) => shape.length === 0 && NUMBER_DTYPES.includes(dtype);
  return { ...scalarTensor(place, "float64"), accepts };
}

/** A number as the bytes of a scalar. @throws {@link UsageError} (`usage`) for one that the dtype cannot hold */
function encodeNumber(value: number | string, dtype: NumberDType): Uint8Array {
  const number = Number(value);
  const view = new DataView(new ArrayBuffer(dtype === "float64" || dtype === "int64" ? 8 : 4));
  if (dtype === "float32") view.setFloat32(0, number, true);
  else if (dtype === "float64") view.setFloat64(0, number, true);
  else if (!Number.isSafeInteger(number) || (dtype === "int32" && number !== (number | 0))) {
    throw new UsageError("usage", `${number} is no ${dtype}`);
  } else if (dtype === "int32") view.setInt32(0, number, true);
  else view.setBigInt64(0, BigInt(number), true);
  return new Uint8Array(view.buffer);
}

/** @throws {@link UsageError} (`usage`) for an integer that no JavaScript number can hold */
function decodeScalar({ dtype, bytes }: TensorValue): number | string {
  if (dtype === "string") return new TextDecoder().decode(decodeStrings(bytes, "string scalar")[0]);
  const [element] = decodeElements(dtype, bytes);
  const number = Number(element);
  if (typeof element !== "bigint" || Number.isSafeInteger(number)) return number;
  throw new UsageError("usage", "an int64 passes what a JavaScript number can hold", { actual: element });
}
