import { CairnError, isCairnError, StorageError } from "../errors.js";

/** Status codes of gRPC that are used here. Source: grpc/grpc, doc/statuscodes.md. */
export const GRPC = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const;

/** Bytes before each message: whether it is compressed, and its length, big-endian. Source: doc/PROTOCOL-HTTP2.md. */
export const PREFIX_BYTES = 5;

/** A failed call. */
export interface GrpcFailure {
  readonly status: number;
  readonly message: string;
}

/** A call that the other side refused, or that did not reach it. */
export class RpcError extends StorageError {
  /** gRPC's status code. */
  readonly status: number;

  /** Makes the error of a call to `address`. */
  constructor(address: string, { status, message }: GrpcFailure, cause?: unknown) {
    super("rpc-failed", message, { file: address, cause });
    this.status = status;
  }
}

/** What a client is told of an error of a call. ElasticDL's clients take any status but OK as a failure. */
export function failureOf(error: unknown): GrpcFailure {
  if (isCairnError(error, "limit")) return { status: GRPC.resourceExhausted, message: error.message };
  if (isCairnError(error, "unknown-parameter")) return { status: GRPC.invalidArgument, message: error.message };
  if (error instanceof CairnError) return { status: GRPC.invalidArgument, message: error.message };
  return { status: GRPC.internal, message: "the server has a fault" };
}

/** Encodes a message for the `grpc-message` header: printable ASCII but `%` as it is, all other bytes as `%XX`. */
export function encodeGrpcMessage(text: string): string {
  let encoded = "";
  for (const byte of new TextEncoder().encode(text)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

/** The text of a `grpc-message` header; what is not encoded rightly stays as it is. */
export function decodeGrpcMessage(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
