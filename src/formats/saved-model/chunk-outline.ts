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
  const total = metadata.chunks.reduce((sum, { size }) => sum + Number(size), 0);
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
      const nodes: OutlineNode[] = [];
      for (const index of metadata.chunks.keys()) nodes.push(await outlineChunk(file, index, paths.get(index) ?? []));
      const { chunk, size } = metadataRecord;
      nodes.push(await outlineRecord(file.reader.source, "metadata", "ChunkMetadata", { chunk, size }));
      return nodes;
    },
  };
}

async function outlineChunk(file: ChunkedFile, index: number, paths: readonly string[]): Promise<OutlineNode> {
  const info = file.metadata.chunks[index];
  const type =
    info?.type === ChunkInfo_Type.BYTES ? "bytes" : info?.type === ChunkInfo_Type.MESSAGE ? "message" : "unset";
  const what = paths.length === 0 ? "(no field names it)" : paths.map((path) => path || "(root)").join(", ");
  const node = await outlineRecordOf(file, index, what);
  return {
    ...node,
    kind: "chunk",
    detail: `${type}  ${node.detail}`,
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
  const stored = compression === "none" ? "stored" : `${compression} ${formatBytes(chunk.dataSize)}${shared}`;
  const kind = chunkTypeName(chunk.type) === "transposed" ? ", transposed" : "";
  return {
    label,
    kind: "record",
    detail: `${formatBytes(size)}  ${stored}${kind}  ${what}`,
    facts: {
      compression,
      storedSize: chunk.dataSize,
      chunkType: chunkTypeName(chunk.type),
      recordsInChunk: chunk.recordCount,
    },
    range: { file: source.name, start: chunk.begin, end: chunk.end },
  };
}
