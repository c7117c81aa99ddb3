import type { ByteSink } from "../bytes/byte-sink.js";
import { encodedIdsLength, encodeIds } from "../formats/elasticdl/id-codec.js";
import {
  planDense,
  planHeader,
  planInfo,
  planSlot,
  planState,
  planTable,
  planVersion,
} from "../formats/elasticdl/shard-encoding.js";
import { ShardWriter } from "../formats/elasticdl/shard-writer.js";
import type { ParameterBlock } from "./parameter-block.js";
import type { ShardTarget, Snapshot, SnapshotTable } from "./snapshot.js";
import { readPage } from "./snapshot-pages.js";

/** Bytes that are copied and written at a time, 256 KiB, unless a page is larger. */
const PIECE_BYTES = 256 * 1024;

/** What {@link writeSnapshot} needs of its thread. */
export interface SnapshotReader {
  /** An image that the training thread has put aside. */
  imageAt(image: number, byteLength: number): Uint8Array;
  /** Is awaited after each piece, so that the training thread gets its share of the machine. */
  rest(): Promise<void>;
}

/** A part of an array: the bytes from its start on. */
interface ArrayPart {
  readonly block: ParameterBlock;
  /** Which array: 0 the values, then the slots. */
  readonly array: number;
  readonly byteLength: number;
}

/** Writes the shard of a snapshot to a sink, which the caller closes. @throws LimitError (`limit`) */
export async function writeSnapshot(
  sink: ByteSink,
  snapshot: Snapshot,
  { psId, psNum }: ShardTarget,
  reader: SnapshotReader,
): Promise<void> {
  const writer = new ShardWriter(sink);
  const state = {
    integers: new Map(snapshot.integers),
    numbers: new Map(snapshot.numbers),
    texts: new Map(snapshot.texts),
  };
  await writer.add(planHeader({ psId, psNum }));
  const version = planVersion(snapshot.modelVersion);
  if (version !== undefined) await writer.add(version);
  for (const { name, dim, initializer } of snapshot.tables) {
    await writer.add(planInfo({ name, dim, initializer, dtype: "float32" }));
  }
  const pieces = new PieceWriter(writer, snapshot, reader);
  for (const { name, dtype, shape, memory } of snapshot.dense) {
    await writer.begin(planDense(name, dtype, shape));
    await pieces.write([{ block: memory, array: 0, byteLength: memory.byteLength }]);
    await writer.end();
  }
  for (const table of snapshot.tables) await writeTable(writer, pieces, table);
  await writeSlots(writer, pieces, snapshot);
  await writer.add(planState(state));
  await writer.finish();
}

async function writeTable(writer: ShardWriter, pieces: PieceWriter, table: SnapshotTable): Promise<void> {
  const { name, dim, rowCount } = table;
  const ids = idsOf(table);
  const idBytes = ids.reduce((sum, list) => sum + encodedIdsLength(list), 0);
  await writer.begin(planTable({ name, dtype: "float32", dim, rowCount, idBytes }));
  await pieces.write(rowParts(table, 0));
  for (const list of ids) await writer.write(encodeIds(list));
  await writer.end();
}

async function writeSlots(writer: ShardWriter, pieces: PieceWriter, snapshot: Snapshot): Promise<void> {
  for (const [index, name] of snapshot.slotNames.entries()) {
    for (const { name: owner, dtype, shape, memory } of snapshot.dense) {
      if (memory.arrays.length === 1) continue;
      await writer.begin(planSlot({ owner, name, isEmbedding: false, dtype, shape }));
      await pieces.write([{ block: memory, array: index + 1, byteLength: memory.byteLength }]);
      await writer.end();
    }
    for (const table of snapshot.tables) {
      const shape = [table.rowCount, table.dim];
      await writer.begin(planSlot({ owner: table.name, name, isEmbedding: true, dtype: "float32", shape }));
      await pieces.write(rowParts(table, index + 1));
      await writer.end();
    }
  }
}

/** The ids of the rows, block by block; those of rows that came later are left out. */
function idsOf({ blocks, rowCount, rowsPerBlock }: SnapshotTable): BigInt64Array[] {
  return blocks.slice(0, Math.ceil(rowCount / rowsPerBlock)).map(({ ids }, index) => {
    const count = Math.min(rowsPerBlock, rowCount - index * rowsPerBlock);
    return new BigInt64Array(ids.buffer, 0, count);
  });
}

function rowParts({ blocks, rowCount, rowsPerBlock, dim }: SnapshotTable, array: number): ArrayPart[] {
  return blocks.slice(0, Math.ceil(rowCount / rowsPerBlock)).map(({ memory }, index) => {
    return { block: memory, array, byteLength: Math.min(rowsPerBlock, rowCount - index * rowsPerBlock) * dim * 4 };
  });
}

/** Copies pages one behind another into pieces, and writes these. */
class PieceWriter {
  private readonly writer: ShardWriter;
  private readonly snapshot: Snapshot;
  private readonly reader: SnapshotReader;
  private piece = new Uint8Array(PIECE_BYTES);
  private filled = 0;

  constructor(writer: ShardWriter, snapshot: Snapshot, reader: SnapshotReader) {
    this.writer = writer;
    this.snapshot = snapshot;
    this.reader = reader;
  }

  async write(parts: readonly ArrayPart[]): Promise<void> {
    for (const part of parts) {
      const { pageBytes } = part.block;
      for (let from = 0; from < part.byteLength; from += pageBytes) {
        if (this.filled + pageBytes > this.piece.length) await this.flush(pageBytes);
        this.copy(part, from);
      }
    }
    await this.flush(0);
  }

  /** Copies the page that begins at `from`, as far as it belongs to the part. */
  private copy({ block, array, byteLength }: ArrayPart, from: number): void {
    const { arrays, pageBytes, pageCount, firstPage } = block;
    const page = firstPage + array * pageCount + from / pageBytes;
    const length = Math.min(pageBytes, block.byteLength - from);
    const bytes = new Uint8Array(arrays[array] as SharedArrayBuffer, from, length);
    readPage(this.snapshot.pages, page, bytes, this.piece, this.filled, this.reader.imageAt);
    this.filled += Math.min(length, byteLength - from);
  }

  private async flush(neededBytes: number): Promise<void> {
    if (this.filled > 0) {
      await this.writer.write(this.piece.subarray(0, this.filled));
      this.filled = 0;
      await this.reader.rest();
    }
    if (this.piece.length < neededBytes) this.piece = new Uint8Array(neededBytes);
  }
}
