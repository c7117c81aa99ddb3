/** Bytes of a part of the pool, 1 MiB; a larger image has a part of its own. */
const PART_BYTES = 2 ** 20;

/** Images begin at multiples of 16 bytes, so that a part's number and a place in it fit 32 bits. */
const UNIT_BYTES = 16;
const UNITS_PER_PART = PART_BYTES / UNIT_BYTES;

/** Memory that is kept from one snapshot to the next, 64 MiB. */
const MAX_KEPT_PARTS = 64;

/** Images of pages as they were when a snapshot was taken, in memory that the writing thread sees. */
export class ImagePool {
  private readonly parts: SharedArrayBuffer[] = [];
  private readonly onPart: (number: number, memory: SharedArrayBuffer | undefined) => void;
  private part = -1;
  private used = 0;

  /** An empty pool; `onPart` is told of each part that is made, before an image is in it, and of each given up. */
  constructor(onPart: (number: number, memory: SharedArrayBuffer | undefined) => void) {
    this.onPart = onPart;
  }

  /** Copies bytes and gives the number by which {@link placeOfImage} finds them. */
  save(bytes: Uint8Array): number {
    const room = this.parts[this.part]?.byteLength ?? 0;
    if (this.used + bytes.length > room) this.nextPart(bytes.length);
    const at = this.used;
    new Uint8Array(this.parts[this.part] as SharedArrayBuffer, at, bytes.length).set(bytes);
    this.used += roundUp(bytes.length);
    return this.part * UNITS_PER_PART + at / UNIT_BYTES;
  }

  /** Gives the last image's room back. */
  takeBack(byteLength: number): void {
    this.used -= roundUp(byteLength);
  }

  /** Forgets all images. */
  clear(): void {
    while (this.parts.length > MAX_KEPT_PARTS) {
      this.parts.pop();
      this.onPart(this.parts.length, undefined);
    }
    this.part = -1;
    this.used = 0;
  }

  private nextPart(byteLength: number): void {
    this.used = 0;
    do this.part++;
    while ((this.parts[this.part]?.byteLength ?? Number.POSITIVE_INFINITY) < byteLength);
    if (this.parts[this.part] !== undefined) return;
    const memory = new SharedArrayBuffer(Math.max(PART_BYTES, byteLength));
    this.parts[this.part] = memory;
    this.onPart(this.part, memory);
  }
}

/** The part of the pool in which an image is, and where. */
export function placeOfImage(image: number): { readonly part: number; readonly offset: number } {
  return { part: Math.floor(image / UNITS_PER_PART), offset: (image % UNITS_PER_PART) * UNIT_BYTES };
}

function roundUp(byteLength: number): number {
  return Math.ceil(byteLength / UNIT_BYTES) * UNIT_BYTES;
}
