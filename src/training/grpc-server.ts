import {
  constants,
  createServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { StorageError } from "../errors.js";
import { MAX_GRPC_MESSAGE_BYTES } from "../limits.js";
import { BufferPool } from "./buffer-pool.js";
import type { Allocate } from "./encode-messages.js";
import { type FramedMessage, frameMessage, MessageReceiver } from "./grpc-message.js";
import { encodeGrpcMessage, failureOf, GRPC, type GrpcFailure } from "./grpc-status.js";

/** Writes an answer into memory from `allocate`, which is where it is sent from. */
export type AnswerEncoder = (allocate: Allocate) => Uint8Array;

/**
 * Does the work of a unary call and gives how its answer is written. The request is a view that is good until then. What
 * it throws is the client's failure.
 */
export type UnaryHandler = (request: Uint8Array) => AnswerEncoder | Promise<AnswerEncoder>;

/** Options of {@link GrpcServer.listen}. */
export interface ListenOptions {
  /** 0 takes a free one. */
  readonly port: number;
  /** The address to bind to: the loopback unless said. */
  readonly host?: string | undefined;
}

/** Window of a connection and of a call, 2^31 - 1: the whole message may come at once. grpcio takes that. */
const WINDOW_BYTES = 2 ** 31 - 1;

/** Frames may be up to 1 MiB. */
const FRAME_BYTES = 2 ** 20;

/** Node ends a session that buffers more, in MB; its own limit of 10 MB is less than one message. */
const SESSION_MEMORY_MB = 2048;

/** How long a call may take after the server was told to end, 10 s. */
const GRACE_MS = 10_000;

/** Calls of one connection at a time. */
const CONCURRENT_CALLS = 256;

/**
 * A server of unary gRPC calls over HTTP/2 without TLS. It frames messages itself: large ones go into and out of pooled
 * buffers with one copy each, at several times the rate of a general library.
 */
export class GrpcServer {
  private readonly handlers: ReadonlyMap<string, UnaryHandler>;
  private readonly pool = new BufferPool();
  private readonly server: Http2Server;
  private readonly sessions = new Set<Http2Session>();
  private isClosing = false;

  /** Serves these paths, as `/proto.Pserver/push_model`. */
  constructor(handlers: ReadonlyMap<string, UnaryHandler>) {
    this.handlers = handlers;
    this.server = createServer({
      maxSessionMemory: SESSION_MEMORY_MB,
      settings: {
        initialWindowSize: WINDOW_BYTES,
        maxFrameSize: FRAME_BYTES,
        maxConcurrentStreams: CONCURRENT_CALLS,
        enablePush: false,
      },
    });
    this.server.on("session", (session) => this.welcome(session));
    this.server.on("stream", (stream, headers) => this.serve(stream, headers));
  }

  /** Begins to serve and gives the port. @throws {@link StorageError} (`rpc-failed`) when the address is taken or not there */
  async listen({ port, host = "127.0.0.1" }: ListenOptions): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.server.once("error", (cause) => {
        const details = { file: `${host}:${port}`, cause };
        reject(new StorageError("rpc-failed", `cannot serve: ${(cause as Error).message}`, details));
      });
      this.server.listen(port, host, resolve);
    });
    return (this.server.address() as AddressInfo).port;
  }

  /** Takes no more calls, lets those that are under way end within `graceMs`, 10 s unless said, and closes. */
  async close({ graceMs = GRACE_MS }: { readonly graceMs?: number | undefined } = {}): Promise<void> {
    this.isClosing = true;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const session of this.sessions) session.close();
    const timer = setTimeout(() => {
      for (const session of this.sessions) session.destroy();
    }, graceMs);
    await closed;
    clearTimeout(timer);
  }

  private welcome(session: Http2Session): void {
    this.sessions.add(session);
    session.setLocalWindowSize(WINDOW_BYTES);
    session.on("close", () => this.sessions.delete(session));
    // A client that vanishes is no fault of the server.
    session.on("error", () => {});
    if (this.isClosing) session.close();
  }

  private serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on("error", () => {});
    const receiver = new MessageReceiver(this.pool, MAX_GRPC_MESSAGE_BYTES);
    const refusal = this.refuse(headers);
    if (refusal !== undefined) {
      fail(stream, refusal);
      return;
    }
    const handler = this.handlers.get(headers[":path"] as string) as UnaryHandler;
    stream.on("data", (chunk: Buffer) => {
      receiver.push(chunk);
      if (receiver.failure !== undefined) fail(stream, receiver.failure);
    });
    stream.on("end", () => void this.answer(stream, receiver, handler));
    stream.on("aborted", () => receiver.release());
  }

  private refuse(headers: IncomingHttpHeaders): GrpcFailure | undefined {
    const path = headers[":path"] ?? "";
    if (headers[":method"] !== "POST" || !(headers["content-type"] ?? "").startsWith("application/grpc")) {
      return { status: GRPC.internal, message: "not a gRPC call" };
    }
    if (!this.handlers.has(path)) return { status: GRPC.unimplemented, message: `no method ${path}` };
    return undefined;
  }

  private async answer(stream: ServerHttp2Stream, receiver: MessageReceiver, handler: UnaryHandler): Promise<void> {
    const request = receiver.message();
    if (request === undefined || stream.destroyed || stream.headersSent) {
      if (receiver.failure !== undefined) fail(stream, receiver.failure);
      return receiver.release();
    }
    // Taken out of the receiver's hands: a call that is aborted must not give back what a handler still reads.
    stream.removeAllListeners("aborted");
    try {
      const result = handler(request);
      // An answer that is there at once is encoded at once: nothing can change in between.
      const encode = typeof result === "function" ? result : await result;
      send(stream, frameMessage(this.pool, encode));
    } catch (error) {
      fail(stream, failureOf(error));
    } finally {
      receiver.release();
    }
  }
}

const HEADERS = { ":status": 200, "content-type": "application/grpc+proto" };

function send(stream: ServerHttp2Stream, { bytes, release }: FramedMessage): void {
  stream.once("close", release);
  if (stream.destroyed) return;
  stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": String(GRPC.ok) }));
  stream.respond(HEADERS, { waitForTrailers: true });
  stream.end(bytes);
}

/** Answers with a failure: headers alone, as gRPC's "Trailers-Only". */
function fail(stream: ServerHttp2Stream, { status, message }: GrpcFailure): void {
  if (stream.destroyed || stream.headersSent) return;
  const headers = { ...HEADERS, "grpc-status": String(status), "grpc-message": encodeGrpcMessage(message) };
  stream.respond(headers, { endStream: true });
  // The rest of the request is not wanted.
  if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
}
