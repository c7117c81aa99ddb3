import { type ByteSink, concatBytes } from "../../bytes/byte-sink.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { streamSource } from "../../bytes/copy-source.js";
import { crc32c } from "../../codecs/crc32c.js";
import { LimitError } from "../../errors.js";
import { MAX_SHARD_BYTES } from "../../limits.js";
import { encodeHead } from "../../proto/message-view.js";
import { CHECKSUMS, CHECKSUMS_END_BYTES } from "./shard-checksums.js";
import { type FieldPlan, fieldByteLength } from "./shard-encoding.js";

/** Small writes are gathered up to this, 256 KiB, unless there are many writers. */
const BUFFER_BYTES = 256 * 1024;

/** Bytes of the checksums behind so many fields. */
export function checksumsByteLength(fieldCount: number): number {
  const list = fieldCount === 0 ? 0 : encodeHead(1, 4 * fieldCount).length + 4 * fieldCount;
  return encodeHead(CHECKSUMS, list + CHECKSUMS_END_BYTES).length + list + CHECKSUMS_END_BYTES;
}

/**
 * Writes a shard, field by field: {@link ShardWriter.begin}, the elements and the ids in any number of pieces,
 * {@link ShardWriter.end}. Checksums are summed up on the way and stand at the end.
 */
export class ShardWriter {
  private readonly sink: ByteSink;
  private readonly sums: number[] = [];
  private readonly buffer: Uint8Array;
  private buffered = 0;
  private position = 0;
  private crc = 0;
  private heads = 0;
  private plan: FieldPlan | undefined;
  private left = 0;

  /** Writes to `sink`, which the caller closes after {@link ShardWriter.finish}. */
  constructor(sink: ByteSink, bufferBytes: number = BUFFER_BYTES) {
    this.sink = sink;
    this.buffer = new Uint8Array(bufferBytes);
  }

  /** Begins a field. @throws {@link LimitError} (`limit`) when the shard gets too large for protobuf */
  async begin(plan: FieldPlan): Promise<void> {
    if (this.plan !== undefined) throw new TypeError("the field before has not ended");
    checkShardSize(this.position + fieldByteLength(plan), this.sink.name);
    this.plan = plan;
    this.crc = crc32c(plan.head);
    this.heads = crc32c(plan.head, this.heads);
    this.left = plan.elementBytes + plan.idBytes;
    await this.put(plan.head);
    if (plan.elementBytes === 0) await this.putMiddle(plan);
  }

  /** Elements, and when they are all there, ids. */
  async write(bytes: Uint8Array): Promise<void> {
    const { plan } = this;
    if (plan === undefined || bytes.length > this.left) throw new TypeError("more bytes than the field has room for");
    const elementsLeft = Math.max(0, this.left - plan.idBytes);
    if (bytes.length > elementsLeft && elementsLeft > 0) throw new TypeError("elements and ids in one piece");
    this.crc = crc32c(bytes, this.crc);
    this.left -= bytes.length;
    await this.put(bytes);
    if (elementsLeft > 0 && elementsLeft === bytes.length) await this.putMiddle(plan);
  }

  /** All elements, or ids, from a source. */
  async writeFrom(source: ByteSource, onBytes?: (count: number) => void, signal?: AbortSignal): Promise<void> {
    for await (const piece of streamSource(source, { onBytes, signal })) await this.write(piece);
  }

  /** Ends a field, all of which has to be there. */
  async end(): Promise<void> {
    if (this.plan === undefined || this.left > 0) throw new TypeError(`${this.left} bytes of the field are missing`);
    this.sums.push(this.crc);
    this.plan = undefined;
  }

  /** A field that has no elements. */
  async add(plan: FieldPlan): Promise<void> {
    await this.begin(plan);
    await this.end();
  }

  /** Writes the checksums. The sink is not closed. @throws {@link LimitError} (`limit`) */
  async finish(): Promise<void> {
    const list = new Uint8Array(4 * this.sums.length);
    const view = new DataView(list.buffer);
    for (const [i, sum] of this.sums.entries()) view.setUint32(4 * i, sum, true);
    const end = new Uint8Array(CHECKSUMS_END_BYTES);
    const endView = new DataView(end.buffer);
    endView.setUint8(0, 0x11);
    endView.setBigUint64(1, BigInt(this.position), true);
    endView.setUint8(9, 0x1d);
    endView.setUint32(10, this.heads, true);
    endView.setUint8(14, 0x25);
    const body = list.length === 0 ? [end] : [encodeHead(1, list.length), list, end];
    const length = body.reduce((sum, piece) => sum + piece.length, 0);
    const field = concatBytes([encodeHead(CHECKSUMS, length), ...body]);
    new DataView(field.buffer).setUint32(field.length - 4, crc32c(field.subarray(0, field.length - 5)), true);
    checkShardSize(this.position + field.length, this.sink.name);
    await this.put(field);
    await this.flush();
  }

  private async putMiddle({ middle }: FieldPlan): Promise<void> {
    if (middle.length === 0) return;
    this.crc = crc32c(middle, this.crc);
    this.heads = crc32c(middle, this.heads);
    await this.put(middle);
  }

  private async put(bytes: Uint8Array): Promise<void> {
    this.position += bytes.length;
    if (this.buffered + bytes.length > this.buffer.length) await this.flush();
    if (bytes.length > this.buffer.length / 4) {
      await this.flush();
      await this.sink.write(bytes);
      return;
    }
    this.buffer.set(bytes, this.buffered);
    this.buffered += bytes.length;
  }

  private async flush(): Promise<void> {
    if (this.buffered > 0) await this.sink.write(this.buffer.subarray(0, this.buffered));
    this.buffered = 0;
  }
}

/** Refuses a shard that protobuf cannot hold. @throws {@link LimitError} (`limit`) */
export function checkShardSize(byteLength: number, file: string, hint?: string): void {
  if (byteLength <= MAX_SHARD_BYTES) return;
  throw new LimitError("limit", "shard of a training checkpoint", {
    file,
    expected: `at most ${MAX_SHARD_BYTES} bytes`,
    actual: byteLength,
    hint: hint ?? "More parameter servers make smaller shards.",
  });
}
