import { CorruptionError, LimitError } from "../errors.js";
import { MAX_OFFSET, MAX_RANK } from "../limits.js";

/** Sizes of the dimensions, outermost first; `[]` is a scalar. */
export type Shape = readonly number[];

/** How many elements a tensor of this shape has. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

/**
 * Checks that a shape read from a file is one: no negative size, a rank and an element count that can be.
 * @throws {@link CorruptionError} (`tensor-data`), {@link LimitError} (`limit`)
 */
export function checkShape(shape: Shape, file: string, key: string): void {
  if (shape.length > MAX_RANK) {
    throw new LimitError("limit", `rank of "${key}"`, { file, expected: `at most ${MAX_RANK}`, actual: shape.length });
  }
  for (const size of shape) {
    if (Number.isSafeInteger(size) && size >= 0) continue;
    throw new CorruptionError("tensor-data", `shape of "${key}"`, { file, actual: formatShape(shape) });
  }
  // The product may pass the limit on the way, though a 0 makes it small in the end.
  const nonZero = shape.filter((size) => size > 0).reduce((product, size) => product * size, 1);
  if (nonZero > MAX_OFFSET) throw new LimitError("limit", `elements of "${key}"`, { file, actual: formatShape(shape) });
}

/** A shape for people: `[2, 3]`; an unknown size, which is negative, is `?`. */
export function formatShape(shape: Shape): string {
  return `[${shape.map((size) => (size < 0 ? "?" : String(size))).join(", ")}]`;
}
