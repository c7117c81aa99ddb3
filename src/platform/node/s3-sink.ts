import type { ByteSink } from "../../bytes/byte-sink.js";
import { StorageError } from "../../errors.js";
import { type LoadedS3, parseS3Path, type S3Place, s3Error } from "./s3-client.js";

/** Bytes of a part, 8 MiB; S3 takes no less than 5 MiB. Source: Amazon S3 User Guide, "Multipart upload limits". */
const PART_BYTES = 8 * 1024 * 1024;
/** After so many parts they become twice as large: 10,000 are allowed, which is 8 TB then. */
const PARTS_OF_ONE_SIZE = 1000;
/** Parts that are sent at a time. */
const PARALLEL_PARTS = 4;

/** How an {@link S3Sink} writes. */
export interface S3SinkOptions {
  readonly overwrite: boolean;
  /** Called once the object is there. */
  readonly onDone: () => void;
}

/**
 * Writes an object. A small one is sent as a whole when it is closed, a larger one in parts, which become an object when
 * all are there. Nothing is visible before, and what was sent of an aborted one is removed.
 */
export class S3Sink implements ByteSink {
  readonly name: string;
  position = 0;
  private readonly loaded: LoadedS3;
  private readonly place: S3Place;
  private readonly options: S3SinkOptions;
  private part = new Uint8Array(PART_BYTES);
  private filled = 0;
  private upload: Promise<string> | undefined;
  private readonly etags: string[] = [];
  private partCount = 0;
  private readonly sending = new Set<Promise<void>>();
  private failure: unknown;
  private state: "open" | "closed" | "aborted" = "open";

  /** Writes the object of a path. */
  constructor(loaded: LoadedS3, path: string, options: S3SinkOptions) {
    this.loaded = loaded;
    this.name = path;
    this.place = parseS3Path(path);
    this.options = options;
  }

  /** See {@link ByteSink.write}. @throws {@link StorageError} (`write-failed`) */
  async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
    // All is taken before the first wait, so that the order is that of the calls and the memory is free again.
    for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) this.take(piece);
    while (this.sending.size > PARALLEL_PARTS) await Promise.race(this.sending);
    if (this.failure !== undefined) throw s3Error(this.failure, this.name, "write");
  }

  /** See {@link ByteSink.close}. @throws UsageError (`exists`) when an object of the name has appeared */
  async close(): Promise<void> {
    if (this.state === "closed") return;
    if (this.state === "aborted") throw new StorageError("write-failed", "the file was aborted", { file: this.name });
    try {
      await (this.upload === undefined ? this.putWhole() : this.completeParts(this.upload));
      this.state = "closed";
      this.options.onDone();
    } catch (cause) {
      await this.abort();
      throw s3Error(cause, this.name, "write");
    }
  }

  /** See {@link ByteSink.abort}. */
  async abort(): Promise<void> {
    if (this.state !== "open") return;
    this.state = "aborted";
    // A part that arrives after the abortion would be kept and paid for.
    await Promise.allSettled(this.sending);
    const uploadId = await this.upload?.catch(() => undefined);
    if (uploadId === undefined) return;
    const { s3, client } = this.loaded;
    const { bucket, key } = this.place;
    const command = new s3.AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: uploadId });
    await client.send(command).catch(() => {});
  }

  private take(piece: Uint8Array): void {
    this.position += piece.length;
    let taken = 0;
    while (taken < piece.length) {
      if (this.filled === this.part.length) this.sendPart();
      const count = Math.min(piece.length - taken, this.part.length - this.filled);
      this.part.set(piece.subarray(taken, taken + count), this.filled);
      this.filled += count;
      taken += count;
    }
  }

  /** Begins to send what is in memory as the next part. */
  private sendPart(): void {
    const body = this.part.subarray(0, this.filled);
    const number = ++this.partCount;
    this.part = new Uint8Array(PART_BYTES * 2 ** Math.floor(number / PARTS_OF_ONE_SIZE));
    this.filled = 0;
    const sending = this.uploadPart(number, body)
      .catch((error: unknown) => {
        this.failure ??= error;
      })
      .finally(() => this.sending.delete(sending));
    this.sending.add(sending);
  }

  private async uploadPart(number: number, body: Uint8Array): Promise<void> {
    const { s3, client } = this.loaded;
    const { bucket, key } = this.place;
    this.upload ??= this.beginUpload();
    const uploadId = await this.upload;
    if (this.failure !== undefined || this.state === "aborted") return;
    const answer = await client.send(
      new s3.UploadPartCommand({ Bucket: bucket, Key: key, UploadId: uploadId, PartNumber: number, Body: body }),
    );
    this.etags[number - 1] = answer.ETag ?? "";
  }

  private async beginUpload(): Promise<string> {
    const { s3, client } = this.loaded;
    const { bucket, key } = this.place;
    const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand({ Bucket: bucket, Key: key }));
    if (UploadId !== undefined) return UploadId;
    throw new StorageError("write-failed", "the store began no upload", { file: this.name });
  }

  private async putWhole(): Promise<void> {
    const { s3, client } = this.loaded;
    const { bucket, key } = this.place;
    const body = this.part.subarray(0, this.filled);
    await client.send(new s3.PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ...this.condition() }));
  }

  private async completeParts(upload: Promise<string>): Promise<void> {
    if (this.filled > 0) this.sendPart();
    await Promise.all(this.sending);
    if (this.failure !== undefined) throw this.failure;
    const { s3, client } = this.loaded;
    const { bucket, key } = this.place;
    const Parts = this.etags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }));
    const input = { Bucket: bucket, Key: key, UploadId: await upload, MultipartUpload: { Parts } };
    await client.send(new s3.CompleteMultipartUploadCommand({ ...input, ...this.condition() }));
  }

  /** That there must be no object of the name yet. */
  private condition(): { IfNoneMatch?: string } {
    return this.options.overwrite ? {} : { IfNoneMatch: "*" };
  }
}
