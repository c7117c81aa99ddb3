import type { FileStore } from "../../bytes/file-store.js";
import { CairnError } from "../../errors.js";
import { decodeObjectGraph, type ObjectGraph, shortestPaths } from "../../proto/object-graph.js";
import type { ShardingSidecar } from "../../sharding/sidecar.js";
import { formatShape } from "../../tensor/shape.js";
import { STRING_LENGTH_BYTES } from "../../tensor/strings.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import { findShards, shardPath } from "./bundle-paths.js";
import { OBJECT_GRAPH_KEY } from "./checkpoint-key.js";
import type { CheckpointReader } from "./checkpoint-reader.js";
import { readDescription } from "./description.js";
import type { StoredBytes, StoredEntry } from "./stored-entry.js";

/** What the index says, for the outline; with damage its first error. */
interface Contents {
  readonly entries: readonly StoredEntry[];
  readonly damage: CairnError | undefined;
}

/** The outline of an open checkpoint, which has to stay open as long as children are asked for. */
export async function outlineCheckpoint(reader: CheckpointReader, files: FileStore): Promise<OutlineNode> {
  const contents = await readContents(reader);
  const { shardCount, isBigEndian, producer, minConsumer } = reader.header;
  const description = await readDescription(files, reader.prefix);
  const byteLength = contents.entries.reduce((sum, entry) => sum + storedLength(entry), 0);
  const parts = [
    formatCount(contents.entries.length, "tensor"),
    formatCount(shardCount, "shard"),
    formatBytes(byteLength),
    ...(isBigEndian ? ["big-endian"] : []),
  ];
  return {
    label: reader.prefix,
    kind: "checkpoint",
    detail: parts.join(", "),
    facts: {
      tensorCount: contents.entries.length,
      shardCount,
      byteLength,
      isBigEndian,
      producer,
      minConsumer,
      indexBytes: reader.index.byteLength,
      ...(description === undefined ? {} : { sharding: description.description }),
    },
    children: async () => [
      ...outlineDamage(contents.damage),
      ...outlineDescription(description),
      outlineTensors(reader, contents.entries),
      await outlineShards(reader, files, contents.entries),
      ...(await outlineObjects(reader)),
    ],
  };
}

async function readContents(reader: CheckpointReader): Promise<Contents> {
  const entries: StoredEntry[] = [];
  let damage: CairnError | undefined;
  try {
    for await (const entry of reader.entries()) entries.push(entry);
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
    damage = error;
  }
  return { entries, damage };
}

function outlineDamage(damage: CairnError | undefined): OutlineNode[] {
  if (damage === undefined) return [];
  return [{ label: "damage", kind: "damage", detail: `${damage.message} (cairn verify tells all)` }];
}

function outlineDescription(description: ShardingSidecar | undefined): OutlineNode[] {
  if (description === undefined) return [];
  const { cairnVersion, warnings } = description;
  return [
    {
      label: "sharding",
      kind: "sharding",
      detail: description.description,
      facts: { description: description.description, cairnVersion, warnings },
      ...(warnings.length === 0 ? {} : { children: async () => warnings.map((label) => ({ label, kind: "warning" })) }),
    },
  ];
}

function outlineTensors(reader: CheckpointReader, entries: readonly StoredEntry[]): OutlineNode {
  return {
    label: "tensors",
    kind: "tensors",
    detail: formatCount(entries.length, "tensor"),
    children: async () => entries.map((entry) => outlineTensor(reader, entry)),
  };
}

function outlineTensor(reader: CheckpointReader, entry: StoredEntry): OutlineNode {
  const { key, dtype, shape, stored, slices } = entry;
  const detail = `${dtype} ${formatShape(shape)}  ${formatBytes(storedLength(entry))}`;
  const facts = { key, dtype, shape: [...shape], byteLength: storedLength(entry) };
  if (stored !== undefined) {
    return { label: key, kind: "tensor", detail, facts: { ...facts, ...stored }, range: rangeOf(reader, stored) };
  }
  return {
    label: key,
    kind: "tensor",
    detail: `${detail}  in ${formatCount(slices.length, "slice")}`,
    facts: { ...facts, sliceCount: slices.length },
    children: async () =>
      slices.map(({ extents, stored: part }) => ({
        label: extents,
        kind: "slice",
        detail: `shard ${part.shard}  ${formatBytes(part.size)}`,
        facts: { ...part },
        range: rangeOf(reader, part),
      })),
  };
}

function rangeOf({ prefix, header }: CheckpointReader, { shard, offset, size }: StoredBytes) {
  return { file: shardPath(prefix, shard, header.shardCount), start: offset, end: offset + size };
}

/** Bytes of the values; of strings and variants those that are stored. */
function storedLength({ stored, slices }: StoredEntry): number {
  return stored?.size ?? slices.reduce((sum, slice) => sum + slice.stored.size, 0);
}

async function outlineShards(
  { prefix, header }: CheckpointReader,
  files: FileStore,
  entries: readonly StoredEntry[],
): Promise<OutlineNode> {
  const counts = new Map<number, number>();
  for (const { stored, slices } of entries) {
    for (const { shard } of stored === undefined ? slices.map((slice) => slice.stored) : [stored]) {
      counts.set(shard, (counts.get(shard) ?? 0) + 1);
    }
  }
  const outlineShard = async (shard: number): Promise<OutlineNode> => {
    const file = shardPath(prefix, shard, header.shardCount);
    const info = await files.stat(file);
    const count = counts.get(shard) ?? 0;
    const size = info === undefined ? "missing" : formatBytes(info.size);
    return {
      label: file,
      kind: "shard",
      detail: `${size}, ${formatCount(count, "tensor or slice", "tensors and slices")}`,
      facts: { shard, byteLength: info?.size ?? null, count },
      ...(info === undefined ? {} : { range: { file, start: 0, end: info.size } }),
    };
  };
  return {
    label: "shards",
    kind: "shards",
    detail: formatCount(header.shardCount, "data file"),
    children: async () => {
      const found = await findShards(files, prefix);
      const listed = found.filter(({ shardCount }) => shardCount === header.shardCount).map(({ shard }) => shard);
      const shards = [...new Set([...counts.keys(), ...listed])].filter((shard) => shard < header.shardCount);
      const nodes: OutlineNode[] = [];
      for (const shard of shards.sort((a, b) => a - b)) nodes.push(await outlineShard(shard));
      return nodes;
    },
  };
}

/** The tree of objects that was saved, and the savers that were registered for some of them. */
async function outlineObjects(reader: CheckpointReader): Promise<OutlineNode[]> {
  let graph: ObjectGraph;
  try {
    const data = await reader.data(OBJECT_GRAPH_KEY);
    const bytes = await data.read(0, data.size);
    graph = decodeObjectGraph(bytes.subarray(STRING_LENGTH_BYTES), data.name);
  } catch (error) {
    if (error instanceof CairnError && error.code === "no-such-key") return [];
    if (!(error instanceof CairnError)) throw error;
    return [{ label: "objects", kind: "object-graph", detail: `cannot be read: ${error.message}` }];
  }
  const savers = graph.flatMap(({ registeredSaver }) => (registeredSaver === undefined ? [] : [registeredSaver]));
  return [
    {
      label: "objects",
      kind: "object-graph",
      detail: formatCount(graph.length, "object"),
      facts: {
        objectCount: graph.length,
        registeredSavers: savers.map(({ name, objectName }) => ({ name, objectName })),
      },
      children: async () => {
        return outlineChildren({ graph, pathOf: shortestPaths(graph) }, 0, [0]);
      },
    },
  ];
}

/** The objects of a checkpoint, and how they are reached. */
interface Objects {
  readonly graph: ObjectGraph;
  readonly pathOf: ReturnType<typeof shortestPaths>;
}

/** What is below an object. An object that leads back to one above it is named and not followed. */
function outlineChildren(objects: Objects, id: number, above: readonly number[]): OutlineNode[] {
  const { graph, pathOf } = objects;
  const node = graph[id];
  if (node === undefined) return [];
  const slots = node.slots.map(({ slotName, variableId, nodeId }) => {
    const variable = pathOf(variableId).join("/") || `object ${variableId}`;
    return outlineObject(objects, nodeId, `${slotName} of ${variable}`, above);
  });
  return [...node.children.map(({ name, nodeId }) => outlineObject(objects, nodeId, name, above)), ...slots];
}

function outlineObject(objects: Objects, id: number, label: string, above: readonly number[]): OutlineNode {
  const node = objects.graph[id];
  const keys = node?.attributes.map(({ checkpointKey }) => checkpointKey) ?? [];
  const saver = node?.registeredSaver;
  const details = [...keys, ...(saver === undefined ? [] : [`saved by ${saver.name}`])];
  const isLoop = above.includes(id);
  const hasChildren = !isLoop && node !== undefined && node.children.length + node.slots.length > 0;
  return {
    label,
    kind: "object",
    detail: isLoop ? `object ${id}, as above` : details.join(", "),
    facts: {
      id,
      attributes:
        node?.attributes.map(({ name, fullName, checkpointKey }) => ({ name, fullName, checkpointKey })) ?? [],
      ...(saver === undefined ? {} : { registeredSaver: saver.name, objectName: saver.objectName }),
    },
    ...(hasChildren ? { children: async () => outlineChildren(objects, id, [...above, id]) } : {}),
  };
}
