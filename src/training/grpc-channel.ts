import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { MAX_GRPC_MESSAGE_BYTES } from "../limits.js";
import { BufferPool } from "./buffer-pool.js";
import { frameMessage, MessageReceiver } from "./grpc-message.js";
import type { AnswerEncoder } from "./grpc-server.js";
import { decodeGrpcMessage, GRPC, RpcError } from "./grpc-status.js";

/** Window of a connection and of a call, 2^31 - 1. */
const WINDOW_BYTES = 2 ** 31 - 1;

/** Frames of answers may be up to 4 MiB, as those that ElasticDL's client takes. */
const FRAME_BYTES = 4 * 2 ** 20;

/** Node ends a session that buffers more, in MB. */
const SESSION_MEMORY_MB = 2048;

/** Options of one call. */
export interface CallOptions {
  /** Gives up after so many milliseconds; never unless said. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Calls unary gRPC methods of one server over HTTP/2 without TLS. It connects when it is first needed, and again when it has to. */
export class GrpcChannel {
  /** Host and port, `localhost:2222`. */
  readonly address: string;
  private readonly pool = new BufferPool();
  private session: ClientHttp2Session | undefined;

  /** A channel to `host:port`. Nothing is connected yet. */
  constructor(address: string) {
    this.address = address;
  }

  /**
   * Calls a method, as `/proto.Pserver/push_model`. `decode` is given a view that is good for its time alone.
   * @throws {@link RpcError} (`rpc-failed`)
   */
  async call<Answer>(
    path: string,
    encode: AnswerEncoder,
    decode: (answer: Uint8Array) => Answer,
    options: CallOptions = {},
  ): Promise<Answer> {
    const framed = frameMessage(this.pool, encode);
    const receiver = new MessageReceiver(this.pool, MAX_GRPC_MESSAGE_BYTES);
    try {
      await this.exchange(path, framed.bytes, receiver, options);
      const answer = receiver.message();
      if (answer === undefined) throw this.error(receiver.failure?.status, receiver.failure?.message);
      return decode(answer);
    } finally {
      framed.release();
      receiver.release();
    }
  }

  /** Ends the connection when all calls have ended. */
  async close(): Promise<void> {
    const { session } = this;
    this.session = undefined;
    if (session === undefined || session.destroyed) return;
    await new Promise<void>((resolve) => session.close(resolve));
  }

  /** Ends the connection at once, with the calls that are under way: a server that hangs is not waited for. */
  abort(): void {
    const { session } = this;
    this.session = undefined;
    session?.destroy();
  }

  /** Sends a request and takes the answer; ends when the stream is closed, and nothing of the request is needed any more. */
  private exchange(path: string, request: Uint8Array, receiver: MessageReceiver, options: CallOptions): Promise<void> {
    const { timeoutMs, signal } = options;
    return new Promise((resolve, reject) => {
      const outcome: { status?: number; message?: string; cause?: unknown } = {};
      const stream = this.open(path, timeoutMs);
      const stop = (status: number, message: string) => {
        outcome.status ??= status;
        outcome.message ??= message;
        stream.close(constants.NGHTTP2_CANCEL);
      };
      const onAbort = () => stop(GRPC.cancelled, "the call was cancelled");
      if (signal?.aborted) onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      if (timeoutMs !== undefined) {
        const timer = setTimeout(() => stop(GRPC.deadlineExceeded, `no answer within ${timeoutMs} ms`), timeoutMs);
        stream.once("close", () => clearTimeout(timer));
      }
      const takeStatus = (headers: Record<string, unknown>) => {
        if (headers["grpc-status"] === undefined) return;
        outcome.status ??= Number(headers["grpc-status"]);
        outcome.message ??= decodeGrpcMessage(String(headers["grpc-message"] ?? ""));
      };
      stream.on("response", (headers) => {
        takeStatus(headers);
        if (headers[":status"] !== 200) stop(GRPC.unknown, `HTTP status ${headers[":status"]}`);
      });
      stream.on("trailers", takeStatus);
      stream.on("data", (chunk: Buffer) => {
        receiver.push(chunk);
        if (receiver.failure !== undefined) stop(receiver.failure.status, receiver.failure.message);
      });
      stream.on("error", (error) => {
        outcome.cause = error;
      });
      stream.on("close", () => {
        signal?.removeEventListener("abort", onAbort);
        if (outcome.status === GRPC.ok) return resolve();
        const { cause } = outcome;
        const why = cause instanceof Error ? `cannot reach the server: ${cause.message}` : "the connection was lost";
        reject(this.error(outcome.status, outcome.message ?? why, cause));
      });
      stream.end(request);
    });
  }

  private open(path: string, timeoutMs: number | undefined): ClientHttp2Stream {
    const headers: Record<string, string> = {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc+proto",
      te: "trailers",
    };
    if (timeoutMs !== undefined) headers["grpc-timeout"] = `${Math.min(99_999_999, Math.ceil(timeoutMs))}m`;
    return this.connected().request(headers);
  }

  private connected(): ClientHttp2Session {
    const { session } = this;
    if (session !== undefined && !session.closed && !session.destroyed) return session;
    const made = connect(`http://${this.address}`, {
      maxSessionMemory: SESSION_MEMORY_MB,
      settings: { initialWindowSize: WINDOW_BYTES, maxFrameSize: FRAME_BYTES, enablePush: false },
    });
    made.once("connect", () => made.setLocalWindowSize(WINDOW_BYTES));
    // Calls that are under way are told themselves.
    made.on("error", () => {});
    made.on("goaway", () => made.close());
    this.session = made;
    return made;
  }

  private error(status: number = GRPC.unavailable, message = "no answer", cause?: unknown): RpcError {
    return new RpcError(this.address, { status, message }, cause);
  }
}
