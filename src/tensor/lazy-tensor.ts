import type { ByteSource } from "../bytes/byte-source.js";
import type { DType } from "./dtype.js";
import type { Region } from "./region.js";
import type { Shape } from "./shape.js";

/** What a tensor needs to be written as an embedding table where a format has such. */
export interface LazyEmbedding {
  /** How a row begins that is not there: `uniform`, `zeros`, any text. */
  readonly initializer: string;
  /** The ids of the rows, in the order of the data, at most `limit` at a time. May be asked for several times. */
  idBatches(limit: number): AsyncIterable<BigInt64Array>;
}

/** The value of a tensor, read when it is asked for. Slicing one and making one read nothing. */
export interface LazyTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Bytes of the whole data in the form that {@link LazyTensor.data} gives. */
  readonly byteLength: number;
  /** Of strings alone: the length in bytes of each element, row-major. What they weigh decides where they are cut. */
  readonly byteLengths?: readonly number[] | undefined;
  /** Of an embedding table, whose shape is [rows, dim]. */
  readonly embedding?: LazyEmbedding | undefined;
  /**
   * The data, or that of a region: row-major, little-endian. A string element is its length as uint64 and its bytes; a
   * variant is what its file stores.
   */
  data(region?: Region): Promise<ByteSource>;
}
