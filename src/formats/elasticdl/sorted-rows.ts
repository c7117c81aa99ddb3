import { BaseSource, type ByteSource } from "../../bytes/byte-source.js";

/** Rows that are gathered at once take so many bytes, 32 MiB: the source is passed over once for each. */
const BLOCK_BYTES = 32 * 1024 * 1024;
/** And are at most so many, 2^20. */
const BLOCK_ROWS = 2 ** 20;
/** Rows that are so near are read together, 16 KiB. */
const GAP_BYTES = 16 * 1024;
/** Bytes that are read at once, 4 MiB. */
const READ_BYTES = 4 * 1024 * 1024;

/** Rows in several places. */
export interface RowParts {
  readonly rowBytes: number;
  /** The rows of each part. */
  readonly parts: readonly { readonly rowCount: number; readonly data: ByteSource }[];
}

/**
 * Rows of a table in another order than they are stored in, as a source. They are gathered in blocks, each read in the
 * order of the files, so that random order costs one pass over the table for each 32 MiB and not one read for each row.
 */
export class OrderedRows extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly table: RowParts;
  private readonly order: Uint32Array;
  private readonly starts: number[] = [];
  private readonly blockRows: number;
  private block = -1;
  private gathering: Promise<Uint8Array> | undefined;

  /** The rows with these numbers, counted over the parts, in this order. */
  constructor(name: string, table: RowParts, order: Uint32Array) {
    super();
    this.name = name;
    this.table = table;
    this.order = order;
    this.size = order.length * table.rowBytes;
    this.blockRows = Math.max(1, Math.min(BLOCK_ROWS, Math.floor(BLOCK_BYTES / Math.max(1, table.rowBytes))));
    let start = 0;
    for (const { rowCount } of table.parts) {
      this.starts.push(start);
      start += rowCount;
    }
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    const blockBytes = this.blockRows * this.table.rowBytes;
    let done = 0;
    while (done < target.length) {
      const block = Math.floor((offset + done) / blockBytes);
      const from = offset + done - block * blockBytes;
      if (
        target.length - done < blockBytes / 64 &&
        this.size > blockBytes &&
        this.block !== block &&
        from % this.table.rowBytes === 0
      ) {
        // A small read in a large table is not worth a block.
        const few = await this.gather(
          (offset + done) / this.table.rowBytes,
          Math.ceil((target.length - done) / this.table.rowBytes),
        );
        target.set(few.subarray(0, target.length - done), done);
        return;
      }
      const bytes = await this.blockAt(block);
      const count = Math.min(bytes.length - from, target.length - done);
      target.set(bytes.subarray(from, from + count), done);
      done += count;
    }
  }

  private blockAt(block: number): Promise<Uint8Array> {
    if (this.block === block && this.gathering !== undefined) return this.gathering;
    const first = block * this.blockRows;
    const gathering = this.gather(first, Math.min(this.blockRows, this.order.length - first));
    gathering.catch(() => {
      if (this.gathering === gathering) this.block = -1;
    });
    this.block = block;
    this.gathering = gathering;
    return gathering;
  }

  private async gather(first: number, count: number): Promise<Uint8Array> {
    const { rowBytes, parts } = this.table;
    const gathered = new Uint8Array(count * rowBytes);
    const places = sortedPlaces(this.order.subarray(first, first + count));
    let at = 0;
    let part = 0;
    while (at < count) {
      const row = rowOf(places[at] as number);
      while (part + 1 < parts.length && row >= (this.starts[part + 1] as number)) part++;
      const { rowCount, data } = parts[part] as RowParts["parts"][number];
      const start = this.starts[part] as number;
      const end = this.endOfRun(places, at, start + rowCount);
      const lastRow = rowOf(places[end - 1] as number);
      const bytes = await data.read((row - start) * rowBytes, (lastRow - row + 1) * rowBytes);
      for (; at < end; at++) {
        const from = (rowOf(places[at] as number) - row) * rowBytes;
        gathered.set(bytes.subarray(from, from + rowBytes), placeOf(places[at] as number) * rowBytes);
      }
    }
    return gathered;
  }

  /** How many rows from `at` on are read together. */
  private endOfRun(places: Float64Array, at: number, partEnd: number): number {
    const { rowBytes } = this.table;
    const first = rowOf(places[at] as number);
    let end = at + 1;
    for (; end < places.length; end++) {
      const row = rowOf(places[end] as number);
      const gap = (row - rowOf(places[end - 1] as number) - 1) * rowBytes;
      if (row >= partEnd || gap > GAP_BYTES || (row - first + 1) * rowBytes > READ_BYTES) break;
    }
    return end;
  }
}

/** Rows of a block with their places in it, by row. Both stand in one number: rows are below 2^32, places below 2^20. */
function sortedPlaces(rows: Uint32Array): Float64Array {
  const places = new Float64Array(rows.length);
  for (let place = 0; place < rows.length; place++) places[place] = (rows[place] as number) * BLOCK_ROWS + place;
  return places.sort();
}

function rowOf(place: number): number {
  return Math.floor(place / BLOCK_ROWS);
}

function placeOf(place: number): number {
  return place % BLOCK_ROWS;
}
