import { BaseSource, type OpenedSource, type ReadOptions } from "../../bytes/byte-source.js";
import { StorageError } from "../../errors.js";

/** The bytes of a file that was chosen or dropped, or of any Blob. A read takes only what is asked for. */
export class BlobSource extends BaseSource implements OpenedSource {
  readonly name: string;
  readonly size: number;
  private readonly blob: Blob;

  /** Wraps a Blob under the name that errors print. */
  constructor(name: string, blob: Blob) {
    super();
    this.name = name;
    this.size = blob.size;
    this.blob = blob;
  }

  /** There is nothing to give back. */
  async close(): Promise<void> {}

  /** See {@link BaseSource}. @throws {@link StorageError} (`read-failed`, `file-changed`) */
  protected override async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await this.blob.slice(offset, offset + target.length).arrayBuffer());
    } catch (cause) {
      // A browser refuses to read a file that is not what it was when it was chosen.
      throw new StorageError("read-failed", "the browser cannot read the file", {
        file: this.name,
        offset,
        cause,
        hint: "Choose or drop it again: it may have changed or moved.",
      });
    }
    options?.signal?.throwIfAborted();
    if (bytes.length !== target.length) {
      throw new StorageError("file-changed", "the file is shorter than it was", {
        file: this.name,
        offset,
        expected: `${target.length} bytes`,
        actual: `${bytes.length} bytes`,
      });
    }
    target.set(bytes);
  }
}

/** A file that was chosen or dropped, as a source of bytes. */
export function fileSource(file: Blob & { readonly name?: string }): BlobSource {
  return new BlobSource(file.name ?? "blob", file);
}
