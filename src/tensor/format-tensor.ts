import type { ByteSource } from "../bytes/byte-source.js";
import { LimitError } from "../errors.js";
import { MAX_IN_MEMORY_BYTES } from "../limits.js";
import { type DType, elementBytes } from "./dtype.js";
import { elementCount, type Shape } from "./shape.js";
import { decodeElements, formatElement } from "./values.js";

/** A tensor with more elements is cut short where that is asked for. */
const SUMMARIZED_ELEMENTS = 1000;
/** Elements at each end of a dimension that is cut short. */
const EDGE_ELEMENTS = 3;
/** Elements of one row go on in the next line beyond this. */
const LINE_COLUMNS = 79;

/** A tensor to print. */
export interface PrintedTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly data: ByteSource;
}

/**
 * A tensor for people, as nested lists. With `summarize`, the dimensions of a large one are cut short in the middle, and
 * only what is shown is read.
 * @throws {@link LimitError} (`limit`) for strings that do not fit in memory
 */
export async function formatTensor(tensor: PrintedTensor, summarize: boolean): Promise<string> {
  const { dtype, shape, data } = tensor;
  const isCut = summarize && elementCount(shape) > SUMMARIZED_ELEMENTS;
  const width = elementBytes(dtype);
  let read: (from: number, to: number) => Promise<string[]>;
  if (width > 0) {
    read = async (from, to) => {
      const bytes = await data.read(from * width, (to - from) * width);
      return Array.from(decodeElements(dtype, bytes), (value) => formatElement(value, dtype));
    };
  } else {
    const strings = await readStrings(data, dtype);
    read = async (from, to) => strings.slice(from, to);
  }
  if (shape.length === 0) return (await read(0, 1))[0] ?? "";
  return formatDimension({ shape, isCut, read }, 0, 0);
}

interface Printing {
  readonly shape: Shape;
  readonly isCut: boolean;
  readonly read: (from: number, to: number) => Promise<string[]>;
}

async function formatDimension(printing: Printing, dimension: number, offset: number): Promise<string> {
  const { shape, read } = printing;
  const stride = elementCount(shape.slice(dimension + 1));
  const isInner = dimension === shape.length - 1;
  const parts: string[] = [];
  for (const range of shownRanges(shape[dimension] as number, printing.isCut)) {
    if (range === undefined) parts.push("…");
    else if (isInner) parts.push(...(await read(offset + range.from, offset + range.to)));
    else {
      for (let i = range.from; i < range.to; i++) {
        parts.push(await formatDimension(printing, dimension + 1, offset + i * stride));
      }
    }
  }
  const indent = " ".repeat(dimension + 1);
  return isInner ? `[${inLines(parts, indent)}]` : `[${parts.join(`,\n${indent}`)}]`;
}

/** Elements with commas between them, in lines of a terminal's width. */
function inLines(parts: readonly string[], indent: string): string {
  let text = "";
  let width = indent.length;
  for (const [i, part] of parts.entries()) {
    const piece = i === parts.length - 1 ? part : `${part},`;
    const isNewLine = i > 0 && width + 1 + piece.length > LINE_COLUMNS;
    const before = isNewLine ? `\n${indent}` : i === 0 ? "" : " ";
    text += before + piece;
    width = isNewLine ? indent.length + piece.length : width + before.length + piece.length;
  }
  return text;
}

/** The indexes that are shown, as ranges; undefined stands for those that are left out. */
function shownRanges(size: number, isCut: boolean): ({ from: number; to: number } | undefined)[] {
  if (!isCut || size <= 2 * EDGE_ELEMENTS + 1) return [{ from: 0, to: size }];
  return [{ from: 0, to: EDGE_ELEMENTS }, undefined, { from: size - EDGE_ELEMENTS, to: size }];
}

async function readStrings(data: ByteSource, dtype: DType): Promise<string[]> {
  if (data.size > MAX_IN_MEMORY_BYTES) {
    throw new LimitError("limit", "strings to print", {
      file: data.name,
      expected: `at most ${MAX_IN_MEMORY_BYTES} bytes`,
      actual: data.size,
      hint: "Write them to a file with -o.",
    });
  }
  const bytes = await data.read(0, data.size);
  return Array.from(decodeElements(dtype, bytes), (value) => formatElement(value, dtype));
}
