import type { ByteSource } from "../bytes/byte-source.js";
import type { DType } from "./dtype.js";
import type { Region } from "./region.js";
import type { Shape } from "./shape.js";

/** A fact about a tensor, as JSON has it. */
export type TensorFact = string | number | boolean | readonly TensorFact[] | { readonly [name: string]: TensorFact };

/** What makes a tensor an embedding table: each row stands under an id. */
export interface EmbeddingFacts {
  /** Elements of a row. */
  readonly dim: number;
  /** Rows that are there; others would be made when they are asked for. */
  readonly rows: number;
  /** How a row begins that is made: `uniform`, `zeros`, any text. */
  readonly initializer: string;
}

/** What is known of a tensor without its data. */
export interface TensorInfo {
  /** The key, unique among the tensors of its source. */
  readonly key: string;
  /**
   * What the tensor is called apart from how its format writes keys: `dense/kernel` for
   * `dense/kernel/.ATTRIBUTES/VARIABLE_VALUE`. Absent when it is the key. Other formats know the tensor by it.
   */
  readonly name?: string | undefined;
  /**
   * What it is for, when that is not a value of the model that training changes: the state of an optimizer for one variable
   * (`slot`), a constant of a graph that has variables beside it (`constant`), or a description that only its own format
   * understands (`structure`).
   */
  readonly role?: "slot" | "constant" | "structure" | undefined;
  /** The id of the format whose key and structure these are, where a model keeps tensors in files of another format. */
  readonly origin?: string | undefined;
  readonly dtype: DType;
  readonly shape: Shape;
  /**
   * Bytes of the data in the form that {@link TensorSource.data} gives; for strings, those of the strings alone, or what
   * is stored of them where their lengths stand with the data.
   */
  readonly byteLength: number;
  /** Of an embedding table, whose shape is [rows, dim] and whose data is the rows in ascending order of their ids. */
  readonly embedding?: EmbeddingFacts | undefined;
  /** Facts of its format, for people and for `--json`: shard, slices, where it stands. */
  readonly facts?: Readonly<Record<string, TensorFact>> | undefined;
}

/** Where bytes of a tensor stand: which of the files of its source, and from which byte. */
export interface StoredPlace {
  readonly shard: number;
  readonly offset: number;
}

/** A tensor, and where it or each of its slices is stored. */
export interface StoredTensor {
  readonly key: string;
  readonly shape: Shape;
  /** Absent for a tensor in slices. */
  readonly stored?: StoredPlace | undefined;
  /** The slices, each with its extents as in a slice spec, `0,4:-`; empty for a tensor that is whole. */
  readonly slices: readonly { readonly extents: string; readonly stored: StoredPlace }[];
}

/** The tensors of a model or checkpoint. */
export interface TensorSource {
  /** All tensors, by key in byte order. No data is read. */
  tensors(): AsyncIterable<TensorInfo>;
  /** One tensor's facts. @throws NotFoundError (`no-such-key`) */
  info(key: string): Promise<TensorInfo>;
  /**
   * The data of a tensor, or of a region of it: row-major, little-endian. A string element is its length as uint64
   * and its bytes. Reading the whole in order verifies it where the format has checksums.
   * @throws NotFoundError (`no-such-key`)
   */
  data(key: string, region?: Region): Promise<ByteSource>;
  /** The ids of an embedding table, ascending. @throws NotFoundError (`no-such-key`) */
  ids?(key: string): Promise<BigInt64Array>;
  /** Rows of an embedding table in the order of `ids`. @throws NotFoundError (`no-such-key`, `no-such-id`) */
  rows?(key: string, ids: BigInt64Array): Promise<ByteSource>;
  /** Where the tensors are stored, in any order; absent where a format has no shards. */
  entries?(): AsyncIterable<StoredTensor>;
  /** The objects that tensors belong to, by their keys, for sharding callbacks; absent where a format has no objects. */
  owners?(): Promise<ReadonlyMap<string, unknown>>;
  /** Texts that the files carry beside their tensors; absent where a format has none. */
  metadata?(): Promise<Readonly<Record<string, string>>>;
  /** Makes sure that the data given out so far matches its checksums. */
  verify(): Promise<void>;
  /** Gives files back. */
  close(): Promise<void>;
}
