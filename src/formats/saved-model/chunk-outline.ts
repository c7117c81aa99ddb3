import type { ByteSource } from "../../bytes/byte-source.js";
import { isCairnError } from "../../errors.js";
import type { ChunkedMessage } from "../../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { ChunkInfo_Type } from "../../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { MessageRules } from "../../proto/message-rules.js";
import { compressionOf } from "../../riegeli/chunk-facts.js";
import { type ChunkLocation, chunkTypeName } from "../../riegeli/chunk-header.js";
import type { ChunkedFile } from "../../splitter/chunked-file.js";
import { formatTag } from "../../splitter/field-tag.js";
import { TreeParts } from "../../splitter/tree-parts.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";

/** From more chunks than this on the largest are listed before all. */
const LISTED_CHUNKS = 24;
/** How many are listed as the largest. */
const LARGEST_CHUNKS = 5;
/** What a chunk is that holds a part of the tree of chunks. */
const TREE_PART = "(tree of chunks)";

/**
 * Where the chunks of a file belong: for each chunk index the paths of the fields that name it.
 * @throws CorruptionError (`chunk-index` and what the parts of a tree can have)
 */
export async function chunkPaths(file: ChunkedFile, root: MessageRules): Promise<Map<number, string[]>> {
  const { message } = file.metadata;
  if (message === undefined) return new Map();
  const parts = new TreeParts(file);
  const paths = pathsIn(await parts.expand(message), root);
  for (const index of parts.indexes) paths.set(index, [TREE_PART]);
  return paths;
}

function pathsIn(message: ChunkedMessage, root: MessageRules): Map<number, string[]> {
  const paths = new Map<number, string[]>();
  const add = (index: bigint | undefined, path: string) => {
    if (index !== undefined) paths.set(Number(index), [...(paths.get(Number(index)) ?? []), path]);
  };
  const walk = (one: ChunkedMessage | undefined, tag: ChunkedMessage["chunkedFields"][number]["fieldTag"]) => {
    const path = formatTag(tag, root);
    add(one?.chunkIndex, path);
    for (const field of one?.chunkedFields ?? []) walk(field.message, [...tag, ...field.fieldTag]);
  };
  walk(message, []);
  return paths;
}

/** The outline of a .cpb's chunks: what each holds, its bytes in the file, its compression. */
export async function outlineChunks(file: ChunkedFile, root: MessageRules): Promise<OutlineNode> {
  const { metadata, metadataRecord, relatedNames } = file;
  const paths = await chunkPaths(file, root);
  const version = metadata.version;
  const sizes = metadata.chunks.map(({ size }) => Number(size));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const places = relatedNames.length === 0 ? "" : ` in ${relatedNames.length + 1} files`;
  return {
    label: "chunks",
    kind: "chunks",
    detail: `${formatCount(metadata.chunks.length, "chunk")}${places}, ${formatBytes(total)} decoded, splitter version ${version?.splitterVersion ?? 0}, join version ${version?.joinVersion ?? 0}`,
    facts: {
      chunkCount: metadata.chunks.length,
      splitterVersion: version?.splitterVersion ?? 0,
      joinVersion: version?.joinVersion ?? 0,
      files: [...relatedNames],
    },
    children: async () => {
      const nodes: OutlineNode[] = sizes.length > LISTED_CHUNKS ? [largestChunks(sizes, paths)] : [];
      for (const index of metadata.chunks.keys()) nodes.push(await outlineChunk(file, index, paths.get(index) ?? []));
      const { chunk, size } = metadataRecord;
      const metadataNode = await outlineRecord(file.reader.source, "metadata", "ChunkMetadata", { chunk, size });
      nodes.push({ ...metadataNode, detail: `record   ${metadataNode.detail}` });
      return nodes;
    },
  };
}

/** The largest of many chunks, which a reader of the list may never come to. */
function largestChunks(sizes: readonly number[], paths: ReadonlyMap<number, readonly string[]>): OutlineNode {
  const largest = [...sizes.keys()].sort((a, b) => (sizes[b] ?? 0) - (sizes[a] ?? 0)).slice(0, LARGEST_CHUNKS);
  return {
    label: "largest",
    kind: "largest-chunks",
    facts: { indexes: largest },
    children: async () =>
      largest.map((index) => ({
        label: String(index),
        kind: "chunk",
        detail: `${formatBytes(sizes[index] ?? 0).padStart(8)}  ${describePaths(paths.get(index) ?? [])}`,
        facts: { index, size: sizes[index] ?? 0 },
      })),
  };
}

function describePaths(paths: readonly string[]): string {
  return paths.length === 0 ? "(no field names it)" : paths.map((path) => path || "(root)").join(", ");
}

async function outlineChunk(file: ChunkedFile, index: number, paths: readonly string[]): Promise<OutlineNode> {
  const info = file.metadata.chunks[index];
  const type =
    info?.type === ChunkInfo_Type.BYTES ? "bytes" : info?.type === ChunkInfo_Type.MESSAGE ? "message" : "unset";
  const node = await outlineRecordOf(file, index, describePaths(paths));
  return {
    ...node,
    kind: "chunk",
    detail: `${type.padEnd(7)}  ${node.detail}`,
    facts: {
      ...node.facts,
      index,
      type,
      paths: [...paths],
      size: Number(info?.size ?? 0),
      position: Number(info?.offset ?? 0),
    },
  };
}

/** The record of a chunk; one that cannot be read, as in a file that is not there, does not hide the others. */
async function outlineRecordOf(file: ChunkedFile, index: number, what: string): Promise<OutlineNode> {
  const label = String(index);
  try {
    const { chunk, size } = await file.record(index, true);
    const source = await file.sourceOf(index);
    const elsewhere = source === file.reader.source ? "" : `  in ${source.name}`;
    return await outlineRecord(source, label, `${what}${elsewhere}`, { chunk, size });
  } catch (error) {
    if (!isCairnError(error)) throw error;
    return { label, kind: "record", detail: `${what}  not read: ${error.message}`, facts: { error: error.code } };
  }
}

async function outlineRecord(
  source: ByteSource,
  label: string,
  what: string,
  { chunk, size }: { readonly chunk: ChunkLocation; readonly size: number },
): Promise<OutlineNode> {
  const compression = (await compressionOf(source, chunk)) ?? "none";
  const shared = chunk.recordCount > 1 ? ` with ${chunk.recordCount - 1} more` : "";
  const stored = compression === "none" ? `stored${shared}` : `${compression} ${formatBytes(chunk.dataSize)}${shared}`;
  const kind = chunkTypeName(chunk.type) === "transposed" ? ", transposed" : "";
  return {
    label,
    kind: "record",
    detail: `${formatBytes(size).padStart(8)}  ${stored}${kind}  ${what}`,
    facts: {
      compression,
      storedSize: chunk.dataSize,
      chunkType: chunkTypeName(chunk.type),
      recordsInChunk: chunk.recordCount,
    },
    range: { file: source.name, start: chunk.begin, end: chunk.end },
  };
}
