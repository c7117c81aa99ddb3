import type { ByteSource } from "../../bytes/byte-source.js";
import type { DType } from "../../tensor/dtype.js";
import type { Shape } from "../../tensor/shape.js";
import type { TrainingState } from "./model-contents.js";

/** What a shard says of an embedding table, beside its rows. */
export interface TableInfo {
  readonly name: string;
  readonly dim: number;
  readonly initializer: string;
  /** Undefined where it is not told: in the older message. */
  readonly dtype: DType | undefined;
}

/** Where a tensor lies in a shard. */
export interface StoredEntry {
  readonly dtype: DType;
  readonly shape: Shape;
  /** The elements, row-major and little-endian. */
  readonly content: ByteSource;
  /** Indexes of the fields of the file that it is made of. */
  readonly fields: readonly number[];
}

/** The rows of an embedding table in a shard. */
export interface TableEntry extends StoredEntry {
  readonly rowCount: number;
  /** Elements of a row; undefined for an empty table that does not tell. */
  readonly dim: number | undefined;
  /** The ids as varints, one after another. */
  readonly ids: ByteSource;
}

/** A slot of a variable or table. */
export interface SlotEntry extends StoredEntry {
  readonly owner: string;
  readonly name: string;
  readonly isEmbedding: boolean;
}

/** What is in a shard, and where. */
export interface ShardCatalog {
  readonly modelVersion: number;
  readonly infos: ReadonlyMap<string, TableInfo>;
  readonly dense: ReadonlyMap<string, StoredEntry>;
  readonly tables: ReadonlyMap<string, TableEntry>;
  readonly slots: readonly SlotEntry[];
  readonly state: TrainingState;
}
