import { readInOrder, type StreamOptions } from "../bytes/copy-source.js";
import { CairnError } from "../errors.js";
import type { TensorSource } from "../tensor/tensor-source.js";

/**
 * Finds out which tensors are damaged, one after another. It has a source of its own, and another after each damaged
 * tensor: what was given out of one cannot be told apart any more when it is verified.
 */
export class DamageCheck {
  private readonly open: () => Promise<TensorSource>;
  private source: TensorSource | undefined;

  /** `open` opens the tensors anew. */
  constructor(open: () => Promise<TensorSource>) {
    this.open = open;
  }

  /** What is wrong with the data of a tensor; undefined when nothing is. Reads all of it. */
  async reason(key: string, options: StreamOptions): Promise<string | undefined> {
    this.source ??= await this.open();
    try {
      await readInOrder(await this.source.data(key), () => {}, options);
      await this.source.verify();
      return undefined;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof CairnError)) throw error;
      await this.close();
      return `damaged: ${error.message}`;
    }
  }

  /** Gives back the files. */
  async close(): Promise<void> {
    await this.source?.close();
    this.source = undefined;
  }
}
