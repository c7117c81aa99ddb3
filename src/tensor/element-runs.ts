import type { Region } from "./region.js";
import { elementCount, type Shape } from "./shape.js";

/** Elements that stand one after another in the row-major order of a whole tensor. */
export interface ElementRun {
  readonly first: number;
  readonly count: number;
}

/** The elements of a region as runs of the whole tensor's elements, as few as can be, in row-major order. */
export function* elementRuns(shape: Shape, region: Region): Iterable<ElementRun> {
  if (region.some(({ start, end }) => start === end)) return;
  // Behind this dimension all is taken, so that a run reaches over the dimensions behind.
  let inner = shape.length - 1;
  while (inner > 0 && isWhole(shape, region, inner)) inner--;
  if (inner < 0) return yield { first: 0, count: 1 };
  const runLength = elementCount(shape.slice(inner + 1));
  const { start, end } = region[inner] as Region[number];
  const outer = region.slice(0, inner);
  const index = outer.map((range) => range.start);
  do {
    const row = index.reduce((at, i, dimension) => at * (shape[dimension] as number) + i, 0);
    yield { first: (row * (shape[inner] as number) + start) * runLength, count: (end - start) * runLength };
  } while (advance(index, outer));
}

/** Whether the elements of a region stand without a gap in the whole tensor. */
export function isContiguous(shape: Shape, region: Region): boolean {
  let dimension = 0;
  while (dimension < shape.length && regionSize(region, dimension) === 1) dimension++;
  for (dimension++; dimension < shape.length; dimension++) if (!isWhole(shape, region, dimension)) return false;
  return true;
}

/** Sets `index` to the next of a region, in row-major order; false after the last. */
function advance(index: number[], region: Region): boolean {
  for (let i = index.length - 1; i >= 0; i--) {
    const { start, end } = region[i] as Region[number];
    const next = (index[i] as number) + 1;
    index[i] = next < end ? next : start;
    if (next < end) return true;
  }
  return false;
}

function regionSize(region: Region, dimension: number): number {
  const { start, end } = region[dimension] as Region[number];
  return end - start;
}

function isWhole(shape: Shape, region: Region, dimension: number): boolean {
  const range = region[dimension];
  return range?.start === 0 && range.end === shape[dimension];
}
