import { BaseSource, type ReadOptions } from "../../bytes/byte-source.js";
import type { ScratchFactory, ScratchFile } from "../../bytes/file-store.js";
import { PassingFailure } from "../../bytes/retry.js";
import { CairnError, LimitError, StorageError, TruncatedError } from "../../errors.js";
import type { BodyReader, HttpClient, HttpRequest } from "./client.js";
import {
  agree,
  changed,
  failureOf,
  ifRangeOf,
  parseContentLength,
  parseContentRange,
  type Validators,
  validatorsOf,
} from "./response.js";

/** What the first request for a file has found. */
export interface Probe {
  /** Where the file is in the end, behind all redirects. */
  readonly url: string;
  /** In bytes; undefined when the server does not tell. */
  readonly size: number | undefined;
  readonly validators: Validators;
  /** Whether the server gives ranges. */
  readonly hasRanges: boolean;
  /** The first bytes of the file, as many as were asked for or as there are; all of it when `isWhole`. */
  readonly head: Uint8Array;
  readonly isWhole: boolean;
}

/**
 * Asks for the first bytes of a file, which tells its size and what the server can do.
 * @throws NotFoundError (`not-found`), {@link StorageError} (`read-failed`)
 */
export function probeFile(client: HttpClient, file: string, url: string, headBytes: number): Promise<Probe> {
  const request = requestFor(file, url, url, { range: `bytes=0-${headBytes - 1}` }, undefined, [200, 206, 416]);
  return client.retrying(undefined, () =>
    client.send(request, async (response, body) => {
      const { status, headers } = response;
      const common = { url: response.url || url, validators: validatorsOf(headers) };
      if (status === 416) {
        // What a server says of an empty file, where no byte can be asked for.
        if (parseContentRange(headers)?.size !== 0) throw failureOf(response, file);
        return { ...common, size: 0, hasRanges: true, head: new Uint8Array(0), isWhole: true };
      }
      checkEncoding(headers, file);
      const range = status === 206 ? parseContentRange(headers) : undefined;
      if (status === 206 && range?.start !== 0) throw wrongRange(file, 0, headBytes, headers);
      const size = status === 206 ? range?.size : parseContentLength(headers);
      const hasRanges = status === 206 && size !== undefined;
      const head = await readHead(body, Math.min(headBytes, size ?? headBytes), file, hasRanges || size !== undefined);
      const isWhole = size === undefined ? head.length < headBytes : head.length === size;
      return { ...common, size: isWhole ? head.length : size, hasRanges, head, isWhole };
    }),
  );
}

/** Reads up to so many bytes of a body; when that many are sure to come, fewer are a failure that may pass. */
async function readHead(body: BodyReader, length: number, file: string, isSure: boolean): Promise<Uint8Array> {
  const head = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const piece = await body.next();
    if (piece === undefined) break;
    const part = piece.subarray(0, length - done);
    head.set(part, done);
    done += part.length;
  }
  if (done < length && isSure) throw new PassingFailure(cutShort(file, 0, length, done));
  return head.subarray(0, done);
}

/** What a {@link RangeSource} reads from. */
export interface RangedFile {
  /** What errors print. */
  readonly name: string;
  /** The address that the user gave. */
  readonly url: string;
  readonly size: number;
  readonly validators: Validators;
  /** Called when the file is not what it was. */
  readonly onChange: () => void;
}

/**
 * A file on a web server that gives ranges. Every answer is held against the question, and against what the file was when
 * it was opened; what a broken connection cut off is asked for again from where it broke.
 */
export class RangeSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly client: HttpClient;
  private readonly file: RangedFile;
  /** Where the file was found behind redirects; asking there saves a request each time, as long as it lasts. */
  private finalUrl: string;

  /** Reads `file`, found at `finalUrl`. */
  constructor(client: HttpClient, file: RangedFile, finalUrl: string) {
    super();
    this.client = client;
    this.file = file;
    this.name = file.name;
    this.size = file.size;
    this.finalUrl = finalUrl;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    let done = 0;
    await this.client.retrying(options?.signal, async () => {
      while (done < target.length) {
        const before = done;
        await this.fetchPart(offset + done, target.length - done, options?.signal, (piece) => {
          target.set(piece, done);
          done += piece.length;
        });
        if (done === before) throw new PassingFailure(cutShort(this.name, offset + done, target.length - done, 0));
      }
    });
  }

  /** Asks for a range once. An address behind a redirect may have ended, and the first one is asked again then. */
  private async fetchPart(
    offset: number,
    length: number,
    signal: AbortSignal | undefined,
    take: (piece: Uint8Array) => void,
  ): Promise<void> {
    const isDirect = this.finalUrl === this.file.url;
    try {
      await this.fetchFrom(this.finalUrl, offset, length, signal, take);
    } catch (error) {
      const isRefused = error instanceof CairnError && (error.code === "not-found" || error.code === "read-failed");
      if (isDirect || !isRefused) throw error;
      this.finalUrl = this.file.url;
      await this.fetchFrom(this.finalUrl, offset, length, signal, take);
    }
  }

  private async fetchFrom(
    url: string,
    offset: number,
    length: number,
    signal: AbortSignal | undefined,
    take: (piece: Uint8Array) => void,
  ): Promise<void> {
    const ifRange = ifRangeOf(this.file.validators);
    const range = `bytes=${offset}-${offset + length - 1}`;
    const headers: Record<string, string> = ifRange === undefined ? { range } : { range, "if-range": ifRange };
    const request = requestFor(this.name, this.file.url, url, headers, signal, [200, 206, 412, 416]);
    await this.client.send(request, async (response, body) => {
      const end = this.checkAnswer(response, offset, length);
      this.finalUrl = response.url || url;
      await this.takeBody(body, offset, end - offset, take);
    });
  }

  /** Checks that an answer holds bytes of the file as it was opened, from `offset` on, and tells where they end. */
  private checkAnswer(response: Response, offset: number, length: number): number {
    const { status, headers } = response;
    const range = parseContentRange(headers);
    const isOther = status === 412 || !agree(this.file.validators, validatorsOf(headers));
    const size = status === 200 ? parseContentLength(headers) : range?.size;
    if (isOther || (size !== undefined && size !== this.size)) {
      this.file.onChange();
      throw changed(this.name, size === undefined || size === this.size ? undefined : `${size} bytes`);
    }
    if (status === 200) {
      const what = "the server gave ranges of the file before, and gives none now";
      throw new StorageError("read-failed", what, { file: this.name });
    }
    checkEncoding(headers, this.name);
    if (status === 416 || range?.start !== offset || range.end === undefined || range.end > offset + length) {
      throw wrongRange(this.name, offset, length, headers);
    }
    return range.end;
  }

  private async takeBody(
    body: BodyReader,
    offset: number,
    length: number,
    take: (piece: Uint8Array) => void,
  ): Promise<void> {
    let done = 0;
    for (let piece = await body.next(); piece !== undefined; piece = await body.next()) {
      if (done + piece.length > length) {
        const what = "the server sent more bytes than it announced";
        throw new StorageError("read-failed", what, { file: this.name, offset, expected: length });
      }
      take(piece);
      done += piece.length;
    }
    if (done < length) throw new PassingFailure(cutShort(this.name, offset, length, done));
  }
}

/** A whole file to fetch. */
export interface Spooling {
  readonly file: string;
  readonly url: string;
  /** Makes room for it. */
  readonly scratch: ScratchFactory;
  /** The most bytes that it may have. */
  readonly limit: number;
}

/**
 * Fetches a whole file from a server that gives no ranges.
 * @throws {@link LimitError} (`limit`) when it has more than `limit` bytes; {@link TruncatedError} (`truncated`)
 */
export function spoolFile(client: HttpClient, { file, url, scratch, limit }: Spooling): Promise<ScratchFile> {
  const request = requestFor(file, url, url, {}, undefined, [200]);
  return client.retrying(undefined, () =>
    client.send(request, async (response, body) => {
      checkEncoding(response.headers, file);
      const length = parseContentLength(response.headers);
      checkSpool(length ?? 0, limit, file);
      const room = await scratch(length);
      try {
        for (let piece = await body.next(); piece !== undefined; piece = await body.next()) {
          checkSpool(room.sink.position + piece.length, limit, file);
          await room.sink.write(piece);
        }
        const { position } = room.sink;
        if (length !== undefined && position < length) throw new PassingFailure(cutShort(file, 0, length, position));
        return room;
      } catch (error) {
        await room.dispose();
        throw error;
      }
    }),
  );
}

function checkSpool(length: number, limit: number, file: string): void {
  if (length <= limit) return;
  throw new LimitError("limit", "a file on a server that gives no ranges", {
    file,
    expected: `at most ${limit} bytes`,
    actual: length,
    hint: "Download it, and give the local file.",
  });
}

function requestFor(
  file: string,
  ownUrl: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
  expected: readonly number[],
): HttpRequest {
  return { file, ownUrl, url, headers, signal, expected };
}

/** What fetch has decompressed is not what ranges count. */
function checkEncoding(headers: Headers, file: string): void {
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding === "identity") return;
  throw new StorageError("read-failed", `the server compresses the file (${encoding}) though asked not to`, { file });
}

function wrongRange(file: string, offset: number, length: number, headers: Headers): StorageError {
  return new StorageError("read-failed", "the server answered with another range than was asked for", {
    file,
    offset,
    expected: `bytes ${offset}-${offset + length - 1}`,
    actual: headers.get("content-range") ?? "none",
  });
}

function cutShort(file: string, offset: number, expected: number, actual: number): TruncatedError {
  const what = "the server ended its answer too early";
  return new TruncatedError("truncated", what, {
    file,
    offset,
    expected: `${expected} bytes`,
    actual: `${actual} bytes`,
  });
}
