import { PassingFailure } from "../../bytes/retry.js";
import { type CairnError, NotFoundError, StorageError } from "../../errors.js";

/** Statuses that may pass. Source: RFC 9110, section 15; 425 and 429 are RFC 8470 and RFC 6585. */
const PASSING_STATUSES: readonly number[] = [408, 425, 429, 500, 502, 503, 504];

/** What the Content-Range of an answer says. */
export interface ContentRange {
  /** The first byte; undefined in an answer that there is no such range. */
  readonly start: number | undefined;
  /** Behind the last byte. */
  readonly end: number | undefined;
  /** Of the whole file; undefined when the server does not tell. */
  readonly size: number | undefined;
}

/** Reads the Content-Range of an answer; undefined when there is none that can be read. Source: RFC 9110, section 14.4. */
export function parseContentRange(headers: Headers): ContentRange | undefined {
  const match = /^bytes (?:(\d+)-(\d+)|\*)\/(?:(\d+)|\*)$/i.exec(headers.get("content-range")?.trim() ?? "");
  if (match === null) return undefined;
  const [start, last, size] = match.slice(1).map((digits) => (digits === undefined ? undefined : Number(digits)));
  const numbers = [start, last, size].filter((value) => value !== undefined);
  if (!numbers.every(Number.isSafeInteger)) return undefined;
  return { start, end: last === undefined ? undefined : last + 1, size };
}

/** The length of the body that an answer announces, in bytes. */
export function parseContentLength(headers: Headers): number | undefined {
  const text = headers.get("content-length");
  if (text === null || !/^\d+$/.test(text)) return undefined;
  const length = Number(text);
  return Number.isSafeInteger(length) ? length : undefined;
}

/** What tells one state of a file on a server from another. */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** The validators of an answer. */
export function validatorsOf(headers: Headers): Validators {
  return { etag: headers.get("etag") ?? undefined, lastModified: headers.get("last-modified") ?? undefined };
}

/** Whether two answers may be of the same state of a file: nothing that both tell differs. */
export function agree(a: Validators, b: Validators): boolean {
  const opaque = (etag: string) => etag.replace(/^W\//, "");
  if (a.etag !== undefined && b.etag !== undefined) return opaque(a.etag) === opaque(b.etag);
  return a.lastModified === undefined || b.lastModified === undefined || a.lastModified === b.lastModified;
}

/** What goes into If-Range: a strong entity tag, or else the date. Source: RFC 9110, section 13.1.5. */
export function ifRangeOf({ etag, lastModified }: Validators): string | undefined {
  return etag === undefined ? lastModified : etag.startsWith("W/") ? undefined : etag;
}

/** The error of an answer that is none of those expected; one that may pass is a {@link PassingFailure}. */
export function failureOf(response: Response, file: string): CairnError | PassingFailure {
  const { status, statusText } = response;
  const what = `the server refused the file${statusText === "" ? "" : `, ${statusText}`}`;
  if (status === 404 || status === 410) return new NotFoundError("not-found", what, { file });
  if (status === 412) return changed(file);
  const hint = status === 401 || status === 403 ? "Check the address, and that it may be read." : undefined;
  const error = new StorageError("read-failed", what, { file, actual: status, hint });
  if (!PASSING_STATUSES.includes(status)) return error;
  return new PassingFailure(error, parseRetryAfter(response.headers.get("retry-after")));
}

/** The error for a file that is not what it was when it was opened. */
export function changed(file: string, actual?: string): StorageError {
  return new StorageError("file-changed", "the file changed while it was read", { file, actual });
}

/** Milliseconds that a Retry-After asks to wait: it has seconds, or a date. Source: RFC 9110, section 10.2.3. */
function parseRetryAfter(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
