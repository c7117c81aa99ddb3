import type { ByteSource } from "../../bytes/byte-source.js";
import { CorruptionError, TruncatedError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import { storedBytes } from "./dequantized-source.js";
import type { WeightGroup, WeightSpec } from "./model-json.js";
import { readWeightStrings } from "./string-weights.js";

/** Where a weight stands in its group. */
export interface PlacedWeight {
  readonly spec: WeightSpec;
  /** From the start of the group. */
  readonly offset: number;
  /** Bytes as they are stored. */
  readonly byteLength: number;
  /** Of strings, the bytes of each. */
  readonly lengths?: readonly number[] | undefined;
}

/** The weights of a group one behind the other, and where the last one ends. */
export interface GroupLayout {
  readonly weights: readonly PlacedWeight[];
  readonly end: number;
}

/** Bytes of one number of a weight as it is stored; 0 for strings. */
export function storedWidth({ dtype, quantization }: WeightSpec): number {
  return quantization === undefined ? elementBytes(dtype) : storedBytes(quantization);
}

/**
 * Lays out a group. Only the lengths of strings are read: where a weight behind them begins is not known otherwise.
 * Source: tfjs-core/src/io/io_utils.ts, decodeWeights.
 * @throws {@link TruncatedError} (`truncated`), LimitError (`limit`)
 */
export async function layOutGroup(group: WeightGroup, data: () => Promise<ByteSource>): Promise<GroupLayout> {
  const weights: PlacedWeight[] = [];
  let offset = 0;
  for (const spec of group.weights) {
    const count = elementCount(spec.shape);
    if (spec.dtype === "string") {
      const source = await data();
      if (offset > source.size) throw shortGroup(source, offset);
      const { lengths, end } = await readWeightStrings(source, offset, { name: spec.name, count });
      weights.push({ spec, offset, byteLength: end - offset, lengths });
      offset = end;
      continue;
    }
    const byteLength = count * storedWidth(spec);
    weights.push({ spec, offset, byteLength });
    offset += byteLength;
  }
  return { weights, end: offset };
}

/**
 * Checks that the files of a group have the bytes of its weights.
 * @throws {@link TruncatedError} (`truncated`), {@link CorruptionError} (`weight-map`)
 */
export function checkGroupSize({ end }: GroupLayout, data: ByteSource): void {
  if (data.size < end) throw shortGroup(data, end);
  if (data.size === end) return;
  throw new CorruptionError("weight-map", "the files of a group have more bytes than its weights", {
    file: data.name,
    expected: `${end} bytes`,
    actual: `${data.size} bytes`,
  });
}

function shortGroup(data: ByteSource, end: number): TruncatedError {
  return new TruncatedError("truncated", "the files of a group end before its weights", {
    file: data.name,
    expected: `${end} bytes`,
    actual: `${data.size} bytes`,
  });
}
