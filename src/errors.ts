/**
 * Every code an error of cairn can carry, with what it means.
 * Codes are stable: callers test them with {@link isCairnError}. `docs/errors.md` lists them.
 */
export const ERROR_CODES = {
  // Damaged bytes.
  "block-header": "A Riegeli block header is damaged or contradicts the chunk it stands in.",
  "chunk-header": "A Riegeli chunk header is damaged.",
  "chunk-data": "The data of a Riegeli chunk does not match its hash.",
  "chunk-contents": "A Riegeli chunk whose hash is right holds data that breaks the rules of its type.",
  "missing-signature": "The file does not begin with the Riegeli file signature.",
  decompression: "A compressed buffer does not decompress to what it announces.",
  "invalid-wire": "Bytes that should be a protobuf message are not.",
  "invalid-text": "A text-format protobuf cannot be parsed.",
  "chunk-metadata": "The ChunkMetadata of a .cpb is missing, not the last record, or breaks its rules.",
  "chunk-index": "A field of the ChunkMetadata names a chunk that the file does not have.",
  "field-tag": "A field tag of the ChunkMetadata cannot be followed in the message.",
  "chunk-value": "A chunk cannot be parsed as the field it is to fill.",
  "record-size": "A record is not as long as the ChunkMetadata says.",
  "tensor-data": "A tensor's data does not fit its dtype and shape.",
  "shard-checksum": "The bytes of a shard of a training checkpoint do not match their checksum.",
  "ambiguous-message": "A shard can be read as two forms of ElasticDL's Model, and nothing tells which it is.",
  "version-mismatch":
    "A shard of a training checkpoint is of another model version than its directory or the other shards.",
  "missing-shard": "A version of a training checkpoint lacks a shard.",
  "mixed-shards": "A version directory has shards of several numbers of parameter servers.",
  "wrong-partition": "A variable or row stands in the shard of another parameter server.",
  "duplicate-id": "An id stands twice in an embedding table.",
  "stray-file": "A file stands where ElasticDL looks for versions or shards, and is none.",
  "table-footer": "The file is no sorted string table: its footer or its magic number is wrong.",
  "table-block": "A block of a sorted string table does not match its checksum, or its rules.",
  "table-entry": "An entry of a sorted string table cannot be read, or is out of order.",
  "bundle-header": "The header of a checkpoint's index is missing or breaks its rules.",
  "bundle-entry": "The entry of a tensor in a checkpoint's index cannot be right.",
  "tensor-checksum": "The bytes of a tensor do not match their checksum.",
  "slice-coverage": "The slices of a tensor overlap, or do not cover it.",
  "duplicate-key": "The same tensor stands twice in what is to be one checkpoint.",
  "invalid-json": "Text that should be JSON of a known form is not, or has a key twice.",
  "tensor-offsets": "The tensors of a file overlap, leave a gap, or have other bytes than their dtype and shape take.",
  "weight-map": "The index of a model in several files does not agree with the files.",
  "object-graph": "The object graph of a checkpoint cannot be read or contradicts the checkpoint.",
  // Cut files.
  truncated: "The file ends before the data it announces.",
  // What cairn cannot do.
  "unsupported-compression": "The compression type is unknown, or is not available on this platform.",
  "unsupported-chunk-type": "A Riegeli chunk of unknown type holds records.",
  "unsupported-version": "The file needs a newer merger than this one.",
  "unsupported-dtype": "The dtype is unknown, or has no form on this target.",
  "unsupported-operation": "This kind of file has no such ability.",
  // Things that are not there.
  "not-found": "A file or directory does not exist.",
  "unknown-format": "The path holds nothing that cairn knows.",
  "no-such-key": "There is no tensor of that key.",
  "no-such-record": "There is no record at that position.",
  "no-such-version": "There is no such complete version of a training.",
  "no-such-id": "The embedding table has no row of that id.",
  "no-complete-version": "The checkpoint directory has no complete version.",
  // Refused for size.
  limit: "A size or depth is over a named limit.",
  // Training.
  "unknown-initializer": "No initializer of embedding rows has that name, or not those arguments.",
  "unknown-parameter": "The parameter server has no variable or embedding table of that name.",
  "gradient-mismatch": "A gradient does not fit the parameter that it is for.",
  "rpc-failed": "A parameter server or master refused a call, or could not be reached.",
  "not-finite": "The loss of a training is no number any more.",
  "servers-disagree": "The parameter servers of a training are not of one version.",
  "training-failed": "A training could not go on.",
  // Plans.
  "invalid-plan": "A plan of a splitter or a sharding callback breaks the rules.",
  "callback-failed": "A sharding callback threw an error of its own.",
  "slice-spec": "A slice spec cannot be read, or passes the shape that it names.",
  "invalid-sidecar": "The .cairn.json beside a checkpoint is not what cairn writes.",
  // Restoring.
  "tensor-mismatch": "A stored tensor has another dtype or shape than the object that it is restored into.",
  "not-consumed": "A restore left values of the checkpoint or objects of the program unmatched.",
  // The caller.
  usage: "The call or the command line is wrong.",
  exists: "The output exists already.",
  "read-failed": "The system or the network refused a read.",
  "write-failed": "The output could not be written.",
  interrupted: "The work was interrupted.",
  "file-changed": "The file changed while it was being read.",
} as const;

/** The stable code of a {@link CairnError}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** What an error knows beside its code and its text. Offsets count from the start of `file`. */
export interface ErrorDetails {
  /** The path or URL of the file. */
  readonly file?: string | undefined;
  /** Byte offset in `file`. */
  readonly offset?: number | undefined;
  /** What should have been there. */
  readonly expected?: string | number | bigint | undefined;
  /** What was there. */
  readonly actual?: string | number | bigint | undefined;
  /** The error that led to this one. */
  readonly cause?: unknown;
  /** What the user can do about it, one sentence. */
  readonly hint?: string | undefined;
}

/** The base of all errors that cairn throws for reasons outside its own code. */
export class CairnError extends Error {
  /** The stable code; see {@link ERROR_CODES}. */
  readonly code: ErrorCode;
  /** The path or URL of the file. */
  readonly file: string | undefined;
  /** Byte offset in {@link CairnError.file}. */
  readonly offset: number | undefined;
  /** What should have been there. */
  readonly expected: string | number | bigint | undefined;
  /** What was there. */
  readonly actual: string | number | bigint | undefined;
  /** What the user can do about it. */
  readonly hint: string | undefined;
  /** The sentence without file and offset. */
  readonly summary: string;

  /** Makes an error whose message is one line: `file@0xoffset: what: expected X, got Y`. */
  constructor(code: ErrorCode, what: string, details: ErrorDetails = {}) {
    super(formatLine(what, details), details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.summary = what;
    this.file = details.file;
    this.offset = details.offset;
    this.expected = details.expected;
    this.actual = details.actual;
    this.hint = details.hint;
    this.name = new.target.name;
  }
}

/** Bytes that were something else when they were written. */
export class CorruptionError extends CairnError {}
/** A file that ends too early. */
export class TruncatedError extends CairnError {}
/** A file that is right but holds what cairn cannot handle. */
export class UnsupportedError extends CairnError {}
/** Something that is not there. */
export class NotFoundError extends CairnError {}
/** A size or depth over a named limit of `limits.ts`. */
export class LimitError extends CairnError {}
/** A plan that breaks the rules. */
export class PlanError extends CairnError {}
/** A wrong call or command line. */
export class UsageError extends CairnError {}
/** A failure of the disk, the network or the store under a read or write. */
export class StorageError extends CairnError {}

/** Tells whether `error` is a {@link CairnError}, and of that code when one is given. */
export function isCairnError(error: unknown, code?: ErrorCode): error is CairnError {
  return error instanceof CairnError && (code === undefined || error.code === code);
}

/** Formats a 64-bit hash or checksum for an error, for example `0x00000000deadbeef`. */
export function formatHash(hash: bigint): string {
  return `0x${hash.toString(16).padStart(16, "0")}`;
}

/** Formats a 32-bit checksum for an error, for example `0x00c0ffee`. */
export function formatCrc(crc: number): string {
  return `0x${crc.toString(16).padStart(8, "0")}`;
}

function formatLine(what: string, details: ErrorDetails): string {
  const { file, offset, expected, actual } = details;
  let place = file ?? "";
  if (offset !== undefined) place += `@0x${offset.toString(16)}`;
  let line = place === "" ? what : `${place}: ${what}`;
  if (expected !== undefined) line += `: expected ${expected}`;
  if (actual !== undefined) line += expected === undefined ? `: got ${actual}` : `, got ${actual}`;
  return line;
}
