import { PassingFailure, type RetryOptions, withRetries } from "../../bytes/retry.js";
import { StorageError } from "../../errors.js";
import { failureOf } from "./response.js";

/** How requests are sent. */
export interface HttpClientOptions extends RetryOptions {
  /** Sent with every request to the server of the address, and to no server that it redirects to. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A server that sends nothing for so long is given up, in milliseconds; 30 s when it is not given. */
  readonly stallTimeoutMs?: number | undefined;
  /** Takes the place of the platform's `fetch`. */
  readonly fetch?: typeof fetch | undefined;
}

/** One GET. */
export interface HttpRequest {
  /** What errors print. */
  readonly file: string;
  /** The address that the user gave. */
  readonly ownUrl: string;
  /** That address, or one that it redirects to. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /** Statuses that are an answer; others are errors. */
  readonly expected: readonly number[];
}

/** Sends requests, and gives up those that stall. */
export class HttpClient {
  private readonly options: HttpClientOptions;

  /** Makes a client. */
  constructor(options: HttpClientOptions) {
    this.options = options;
  }

  /** Does something until it goes well, as often as the options allow. */
  retrying<Result>(signal: AbortSignal | undefined, attempt: () => Promise<Result>): Promise<Result> {
    return withRetries(this.options, signal, attempt);
  }

  /**
   * Sends a request once and gives the answer to `use`, with what ends the request: an answer that is not used up has to
   * be ended. What may pass is thrown as a {@link PassingFailure}.
   */
  async send<Result>(
    request: HttpRequest,
    use: (response: Response, body: BodyReader) => Promise<Result>,
  ): Promise<Result> {
    const { file, ownUrl, url, headers, signal, expected } = request;
    const watch = new StallWatch(this.options.stallTimeoutMs ?? 30_000, signal);
    try {
      const { fetch: send = globalThis.fetch } = this.options;
      // Bytes are counted as they are in the file, so nothing may compress them; with a range fetch says so by itself.
      const encoding: Record<string, string> = headers.range === undefined ? { "accept-encoding": "identity" } : {};
      const own = new URL(url).origin === new URL(ownUrl).origin ? this.options.headers : {};
      const all = { ...own, ...headers, ...encoding };
      const response = await send(url, { headers: all, signal: watch.signal, redirect: "follow" });
      watch.touch();
      const body = new BodyReader(response, watch);
      try {
        if (!expected.includes(response.status)) throw failureOf(response, file);
        return await use(response, body);
      } finally {
        await body.end();
      }
    } catch (error) {
      throw this.classify(error, watch, request);
    } finally {
      watch.stop();
    }
  }

  private classify(error: unknown, watch: StallWatch, { file, signal }: HttpRequest): unknown {
    if (signal?.aborted) return signal.reason;
    if (watch.isStalled) {
      const what = `the server sent nothing for ${watch.timeoutMs / 1000} s`;
      return new PassingFailure(new StorageError("read-failed", what, { file }));
    }
    // What fetch throws when there is no connection or it breaks.
    if (!(error instanceof TypeError) && (error as Error)?.name !== "AbortError") return error;
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? cause.message || (cause as { code?: string }).code : message;
    return new PassingFailure(
      new StorageError("read-failed", `the connection failed: ${reason}`, { file, cause: error }),
    );
  }
}

/** Ends a request when nothing comes for too long, or when the caller wants no more of it. */
class StallWatch {
  readonly timeoutMs: number;
  isStalled = false;
  private readonly controller = new AbortController();
  private readonly outer: AbortSignal | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly onAbort = () => this.controller.abort(this.outer?.reason);

  constructor(timeoutMs: number, outer: AbortSignal | undefined) {
    this.timeoutMs = timeoutMs;
    this.outer = outer;
    outer?.addEventListener("abort", this.onAbort, { once: true });
    if (outer?.aborted) this.onAbort();
    this.touch();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Something came: the time begins anew. */
  touch(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.isStalled = true;
      this.controller.abort();
    }, this.timeoutMs);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.onAbort);
  }
}

/** The body of an answer, piece by piece. */
export class BodyReader {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private readonly watch: StallWatch;
  private isDone = false;

  /** Use {@link HttpClient.send}. */
  constructor(response: Response, watch: StallWatch) {
    this.reader = response.body?.getReader();
    this.watch = watch;
  }

  /** The next piece, or undefined at the end. */
  async next(): Promise<Uint8Array | undefined> {
    if (this.reader === undefined || this.isDone) return undefined;
    const { done, value } = await this.reader.read();
    this.watch.touch();
    this.isDone = done;
    return value;
  }

  /** Gives the connection back; what was not read is thrown away. */
  async end(): Promise<void> {
    if (!this.isDone) await this.reader?.cancel().catch(() => {});
    this.isDone = true;
  }
}
