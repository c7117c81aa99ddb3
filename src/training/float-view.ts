/**
 * The floats in bytes of a message: a view where they are aligned, else a copy in `scratch`.
 * Bytes and floats are little-endian here, as on every machine that runs Node.
 */
export function floatsOf(bytes: Uint8Array, scratch: (count: number) => Float32Array): Float32Array {
  const count = bytes.length >>> 2;
  if (bytes.byteOffset % 4 === 0) return new Float32Array(bytes.buffer, bytes.byteOffset, count);
  const copy = scratch(count);
  new Uint8Array(copy.buffer, copy.byteOffset, count * 4).set(bytes);
  return copy;
}

/** Floats for the time of one call; each use begins with {@link FloatScratch.reset}. */
export class FloatScratch {
  private readonly buffers: Float32Array[] = [];
  private used = 0;

  /** All that has been taken may be taken again. */
  reset(): void {
    this.used = 0;
  }

  /** Room for so many floats, aligned, of any content. */
  readonly take = (count: number): Float32Array => {
    const at = this.used++;
    const known = this.buffers[at];
    if (known !== undefined && known.length >= count) return known.subarray(0, count);
    const made = new Float32Array(new ArrayBuffer(4 * count));
    this.buffers[at] = made;
    return made;
  };
}
