import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { UnsupportedError, UsageError } from "../errors.js";
import { elementCount, formatShape, type Shape } from "./shape.js";

/** A part of a tensor: for each dimension where it starts and where it ends, exclusive. */
export type Region = readonly { readonly start: number; readonly end: number }[];

/** The region that is the whole tensor. */
export function wholeRegion(shape: Shape): Region {
  return shape.map((size) => ({ start: 0, end: size }));
}

/** The shape of a region. */
export function regionShape(region: Region): Shape {
  return region.map(({ start, end }) => end - start);
}

/**
 * Parses a region as in Python: `0:10,:` or `5,-3:`. An index alone is a range of one, a negative number counts from
 * the end, dimensions that are not named are whole.
 * @throws {@link UsageError} (`usage`)
 */
export function parseRegion(text: string, shape: Shape): Region {
  const parts = text
    .replace(/^\[|\]$/g, "")
    .split(",")
    .map((part) => part.trim());
  if (text.trim() === "") return wholeRegion(shape);
  if (parts.length > shape.length) {
    throw new UsageError("usage", `region "${text}" has ${parts.length} dimensions`, { expected: formatShape(shape) });
  }
  return shape.map((size, dimension) => parseRange(parts[dimension] ?? ":", size, dimension, text));
}

function parseRange(part: string, size: number, dimension: number, text: string): { start: number; end: number } {
  const match = /^(?:(-?\d+)|(-?\d+)?:(-?\d+)?)$/.exec(part);
  if (match === null) {
    throw new UsageError("usage", `region "${text}" cannot be read at "${part}"`, {
      hint: "A region looks like 0:10,: or 3,-5:.",
    });
  }
  const fromEnd = (value: string) => (Number(value) < 0 ? Number(value) + size : Number(value));
  const [, index, first, last] = match;
  const start = index !== undefined ? fromEnd(index) : first === undefined ? 0 : fromEnd(first);
  const end = index !== undefined ? start + 1 : last === undefined ? size : fromEnd(last);
  if (start < 0 || end > size || start > end) {
    throw new UsageError("usage", `region "${text}" passes dimension ${dimension}`, {
      expected: `0:${size}`,
      actual: part,
    });
  }
  return { start, end };
}

/**
 * The bytes of a region, row-major, as extents of the whole tensor's bytes: only these are read. Runs that lie behind
 * one another are one extent.
 * @throws {@link UnsupportedError} (`unsupported-operation`) when elements are packed and a run begins or ends within a byte
 */
export function regionSource(data: ByteSource, shape: Shape, bytesPerElement: number, region: Region): ByteSource {
  if (elementCount(regionShape(region)) === 0) return data.slice(0, 0);
  // From this dimension on all is taken, so that a run reaches over the dimensions behind.
  let inner = shape.length;
  while (inner > 0 && isWhole(region, shape, inner - 1)) inner--;
  const runDimension = Math.max(0, inner - 1);
  const innerBytes = elementCount(shape.slice(runDimension + 1)) * bytesPerElement;
  const run = region[runDimension] ?? { start: 0, end: 1 };
  const runBytes = (run.end - run.start) * innerBytes;
  const extents: ByteSource[] = [];
  for (const row of rowsOf(shape, region, runDimension)) {
    const size = shape[runDimension] ?? 1;
    const start = (row * size + run.start) * innerBytes;
    if (!Number.isInteger(start) || !Number.isInteger(runBytes)) throw splitByte(data, region);
    extents.push(data.slice(start, runBytes));
  }
  return joinSources(data.name, extents);
}

/** Packed elements are only given out as they are stored. Source: safetensors/src/tensor.rs, MisalignedSlice. */
function splitByte(data: ByteSource, region: Region): UnsupportedError {
  const text = region.map(({ start, end }) => `${start}:${end}`).join(",");
  return new UnsupportedError("unsupported-operation", `region ${text} of packed elements begins or ends in a byte`, {
    file: data.name,
    hint: "Choose a region whose innermost range is a multiple of 4.",
  });
}

function isWhole(region: Region, shape: Shape, dimension: number): boolean {
  const range = region[dimension];
  return range?.start === 0 && range.end === shape[dimension];
}

/** The indexes of the rows that a region takes, over the dimensions before `dimension`. */
function* rowsOf(shape: Shape, region: Region, dimension: number): Iterable<number> {
  const outer = region.slice(0, dimension);
  const index = outer.map(({ start }) => start);
  for (;;) {
    yield index.reduce((row, at, i) => row * (shape[i] as number) + at, 0);
    let i = dimension - 1;
    for (; i >= 0; i--) {
      const next = (index[i] as number) + 1;
      if (next < (outer[i]?.end ?? 0)) {
        index[i] = next;
        break;
      }
      index[i] = outer[i]?.start ?? 0;
    }
    if (i < 0) return;
  }
}
