import { CorruptionError } from "../errors.js";

/**
 * Follows a Zstandard frame by its headers and finds where it ends. Some decoders take bytes behind the frame for the
 * begin of another and do not complain; a buffer of Riegeli is one frame and nothing else.
 * Source: RFC 8878, sections 3.1.1 (frame) and 3.1.1.2 (blocks).
 */
export class ZstdFrameEnd {
  /** Bytes to go over before the next header is read. */
  private skip = 0;
  private state: "magic" | "block" | "done" = "magic";
  private readonly pending: number[] = [];
  private hasChecksum = false;
  private isLastBlock = false;

  /** Goes over the next bytes. @throws {@link CorruptionError} (`decompression`) for bytes behind the frame */
  take(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      const skipped = Math.min(this.skip, bytes.length - at);
      this.skip -= skipped;
      at += skipped;
      if (at === bytes.length) break;
      if (this.isLastBlock) this.state = "done";
      if (this.state === "done") throw corrupt("has bytes behind its end");
      this.pending.push(bytes[at++] as number);
      this.readHeader();
    }
  }

  /** @throws {@link CorruptionError} (`decompression`) when the frame has not ended */
  finish(): void {
    if (this.skip > 0 || !this.isLastBlock) throw corrupt("ends early");
  }

  private readHeader(): void {
    const { pending } = this;
    if (this.state === "magic") {
      if (pending.length < 5) return;
      const magic = [0x28, 0xb5, 0x2f, 0xfd];
      if (magic.some((byte, i) => pending[i] !== byte)) throw corrupt("has another magic number");
      const descriptor = pending[4] as number;
      const isSingleSegment = (descriptor & 0x20) !== 0;
      const contentSize = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
      const dictionarySize = [0, 1, 2, 4][descriptor & 3] as number;
      this.hasChecksum = (descriptor & 4) !== 0;
      this.skip = (isSingleSegment ? 0 : 1) + dictionarySize + contentSize;
      this.state = "block";
    } else {
      if (pending.length < 3) return;
      const header = (pending[0] as number) | ((pending[1] as number) << 8) | ((pending[2] as number) << 16);
      const type = (header >> 1) & 3;
      if (type === 3) throw corrupt("has a block of reserved type");
      this.isLastBlock = (header & 1) !== 0;
      this.skip = (type === 1 ? 1 : header >> 3) + (this.isLastBlock && this.hasChecksum ? 4 : 0);
    }
    pending.length = 0;
  }
}

function corrupt(what: string): CorruptionError {
  return new CorruptionError("decompression", `zstd frame ${what}`);
}
