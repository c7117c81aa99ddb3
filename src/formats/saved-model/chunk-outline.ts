import type { ChunkedMessage } from "../../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { ChunkInfo_Type } from "../../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { MessageRules } from "../../proto/message-rules.js";
import { compressionOf } from "../../riegeli/chunk-facts.js";
import { type ChunkLocation, chunkTypeName } from "../../riegeli/chunk-header.js";
import type { ChunkedFile } from "../../splitter/chunked-file.js";
import { formatTag } from "../../splitter/field-tag.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";

/** Where the chunks of a message belong: for each chunk index the paths of the fields that name it. */
export function chunkPaths(message: ChunkedMessage | undefined, root: MessageRules): Map<number, string[]> {
  const paths = new Map<number, string[]>();
  const add = (index: bigint | undefined, path: string) => {
    if (index !== undefined) paths.set(Number(index), [...(paths.get(Number(index)) ?? []), path]);
  };
  const walk = (one: ChunkedMessage | undefined, tag: ChunkedMessage["chunkedFields"][number]["fieldTag"]) => {
    const path = formatTag(tag, root);
    add(one?.chunkIndex, path);
    add(one?.cairnTreeChunk, `${path} (tree)`);
    for (const field of one?.chunkedFields ?? []) walk(field.message, [...tag, ...field.fieldTag]);
  };
  walk(message, []);
  return paths;
}

/** The outline of a .cpb's chunks: what each holds, its bytes in the file, its compression. */
export async function outlineChunks(file: ChunkedFile, root: MessageRules): Promise<OutlineNode> {
  const { metadata, metadataRecord } = file;
  const paths = chunkPaths(metadata.message, root);
  const version = metadata.version;
  const total = metadata.chunks.reduce((sum, { size }) => sum + Number(size), 0);
  return {
    label: "chunks",
    kind: "chunks",
    detail: `${formatCount(metadata.chunks.length, "chunk")}, ${formatBytes(total)} decoded, splitter version ${version?.splitterVersion ?? 0}, join version ${version?.joinVersion ?? 0}`,
    facts: {
      chunkCount: metadata.chunks.length,
      splitterVersion: version?.splitterVersion ?? 0,
      joinVersion: version?.joinVersion ?? 0,
    },
    children: async () => {
      const nodes: OutlineNode[] = [];
      for (const index of metadata.chunks.keys()) nodes.push(await outlineChunk(file, index, paths.get(index) ?? []));
      nodes.push(await outlineRecord(file, "metadata", "ChunkMetadata", metadataRecord.chunk, metadataRecord.size));
      return nodes;
    },
  };
}

async function outlineChunk(file: ChunkedFile, index: number, paths: readonly string[]): Promise<OutlineNode> {
  const info = file.metadata.chunks[index];
  const type =
    info?.type === ChunkInfo_Type.BYTES ? "bytes" : info?.type === ChunkInfo_Type.MESSAGE ? "message" : "unset";
  const what = paths.length === 0 ? "(no field names it)" : paths.map((path) => path || "(root)").join(", ");
  const record = await file.record(index, true);
  const node = await outlineRecord(file, String(index), what, record.chunk, record.size);
  return {
    ...node,
    kind: "chunk",
    detail: `${type === "message" ? "message" : type}  ${node.detail}`,
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

async function outlineRecord(
  file: ChunkedFile,
  label: string,
  what: string,
  chunk: ChunkLocation,
  size: number,
): Promise<OutlineNode> {
  const { source } = file.reader;
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
