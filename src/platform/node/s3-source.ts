import { BaseSource, type ReadOptions } from "../../bytes/byte-source.js";
import { PassingFailure, withRetries } from "../../bytes/retry.js";
import { isCairnError, StorageError, TruncatedError } from "../../errors.js";
import { failureOf, type LoadedS3, parseS3Path, s3Error } from "./s3-client.js";

/** An object as it was when it was opened. */
export interface S3Object {
  readonly path: string;
  readonly size: number;
  readonly etag: string | undefined;
  /** The first bytes, as many as were asked for or as there are. */
  readonly head: Uint8Array;
}

/**
 * Asks for the first bytes of an object, which tells its size.
 * @throws NotFoundError (`not-found`), {@link StorageError} (`read-failed`)
 */
export async function probeObject({ s3, client }: LoadedS3, path: string, headBytes: number): Promise<S3Object> {
  const { bucket, key } = parseS3Path(path);
  try {
    const command = new s3.GetObjectCommand({ Bucket: bucket, Key: key, Range: `bytes=0-${headBytes - 1}` });
    const answer = await client.send(command);
    const head = (await answer.Body?.transformToByteArray()) ?? new Uint8Array(0);
    const size = Number(/\/(\d+)$/.exec(answer.ContentRange ?? "")?.[1] ?? answer.ContentLength ?? head.length);
    if (head.length === Math.min(size, headBytes)) return { path, size, etag: answer.ETag, head };
    throw new TruncatedError("truncated", "the store ended its answer too early", { file: path, actual: head.length });
  } catch (cause) {
    // No byte of an empty object can be asked for.
    if (failureOf(cause).status !== 416) throw s3Error(cause, path, "read");
    return { path, size: 0, etag: undefined, head: new Uint8Array(0) };
  }
}

/** An object as a source; when it is not what it was when it was opened, reading is an error (`file-changed`). */
export class S3Source extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly loaded: LoadedS3;
  private readonly object: S3Object;
  private readonly onChange: () => void;

  /** Reads `object`; `onChange` is called when it is not what it was. */
  constructor(loaded: LoadedS3, object: S3Object, onChange: () => void) {
    super();
    this.loaded = loaded;
    this.object = object;
    this.name = object.path;
    this.size = object.size;
    this.onChange = onChange;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    let done = 0;
    await withRetries({}, options?.signal, async () => {
      const take = (piece: Uint8Array) => {
        if (done + piece.length > target.length) throw this.tooMuch(offset);
        target.set(piece, done);
        done += piece.length;
      };
      await this.fetchPart(offset + done, target.length - done, take, options?.signal);
      if (done < target.length) throw new PassingFailure(this.cutShort(offset, target.length, done));
    });
  }

  /** Asks for a range once. The client itself tries again what fails before the first byte. */
  private async fetchPart(
    offset: number,
    length: number,
    take: (piece: Uint8Array) => void,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { s3, client } = this.loaded;
    const { bucket, key } = parseS3Path(this.name);
    const range = `bytes=${offset}-${offset + length - 1}`;
    const command = new s3.GetObjectCommand({ Bucket: bucket, Key: key, Range: range, IfMatch: this.object.etag });
    let hasBegun = false;
    try {
      const answer = await client.send(command, signal === undefined ? {} : { abortSignal: signal });
      hasBegun = true;
      this.checkRange(answer.ContentRange, offset, length);
      for await (const piece of answer.Body as AsyncIterable<Uint8Array>) take(piece);
    } catch (cause) {
      signal?.throwIfAborted();
      const error = s3Error(cause, this.name, "read");
      if (isCairnError(error, "file-changed") || isCairnError(error, "not-found")) this.onChange();
      throw hasBegun && error !== cause && error instanceof StorageError ? new PassingFailure(error) : error;
    }
  }

  private checkRange(contentRange: string | undefined, offset: number, length: number): void {
    const expected = `bytes ${offset}-${offset + length - 1}/${this.size}`;
    if (contentRange === expected) return;
    const what = "the store answered with another range than was asked for";
    throw new StorageError("read-failed", what, { file: this.name, offset, expected, actual: contentRange ?? "none" });
  }

  private tooMuch(offset: number): StorageError {
    return new StorageError("read-failed", "the store sent more bytes than it announced", { file: this.name, offset });
  }

  private cutShort(offset: number, expected: number, actual: number): TruncatedError {
    const details = { file: this.name, offset, expected: `${expected} bytes`, actual: `${actual} bytes` };
    return new TruncatedError("truncated", "the store ended its answer too early", details);
  }
}
