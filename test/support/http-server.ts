import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as the server got it, and how many bytes of a body it was sent. */
export interface SeenRequest {
  readonly path: string;
  readonly range: string | undefined;
  readonly headers: IncomingMessage["headers"];
  bytes: number;
}

/** Answers requests; `count` is how many came for the same path before. */
export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void;

/** A real web server on this machine that does what a test tells it, and remembers what it was asked. */
export class TestServer {
  readonly requests: SeenRequest[] = [];
  private readonly handlers = new Map<string, Handler>();
  private readonly counts = new Map<string, number>();
  private readonly server = createServer((request, response) => this.answer(request, response));

  /** The address of a path. */
  url(path: string): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${path}`;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Says how a path is answered from now on. */
  on(path: string, handler: Handler): string {
    this.handlers.set(path, handler);
    this.counts.delete(path);
    return this.url(path);
  }

  /** Serves bytes under a path as a good server does. */
  serve(path: string, bytes: Uint8Array, headers: Record<string, string> = { etag: '"1"' }): string {
    return this.on(path, (request, response) => sendRange(request, response, bytes, headers));
  }

  /** Requests and bytes since the last call. */
  take(): { requests: number; bytes: number } {
    const seen = this.requests.splice(0);
    return { requests: seen.length, bytes: seen.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? "";
    const count = this.counts.get(path) ?? 0;
    this.counts.set(path, count + 1);
    const seen: SeenRequest = { path, range: request.headers.range, headers: request.headers, bytes: 0 };
    this.requests.push(seen);
    const write = response.write.bind(response);
    const end = response.end.bind(response);
    const counted = (chunk: unknown) => {
      if (chunk instanceof Uint8Array) seen.bytes += chunk.length;
    };
    response.write = ((chunk: unknown, ...more: []) => {
      counted(chunk);
      return write(chunk, ...more);
    }) as typeof response.write;
    response.end = ((chunk: unknown, ...more: []) => {
      counted(chunk);
      return end(chunk, ...more);
    }) as typeof response.end;
    const handler = this.handlers.get(path);
    if (handler === undefined) response.writeHead(404).end();
    else handler(request, response, count);
  }
}

/** The range that a request asks for, or undefined. */
export function rangeOf(request: IncomingMessage): { start: number; last: number } | undefined {
  const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  return match === null ? undefined : { start: Number(match[1]), last: Number(match[2]) };
}

/** Answers as RFC 9110 has it: a range when one is asked for and If-Range agrees, else all. */
export function sendRange(
  request: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  headers: Record<string, string> = {},
): void {
  const range = rangeOf(request);
  const ifRange = request.headers["if-range"];
  const isSame = ifRange === undefined || ifRange === headers.etag || ifRange === headers["last-modified"];
  if (range === undefined || !isSame) {
    response.writeHead(200, { ...headers, "content-length": bytes.length }).end(bytes);
    return;
  }
  if (range.start >= bytes.length) {
    response.writeHead(416, { ...headers, "content-range": `bytes */${bytes.length}` }).end();
    return;
  }
  const part = bytes.subarray(range.start, range.last + 1);
  const end = range.start + part.length;
  const contentRange = `bytes ${range.start}-${end - 1}/${bytes.length}`;
  response.writeHead(206, { ...headers, "content-range": contentRange, "content-length": part.length }).end(part);
}
