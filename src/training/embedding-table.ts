import { UsageError } from "../errors.js";
import { MAX_EMBEDDING_DIM, MAX_EMBEDDING_ROWS } from "../limits.js";
import { hashId, IdIndex, type IdWords } from "./id-index.js";
import { type Id, idWords, toIds } from "./ids.js";
import { parseInitializer, type RowInitializer } from "./initializers.js";
import { makeBlock, type PageNumbers, type ParameterBlock, rowsPerPage } from "./parameter-block.js";
import { RowRandom } from "./random.js";
import type { WriteGuard } from "./write-guard.js";

/** Rows of a block, 4,096; fewer where they would take more than 4 MiB. */
const ROWS_PER_BLOCK = 4096;
const MAX_BLOCK_BYTES = 4 * 1024 * 1024;

/** What an embedding table is. */
export interface EmbeddingTableSpec {
  /** Its name, any text. */
  readonly name: string;
  /** Numbers in a row. */
  readonly dim: number;
  /** How a row begins; see {@link parseInitializer}. */
  readonly initializer: string;
}

/** What a table is made in. */
export interface TableContext {
  readonly pages: PageNumbers;
  readonly guard: WriteGuard;
  /** Values with which the optimizer's slots begin, one a slot. */
  readonly slotValues: readonly number[];
  /** What random rows depend on beside table and id. */
  readonly seed: number;
}

/** Rows in memory that the thread which writes checkpoints sees too. */
export interface TableBlock {
  readonly memory: ParameterBlock;
  /** Values and slots, `rowsPerBlock * dim` numbers each. */
  readonly arrays: readonly Float32Array[];
  /** Ids of the rows: two words each, the low one first. */
  readonly ids: Int32Array;
}

/**
 * The rows of an embedding table, by id: float32, in blocks that never move. A row is made when it is first asked for and
 * stays. A row takes `4 * dim * (1 + slots)` bytes, 8 for its id and 4 to 11 for finding it.
 */
export class LiveEmbeddingTable {
  readonly name: string;
  readonly dim: number;
  readonly initializer: string;
  /** Rows of a block: a power of two. */
  readonly rowsPerBlock: number;
  /** All blocks; the last is filled up to {@link LiveEmbeddingTable.rowCount}. */
  readonly blocks: TableBlock[] = [];
  /** How many rows there are; the next takes this number. */
  rowCount = 0;
  private readonly context: TableContext;
  private readonly shift: number;
  private readonly random: RowRandom;
  private readonly index: IdIndex;
  private fillRow: RowInitializer | undefined;

  /** An empty table. @throws {@link UsageError} (`usage`) for a width that is none */
  constructor(spec: EmbeddingTableSpec, context: TableContext) {
    if (!Number.isInteger(spec.dim) || spec.dim < 1 || spec.dim > MAX_EMBEDDING_DIM) {
      throw new UsageError("usage", `width of embedding table "${spec.name}"`, {
        expected: `1 to ${MAX_EMBEDDING_DIM}`,
        actual: spec.dim,
      });
    }
    this.name = spec.name;
    this.dim = spec.dim;
    this.initializer = spec.initializer;
    this.context = context;
    let rows = ROWS_PER_BLOCK;
    while (rows > 1 && rows * spec.dim * 4 > MAX_BLOCK_BYTES) rows /= 2;
    this.rowsPerBlock = rows;
    this.shift = Math.log2(rows);
    this.random = new RowRandom(context.seed, spec.name);
    this.index = new IdIndex(this.wordsOfRows());
  }

  /** The number of an id's row, or -1. */
  findRow(low: number, high: number): number {
    return this.index.find(low, high);
  }

  /** The number of an id's row, made by the initializer when there is none. @throws {@link UsageError} (`unknown-initializer`) */
  ensureRow(low: number, high: number): number {
    const found = this.index.find(low, high);
    if (found >= 0) return found;
    this.fillRow ??= parseInitializer(this.initializer, this.dim);
    const row = this.appendRow(low, high);
    const start = this.offsetOf(row);
    this.random.startRow(low, high);
    this.fillRow(this.arraysOf(row)[0] as Float32Array, start, start + this.dim, this.random);
    return row;
  }

  /** Numbers of the rows of these ids, each made when there is none, into `rows`. */
  ensureRows(ids: BigInt64Array, rows: Int32Array): void {
    const words = idWords(ids);
    for (let i = 0; i < ids.length; i++) rows[i] = this.ensureRow(words[2 * i] as number, words[2 * i + 1] as number);
  }

  /** The row of an id, for a look: a copy. It is made when there is none. */
  row(id: Id): Float32Array {
    const [low, high] = idWords(toIds([id])) as unknown as [number, number];
    const row = this.ensureRow(low, high);
    const start = this.offsetOf(row);
    return (this.arraysOf(row)[0] as Float32Array).slice(start, start + this.dim);
  }

  /** Sets the values of a row: `dim` numbers of `values` from `start`. The row is made when there is none. */
  setRow(low: number, high: number, values: Float32Array, start: number): number {
    let row = this.index.find(low, high);
    if (row < 0) row = this.appendRow(low, high);
    else this.beforeWrite(row);
    const target = this.arraysOf(row)[0] as Float32Array;
    const to = this.offsetOf(row);
    for (let i = 0; i < this.dim; i++) target[to + i] = values[start + i] as number;
    return row;
  }

  /** Must be called before a row's values or slots change. */
  beforeWrite(row: number): void {
    const { guard } = this.context;
    if (!guard.isActive) return;
    const { memory } = this.blocks[row >>> this.shift] as TableBlock;
    const start = this.offsetOf(row) * 4;
    guard.beforeWrite(memory, start, start + this.dim * 4);
  }

  /** Values and slots of the block a row is in. */
  arraysOf(row: number): readonly Float32Array[] {
    return (this.blocks[row >>> this.shift] as TableBlock).arrays;
  }

  /** Where in these arrays a row begins. */
  offsetOf(row: number): number {
    return (row & (this.rowsPerBlock - 1)) * this.dim;
  }

  /** Adds a row of zeros, with its slots at their first values. */
  private appendRow(low: number, high: number): number {
    if (this.rowCount >= MAX_EMBEDDING_ROWS) {
      throw new UsageError("limit", `too many rows in "${this.name}"`, { actual: this.rowCount });
    }
    const row = this.rowCount++;
    const at = row & (this.rowsPerBlock - 1);
    if (at === 0) this.blocks.push(this.makeBlock());
    const { ids } = this.blocks[row >>> this.shift] as TableBlock;
    ids[2 * at] = low;
    ids[2 * at + 1] = high;
    this.index.add(row);
    return row;
  }

  private makeBlock(): TableBlock {
    const { pages, slotValues } = this.context;
    const rowBytes = this.dim * 4;
    const memory = makeBlock(pages, {
      byteLength: this.rowsPerBlock * rowBytes,
      pageBytes: Math.min(rowsPerPage(rowBytes), this.rowsPerBlock) * rowBytes,
      arrayCount: 1 + slotValues.length,
    });
    const arrays = memory.arrays.map((array) => new Float32Array(array));
    slotValues.forEach((value, slot) => {
      if (value !== 0) arrays[slot + 1]?.fill(value);
    });
    return { memory, arrays, ids: new Int32Array(new SharedArrayBuffer(8 * this.rowsPerBlock)) };
  }

  private wordsOfRows(): IdWords {
    const { blocks, shift } = this;
    const mask = this.rowsPerBlock - 1;
    return {
      hasId: (row, low, high) => {
        const { ids } = blocks[row >>> shift] as TableBlock;
        const at = 2 * (row & mask);
        return ids[at] === low && ids[at + 1] === high;
      },
      hashOf: (row) => {
        const { ids } = blocks[row >>> shift] as TableBlock;
        const at = 2 * (row & mask);
        return hashId(ids[at] as number, ids[at + 1] as number);
      },
    };
  }
}
