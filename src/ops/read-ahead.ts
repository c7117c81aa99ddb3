import type { ByteSource } from "../bytes/byte-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";

/** Tensors up to this are read ahead, 256 KiB. Larger ones take their time in reading itself. */
const SMALL_BYTES = 256 * 1024;
/** How many are read at a time. */
const TENSORS_AHEAD = 32;

/**
 * Reads small tensors before they are asked for, while they are asked for in a known order. One at a time, they would
 * wait for the system more than for the disk.
 */
export class ReadAhead {
  private readonly source: TensorSource;
  private readonly infos: readonly TensorInfo[];
  private readonly places: ReadonlyMap<string, number>;
  private readonly begun = new Map<string, Promise<ByteSource>>();
  private next = 0;

  /** `infos` are the tensors in the order in which they will be asked for; more or less. */
  constructor(source: TensorSource, infos: readonly TensorInfo[]) {
    this.source = source;
    this.infos = infos;
    this.places = new Map(infos.map(({ key }, i) => [key, i]));
  }

  /** The data of a tensor. */
  async data(key: string): Promise<ByteSource> {
    const place = this.places.get(key) ?? 0;
    // Asked for out of order, the others begun are not waited for any more than before.
    if (place >= this.next || place + TENSORS_AHEAD < this.next) this.begin(place);
    const begun = this.begun.get(key);
    this.begun.delete(key);
    return begun ?? this.source.data(key);
  }

  private begin(place: number): void {
    this.begun.clear();
    this.next = Math.min(place + TENSORS_AHEAD, this.infos.length);
    for (const info of this.infos.slice(place, this.next)) {
      if (info.byteLength > SMALL_BYTES || info.dtype === "string" || info.dtype === "variant") continue;
      const reading = this.read(info.key);
      // It fails when it is asked for, or not at all.
      reading.catch(() => {});
      this.begun.set(info.key, reading);
    }
  }

  private async read(key: string): Promise<ByteSource> {
    const data = await this.source.data(key);
    return new MemorySource(await data.read(0, data.size), data.name);
  }
}
