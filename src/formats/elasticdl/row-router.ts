import type { ByteSource } from "../../bytes/byte-source.js";
import { partitionIds } from "./partition.js";
import type { TablePlan } from "./table-plan.js";

/** Bytes of rows that are read at once, 256 KiB. */
const BATCH_BYTES = 256 * 1024;

/** Rows on their way to one server. */
export interface RowBuffer {
  readonly bytes: Uint8Array;
  /** Bytes that are filled. */
  filled: number;
  /** Takes what is filled when there is no more room; absent where there is room for all. */
  readonly flush?: (bytes: Uint8Array) => Promise<void>;
}

/** Bytes that a {@link RowBuffer} with `flush` has to have: those of two batches. */
export function rowBufferBytes(rowBytes: number): number {
  return 2 * Math.max(BATCH_BYTES, rowBytes);
}

/** What {@link routeRows} is to do. */
export interface RouteOptions {
  readonly plan: TablePlan;
  readonly psNum: number;
  /** Bytes of one row. */
  readonly rowBytes: number;
  /** The rows of each part: those of the table, or those of a slot. */
  readonly data: (partIndex: number) => ByteSource;
  /** Where the rows of a server go; undefined for servers that are not asked for. */
  readonly buffers: readonly (RowBuffer | undefined)[];
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads the rows of a table once, in order, and hands each to the server that it belongs to. */
export async function routeRows(options: RouteOptions): Promise<void> {
  const { plan, psNum, rowBytes, buffers, onBytes, signal } = options;
  if (rowBytes === 0) return;
  const limit = Math.max(1, Math.floor(BATCH_BYTES / rowBytes));
  let rowsBefore = 0;
  for (const [index, part] of plan.table.parts.entries()) {
    const data = options.data(index);
    for await (const { ids, firstRow } of plan.ids.batches(part, limit)) {
      signal?.throwIfAborted();
      const rows = await data.read(firstRow * rowBytes, ids.length * rowBytes);
      for (const buffer of buffers) if (buffer !== undefined) await makeRoom(buffer, rows.length);
      scatter(rows, rowBytes, {
        owners: partitionIds(ids, psNum),
        buffers,
        dropped: plan.dropped,
        firstRow: rowsBefore + firstRow,
      });
      onBytes?.(rows.length);
    }
    rowsBefore += part.rowCount;
  }
  for (const buffer of buffers) if (buffer !== undefined) await makeRoom(buffer, Number.POSITIVE_INFINITY);
}

async function makeRoom(buffer: RowBuffer, byteLength: number): Promise<void> {
  if (buffer.flush === undefined || buffer.filled + byteLength <= buffer.bytes.length || buffer.filled === 0) return;
  await buffer.flush(buffer.bytes.subarray(0, buffer.filled));
  buffer.filled = 0;
}

interface Scattering {
  readonly owners: Uint32Array;
  readonly buffers: readonly (RowBuffer | undefined)[];
  readonly dropped: ReadonlySet<number>;
  readonly firstRow: number;
}

function scatter(rows: Uint8Array, rowBytes: number, { owners, buffers, dropped, firstRow }: Scattering): void {
  for (let i = 0; i < owners.length; i++) {
    const buffer = buffers[owners[i] as number];
    if (buffer === undefined || (dropped.size > 0 && dropped.has(firstRow + i))) continue;
    // Neighbours that go the same way are copied together.
    let end = i + 1;
    if (dropped.size === 0) while (end < owners.length && owners[end] === owners[i]) end++;
    buffer.bytes.set(rows.subarray(i * rowBytes, end * rowBytes), buffer.filled);
    buffer.filled += (end - i) * rowBytes;
    i = end - 1;
  }
}
