import { BaseSource } from "./byte-source.js";

/** A few bytes, repeated again and again, as a source of any size. */
export class RepeatedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly unit: Uint8Array;

  /** `unit` repeated up to `size` bytes. */
  constructor(name: string, unit: Uint8Array, size: number) {
    super();
    this.name = name;
    this.unit = unit;
    this.size = size;
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    const { unit } = this;
    const first = Math.min(unit.length, target.length);
    for (let i = 0; i < first; i++) target[i] = unit[(offset + i) % unit.length] as number;
    // What is there is doubled until the target is full.
    for (let done = first; done < target.length; done *= 2)
      target.copyWithin(done, 0, Math.min(done, target.length - done));
  }
}
