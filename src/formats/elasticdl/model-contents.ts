import type { ByteSource } from "../../bytes/byte-source.js";
import type { DType } from "../../tensor/dtype.js";
import type { Shape } from "../../tensor/shape.js";

/** A tensor whose data is read when it is asked for. */
export interface StoredTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Row-major, little-endian. Reading all of it in order verifies it where there are checksums. */
  data(): ByteSource;
}

/** A dense variable, and what an optimizer keeps beside it, by the optimizer's words. */
export interface DenseVariable extends StoredTensor {
  readonly name: string;
  /** The name of the file that it stands in. */
  readonly shard?: string | undefined;
  readonly slots: ReadonlyMap<string, StoredTensor>;
}

/** The rows of an embedding table that stand in one place, in the order of their ids. */
export interface EmbeddingRows {
  readonly rowCount: number;
  /** The ids, in batches of at most `limit`. @throws CorruptionError (`invalid-wire`, `tensor-data`) */
  idBatches(limit: number): AsyncIterable<BigInt64Array>;
  /** The rows, [rowCount, dim]. */
  data(): ByteSource;
  /** What an optimizer keeps beside the rows: [rowCount, …]. */
  readonly slots: ReadonlyMap<string, StoredTensor>;
}

/** What a slot of an embedding table keeps for each row. */
export interface RowSlot {
  readonly name: string;
  readonly dtype: DType;
  /** The shape of one row's share. */
  readonly rowShape: Shape;
}

/** An embedding table: vectors of `dim` elements, each under an id. */
export interface EmbeddingTable {
  readonly name: string;
  readonly dim: number;
  readonly dtype: DType;
  /** How a row that is not there begins: `uniform`, `zeros`, any text. */
  readonly initializer: string;
  readonly parts: readonly EmbeddingRows[];
  /** Slots that every part with rows has. */
  readonly slots: readonly RowSlot[];
}

/** What a parameter server knows beside its tensors. */
export interface TrainingState {
  /** Step counters. */
  readonly integers: ReadonlyMap<string, bigint>;
  /** The state of the learning rate, and the like. */
  readonly numbers: ReadonlyMap<string, number>;
  /** The place in the data, and the like. */
  readonly texts: ReadonlyMap<string, string>;
}

/** A model with its training state, wherever it comes from. Nothing of the data is in memory. */
export interface ModelContents {
  readonly modelVersion: number;
  readonly dense: readonly DenseVariable[];
  readonly tables: readonly EmbeddingTable[];
  /** By parameter server. */
  readonly states: readonly TrainingState[];
}

/** No training state. */
export const NO_STATE: TrainingState = { integers: new Map(), numbers: new Map(), texts: new Map() };

/** Whether there is nothing in a training state. */
export function isEmptyState({ integers, numbers, texts }: TrainingState): boolean {
  return integers.size + numbers.size + texts.size === 0;
}

/**
 * The state for server `psId` of `psNum`, from those of other servers: its own where there are as many, else that of all
 * together: the largest of each integer, and each number and text from the first server that has it.
 */
export function stateFor(states: readonly TrainingState[], psId: number, psNum: number): TrainingState {
  if (states.length === psNum) return states[psId] ?? NO_STATE;
  const integers = new Map<string, bigint>();
  const numbers = new Map<string, number>();
  const texts = new Map<string, string>();
  for (const state of states) {
    for (const [name, value] of state.integers) {
      const known = integers.get(name);
      if (known === undefined || value > known) integers.set(name, value);
    }
    for (const [name, value] of state.numbers) if (!numbers.has(name)) numbers.set(name, value);
    for (const [name, value] of state.texts) if (!texts.has(name)) texts.set(name, value);
  }
  return { integers, numbers, texts };
}
