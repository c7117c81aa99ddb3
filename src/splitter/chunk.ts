import { create } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import {
  type ChunkedField,
  ChunkedFieldSchema,
  type ChunkedMessage,
  ChunkedMessageSchema,
  type FieldIndex,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { MessageView } from "../proto/message-view.js";
import { compareTags, encodeTag, formatSteps, type TagStep } from "./field-tag.js";

/** A piece of a split proto: a message, or the raw bytes of one field. */
export interface Chunk {
  readonly type: "message" | "bytes";
  /** Where it belongs, for people; empty for the root. */
  readonly path: string;
  /** Its bytes, as extents of what was split. */
  readonly source: ByteSource;
}

/** A chunk on its way: where it goes in the message that is split, and what it is. */
export interface ChunkEntry {
  readonly steps: readonly TagStep[];
  readonly content: MessageView | ByteSource;
}

/**
 * The ChunkedMessage of a list of chunks, and the chunks in the order of their indexes. Fields are sorted as a merger
 * reads them, parents before what is below, chunks of one place in the order given. All stand flat under the root, as
 * TensorFlow writes them, but for this: where several pieces lie below one map key they stand in a nested
 * ChunkedMessage at that key, since TensorFlow takes all tags for equal that agree up to a map key, and may shuffle them.
 */
export function buildChunkedMessage(
  root: MessageView | undefined,
  entries: readonly ChunkEntry[],
): { chunkedMessage: ChunkedMessage; ordered: { content: MessageView | ByteSource; path: string }[] } {
  const ordered: { content: MessageView | ByteSource; path: string }[] = [];
  const chunkedMessage = create(ChunkedMessageSchema);
  if (root !== undefined) {
    chunkedMessage.chunkIndex = 0n;
    ordered.push({ content: root, path: "" });
  }
  const placed = entries.map((entry) => ({
    content: entry.content,
    path: formatSteps(entry.steps),
    tag: encodeTag(entry.steps),
  }));
  placed.sort((a, b) => compareTags(a.tag, b.tag, "field tags"));
  chunkedMessage.chunkedFields = nestBelowKeys(placed, ordered);
  return { chunkedMessage, ordered };
}

interface PlacedEntry {
  readonly content: MessageView | ByteSource;
  readonly path: string;
  readonly tag: readonly FieldIndex[];
}

function nestBelowKeys(
  entries: readonly PlacedEntry[],
  ordered: { content: MessageView | ByteSource; path: string }[],
): ChunkedField[] {
  const fields: ChunkedField[] = [];
  for (let i = 0; i < entries.length; ) {
    const first = entries[i] as PlacedEntry;
    const keyDepth = first.tag.findIndex(({ kind }) => kind.case === "mapKey") + 1;
    let end = i + 1;
    if (keyDepth > 0) while (end < entries.length && sharesPrefix(first, entries[end] as PlacedEntry, keyDepth)) end++;
    if (end - i === 1) fields.push(chunkedField(first.tag, { chunkIndex: take(first, ordered) }));
    else {
      const below = entries.slice(i, end).map((entry) => ({ ...entry, tag: entry.tag.slice(keyDepth) }));
      fields.push(chunkedField(first.tag.slice(0, keyDepth), nestedMessage(below, ordered)));
    }
    i = end;
  }
  return fields;
}

/** The ChunkedMessage of a map value: its body first, when that left too, then what belongs in it. */
function nestedMessage(
  entries: readonly PlacedEntry[],
  ordered: { content: MessageView | ByteSource; path: string }[],
): { chunkIndex?: bigint; chunkedFields: ChunkedField[] } {
  const [body, ...rest] = entries;
  if (body === undefined || body.tag.length > 0) return { chunkedFields: nestBelowKeys(entries, ordered) };
  const chunkIndex = take(body, ordered);
  return { chunkIndex, chunkedFields: nestBelowKeys(rest, ordered) };
}

function take(entry: PlacedEntry, ordered: { content: MessageView | ByteSource; path: string }[]): bigint {
  ordered.push({ content: entry.content, path: entry.path });
  return BigInt(ordered.length - 1);
}

function chunkedField(
  fieldTag: readonly FieldIndex[],
  message: { chunkIndex?: bigint; chunkedFields?: ChunkedField[] },
): ChunkedField {
  return create(ChunkedFieldSchema, { fieldTag: [...fieldTag], message: create(ChunkedMessageSchema, message) });
}

function sharesPrefix(a: PlacedEntry, b: PlacedEntry, depth: number): boolean {
  return b.tag.length >= depth && compareTags(a.tag.slice(0, depth), b.tag.slice(0, depth), "field tags") === 0;
}
