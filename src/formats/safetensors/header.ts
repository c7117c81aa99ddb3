import { type CairnError, CorruptionError, LimitError, TruncatedError, UnsupportedError } from "../../errors.js";
import { MAX_SAFETENSORS_HEADER_BYTES } from "../../limits.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import { decodeKey, encodeKey, isHexKey } from "../../tensor/key.js";
import { compareKeys } from "../../tensor/key-order.js";
import { checkShape, elementCount, formatShape, type Shape } from "../../tensor/shape.js";
import { alignmentRank, codeOfDType, findDTypeOfCode } from "./dtypes.js";
import { isWellFormed, JsonReader } from "./json-reader.js";

/*
 * A file is
 *   0      8     length of the header, uint64, little-endian
 *   8      n     the header: JSON, with space behind it
 *   8 + n  ...   the data of the tensors, one behind the other with no gap
 * Source: the README of huggingface/safetensors, "Format".
 */

/** Bytes before the header. */
export const HEADER_LENGTH_BYTES = 8;
/** The header is padded so that the data begins at a multiple of this. Source: safetensors/src/tensor.rs, prepare. */
const HEADER_ALIGNMENT = 8;
/** The key of the header that names no tensor. */
const METADATA_KEY = "__metadata__";

/** Text that a file carries beside its tensors. */
export type SafetensorsMetadata = Readonly<Record<string, string>>;

/** A tensor of a header. */
export interface HeaderTensor {
  readonly key: string;
  /** The format's name of the dtype: `BF16`. */
  readonly code: string;
  /** Undefined for a name that the format does not have. */
  readonly dtype: DType | undefined;
  readonly shape: Shape;
  /** Where its bytes begin, from the start of the data. */
  readonly begin: number;
  /** Where they end, exclusive. */
  readonly end: number;
}

/** What the header of a file says, unchecked. */
export interface Header {
  readonly metadata: SafetensorsMetadata | undefined;
  /** In the order of the header. */
  readonly tensors: readonly HeaderTensor[];
}

/**
 * The length of the header that the first 8 bytes of a file announce.
 * @throws {@link TruncatedError} (`truncated`), {@link LimitError} (`limit`)
 */
export function decodeHeaderLength(bytes: Uint8Array, file: string, fileSize: number): number {
  if (bytes.length < HEADER_LENGTH_BYTES) {
    const expected = `${HEADER_LENGTH_BYTES} bytes`;
    throw new TruncatedError("truncated", "no header length", { file, offset: 0, expected, actual: bytes.length });
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(MAX_SAFETENSORS_HEADER_BYTES)) {
    throw new LimitError("limit", "header length", {
      file,
      offset: 0,
      expected: `at most ${MAX_SAFETENSORS_HEADER_BYTES} bytes`,
      actual: length,
    });
  }
  if (HEADER_LENGTH_BYTES + Number(length) > fileSize) {
    throw new TruncatedError("truncated", "the header passes the end of the file", {
      file,
      offset: HEADER_LENGTH_BYTES,
      expected: `${length} bytes`,
      actual: `${fileSize - HEADER_LENGTH_BYTES} bytes`,
    });
  }
  return Number(length);
}

/**
 * Parses a header. What it says of the tensors is checked by {@link checkTensors}.
 * @throws {@link CorruptionError} (`invalid-json`), {@link LimitError} (`limit`)
 */
export function decodeHeader(bytes: Uint8Array, file: string): Header {
  const json = new JsonReader(bytes, file, HEADER_LENGTH_BYTES);
  let metadata: SafetensorsMetadata | undefined;
  const tensors: HeaderTensor[] = [];
  json.readObject((key) => {
    if (key === METADATA_KEY) metadata = readMetadata(json);
    else tensors.push(readTensor(json, decodeName(key)));
  });
  json.readEnd();
  return { metadata, tensors };
}

function readMetadata(json: JsonReader): SafetensorsMetadata | undefined {
  if (json.readNull()) return undefined;
  const entries: [string, string][] = [];
  json.readObject((key) => entries.push([key, json.readString()]));
  // Unlike assignment, this takes "__proto__" for a name like any other.
  return Object.fromEntries(entries);
}

function readTensor(json: JsonReader, key: string): HeaderTensor {
  let code: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  const readIntegers = () => {
    const values: number[] = [];
    json.readArray(() => values.push(json.readInteger()));
    return values;
  };
  json.readObject((name) => {
    if (name === "dtype") code = json.readString();
    else if (name === "shape") shape = readIntegers();
    else if (name === "data_offsets") offsets = readIntegers();
    // What else a writer may have put there is passed over, as the reference library does.
    else json.skipValue();
  });
  const [begin, end, more] = offsets ?? [];
  if (code === undefined || shape === undefined || begin === undefined || end === undefined || more !== undefined) {
    throw json.wrong(`"${key}" lacks a dtype, a shape or two data_offsets`);
  }
  return { key, code, dtype: findDTypeOfCode(code), shape, begin, end };
}

/** Tensors in the order of their bytes. */
export function sortByPlace(tensors: readonly HeaderTensor[]): HeaderTensor[] {
  return [...tensors].sort((a, b) => a.begin - b.begin || a.end - b.end);
}

/** Something that is wrong with a tensor of a header, or with the end of the file, which has no key. */
export interface HeaderProblem {
  readonly key: string | undefined;
  readonly error: CairnError;
}

/**
 * What is wrong with the tensors of a header: an unknown dtype, a size that is not that of dtype and shape, an overlap, a
 * gap, bytes missing or left over at the end. A file with none of these is what the reference library reads.
 * Source: safetensors/src/tensor.rs, Metadata::validate and SafeTensors::read_metadata.
 */
export function* checkTensors(
  tensors: readonly HeaderTensor[],
  file: string,
  dataStart: number,
  fileSize: number,
): Generator<HeaderProblem> {
  let expected = 0;
  for (const tensor of sortByPlace(tensors)) {
    const { key, begin, end } = tensor;
    const problem = checkForm(tensor, file, dataStart) ?? checkPlace(tensor, expected, file, dataStart, fileSize);
    if (problem !== undefined) yield { key, error: problem };
    if (begin <= end) expected = Math.max(expected, end);
  }
  const left = fileSize - dataStart - expected;
  if (left > 0) {
    const place = { file, offset: dataStart + expected };
    const what = "bytes behind the last tensor";
    yield {
      key: undefined,
      error: new CorruptionError("tensor-offsets", what, { ...place, expected: 0, actual: left }),
    };
  }
}

function checkForm(tensor: HeaderTensor, file: string, dataStart: number): CairnError | undefined {
  const { key, code, dtype, shape, begin, end } = tensor;
  if (dtype === undefined) return new UnsupportedError("unsupported-dtype", `dtype "${code}" of "${key}"`, { file });
  try {
    checkShape(shape, file, key);
  } catch (error) {
    return error as CairnError;
  }
  const byteLength = elementCount(shape) * elementBytes(dtype);
  if (Number.isInteger(byteLength) && end - begin === byteLength) return undefined;
  return new CorruptionError("tensor-offsets", `"${key}", ${code} ${formatShape(shape)}`, {
    file,
    offset: dataStart + begin,
    expected: `${byteLength} bytes`,
    actual: `${end - begin} bytes`,
  });
}

function checkPlace(
  { key, begin, end }: HeaderTensor,
  expected: number,
  file: string,
  dataStart: number,
  fileSize: number,
): CairnError | undefined {
  if (begin !== expected) {
    const what = begin < expected ? `"${key}" overlaps another tensor` : `a gap before "${key}"`;
    const details = { file, offset: dataStart + Math.min(begin, expected) };
    return new CorruptionError("tensor-offsets", what, { ...details, expected, actual: begin });
  }
  if (dataStart + end <= fileSize) return undefined;
  return new TruncatedError("truncated", `the data of "${key}" passes the end of the file`, {
    file,
    offset: dataStart + begin,
    expected: `${end - begin} bytes`,
    actual: `${Math.max(0, fileSize - dataStart - begin)} bytes`,
  });
}

/** A tensor to write. */
export interface TensorToWrite {
  readonly key: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

/**
 * Orders tensors as the reference library does: by alignment of the dtype, the largest first, then by name.
 * Source: safetensors/src/tensor.rs, prepare.
 */
export function sortForFile<Tensor extends TensorToWrite>(tensors: readonly Tensor[]): Tensor[] {
  return [...tensors].sort((a, b) => alignmentRank(b.dtype) - alignmentRank(a.dtype) || compareKeys(a.key, b.key));
}

/**
 * The header of a file whose tensors lie in the order given, with its length before it.
 * @throws {@link UnsupportedError} (`unsupported-dtype`, `unsupported-operation`), {@link LimitError} (`limit`)
 */
export function encodeHeader(tensors: readonly TensorToWrite[], metadata: SafetensorsMetadata | undefined): Uint8Array {
  const parts: string[] = [];
  if (metadata !== undefined) parts.push(`"${METADATA_KEY}":${encodeMetadata(metadata)}`);
  let offset = 0;
  for (const { key, dtype, shape } of tensors) {
    const end = offset + elementCount(shape) * elementBytes(dtype);
    if (!Number.isInteger(end)) {
      const what = `"${key}", ${dtype} ${formatShape(shape)}, does not end at a byte`;
      throw new UnsupportedError("unsupported-operation", what);
    }
    const info = { dtype: codeOfDType(dtype, key), shape, data_offsets: [offset, end] };
    parts.push(`${JSON.stringify(encodeName(key))}:${JSON.stringify(info)}`);
    offset = end;
  }
  return padHeader(new TextEncoder().encode(`{${parts.join(",")}}`));
}

function encodeMetadata(metadata: SafetensorsMetadata): string {
  for (const text of Object.entries(metadata).flat()) {
    if (!isWellFormed(text)) throw new UnsupportedError("unsupported-operation", "metadata that is no Unicode text");
  }
  return JSON.stringify(metadata);
}

function padHeader(text: Uint8Array): Uint8Array {
  const length = Math.ceil(text.length / HEADER_ALIGNMENT) * HEADER_ALIGNMENT;
  if (length > MAX_SAFETENSORS_HEADER_BYTES) {
    const expected = `at most ${MAX_SAFETENSORS_HEADER_BYTES} bytes`;
    throw new LimitError("limit", "header length", { expected, actual: length, hint: "Write several files." });
  }
  const header = new Uint8Array(HEADER_LENGTH_BYTES + length).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(text, HEADER_LENGTH_BYTES);
  return header;
}

/** The key of a name in a header or an index. */
export function decodeName(name: string): string {
  return isHexKey(name) ? decodeKey(new TextEncoder().encode(name)) : name;
}

/** The name of a key in a header or an index. @throws {@link UnsupportedError} (`unsupported-operation`) */
export function encodeName(key: string): string {
  try {
    if (!isWellFormed(key)) throw new TypeError("half of a surrogate pair");
    const name = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(encodeKey(key));
    if (name !== METADATA_KEY) return name;
  } catch (cause) {
    throw new UnsupportedError("unsupported-operation", `the key ${key} is not UTF-8, which safetensors needs`, {
      cause,
    });
  }
  throw new UnsupportedError("unsupported-operation", `no tensor can be called "${key}" in safetensors`);
}
