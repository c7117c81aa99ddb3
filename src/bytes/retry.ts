import type { CairnError } from "../errors.js";

/** How often and after what pauses a request is sent again. */
export interface RetryOptions {
  /** Requests in all for the same bytes; 5 when it is not given. */
  readonly attempts?: number | undefined;
  /** The first pause, in milliseconds; each is twice as long as the one before. 250 when it is not given. */
  readonly firstPauseMs?: number | undefined;
  /** Waits for so many milliseconds; for tests. */
  readonly wait?: ((ms: number, signal: AbortSignal | undefined) => Promise<void>) | undefined;
}

/** The longest pause between two requests, 8 s. */
const LONGEST_PAUSE_MS = 8_000;
/** The longest pause that a server may ask for with Retry-After, 60 s; more is an error. */
const LONGEST_ASKED_PAUSE_MS = 60_000;

/** A failure that may pass: the request is sent again. When it does not pass, `error` is what the caller gets. */
export class PassingFailure extends Error {
  readonly error: CairnError;
  /** How long the server asked to wait, in milliseconds. */
  readonly askedPauseMs: number | undefined;

  /** Wraps the error that counts in the end. */
  constructor(error: CairnError, askedPauseMs?: number) {
    super(error.message);
    this.error = error;
    this.askedPauseMs = askedPauseMs;
  }
}

/** Does something, and does it again after a pause when it fails with a {@link PassingFailure}. */
export async function withRetries<Result>(
  options: RetryOptions,
  signal: AbortSignal | undefined,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const { attempts = 5, firstPauseMs = 250, wait = waitFor } = options;
  for (let count = 1; ; count++) {
    try {
      return await attempt();
    } catch (failure) {
      signal?.throwIfAborted();
      if (!(failure instanceof PassingFailure)) throw failure;
      const { error, askedPauseMs = 0 } = failure;
      if (count >= attempts || askedPauseMs > LONGEST_ASKED_PAUSE_MS) throw error;
      // Between half and the whole of it, so that many clients do not come back at once.
      const pauseMs = Math.min(firstPauseMs * 2 ** (count - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      await wait(Math.max(pauseMs, askedPauseMs), signal);
    }
  }
}

function waitFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    }
  });
}
