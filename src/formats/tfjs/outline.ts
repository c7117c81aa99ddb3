import { elementCount, formatShape } from "../../tensor/shape.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import type { PlacedWeight } from "./group-layout.js";
import type { TfjsModel } from "./model.js";
import { isObject, type WeightSpec } from "./model-json.js";
import type { ShardFile } from "./shard-files.js";
import { graphNodes, modelOf, type TopologyLayer } from "./topology.js";

/** The outline of an open model. The model has to stay open as long as children are asked for. */
export async function outlineTfjs(model: TfjsModel): Promise<OutlineNode> {
  const { fields, groups, path, byteLength } = model.json;
  const specs = groups.flatMap(({ weights }) => weights);
  const layers = modelOf(fields.modelTopology);
  const nodes = graphNodes(fields.modelTopology);
  const fileCount = groups.reduce((sum, { paths }) => sum + paths.length, 0);
  const what =
    layers === undefined ? (nodes === undefined ? "weights" : "graph model") : `layers model, ${layers.className}`;
  const parameters = specs.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  return {
    label: path,
    kind: "tfjs",
    detail: `TF.js ${what}, ${formatCount(specs.length, "weight")} in ${formatCount(fileCount, "file")}, ${formatCount(parameters, "element")}${quantizations(specs)}`,
    facts: {
      format: text(fields.format),
      generatedBy: text(fields.generatedBy),
      convertedBy: text(fields.convertedBy),
      topology: layers?.className ?? (nodes === undefined ? null : "graph"),
      weightCount: specs.length,
      elementCount: parameters,
      groupCount: groups.length,
      fileCount,
      metadata: await model.metadata(),
    },
    range: { file: path, start: 0, end: byteLength },
    children: async () => [
      ...(layers === undefined ? [] : [outlineLayer(layers)]),
      ...(nodes === undefined ? [] : [outlineGraph(nodes)]),
      ...outlineSignature(fields.signature),
      ...outlineGroups(model),
    ],
  };
}

function quantizations(specs: readonly WeightSpec[]): string {
  const stored = new Set(specs.flatMap(({ quantization }) => quantization?.dtype ?? []));
  return stored.size === 0 ? "" : `, quantized as ${[...stored].join(" and ")}`;
}

function outlineLayer(layer: TopologyLayer): OutlineNode {
  const inner = layer.layers ?? layer.inner.map(([, one]) => one).filter(({ name }) => name !== "");
  return {
    label: layer.name,
    kind: layer.layers === undefined ? "layer" : "model",
    detail: layer.layers === undefined ? layer.className : `${layer.className}, ${formatCount(inner.length, "layer")}`,
    facts: { className: layer.className },
    ...(inner.length === 0 ? {} : { children: async () => inner.map(outlineLayer) }),
  };
}

function outlineGraph(nodes: readonly { readonly name: string; readonly op: string }[]): OutlineNode {
  const counts = new Map<string, number>();
  for (const { op } of nodes) counts.set(op, (counts.get(op) ?? 0) + 1);
  const sorted = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return {
    label: "graph",
    kind: "graph",
    detail: `${formatCount(nodes.length, "node")}, ${formatCount(sorted.length, "op")}`,
    facts: { nodeCount: nodes.length, ops: Object.fromEntries(sorted) },
    children: async () =>
      sorted.map(([op, count]) => ({ label: op, kind: "op", detail: formatCount(count, "node"), facts: { count } })),
  };
}

function outlineSignature(signature: unknown): OutlineNode[] {
  if (!isObject(signature)) return [];
  const tensors = ["inputs", "outputs"].flatMap((side) => {
    const named = signature[side];
    if (!isObject(named)) return [];
    return Object.entries(named).map(([name, value]): OutlineNode => {
      const { dtype, tensorShape } = isObject(value) ? value : {};
      const type = typeof dtype === "string" ? dtype.replace(/^DT_/, "").toLowerCase() : "?";
      const shape = shapeOf(tensorShape);
      const direction = side === "inputs" ? "in" : "out";
      return {
        label: `${direction} ${name}`,
        kind: side === "inputs" ? "input" : "output",
        detail: `${type} ${shape === undefined ? "(unknown rank)" : formatShape(shape)}`,
        facts: { name, dtype: type, shape: shape ?? null },
      };
    });
  });
  return [{ label: "signature", kind: "signature", children: async () => tensors }];
}

/** A TensorShapeProto in JSON. */
function shapeOf(shape: unknown): number[] | undefined {
  if (!isObject(shape) || shape.unknownRank === true) return undefined;
  const dims = Array.isArray(shape.dim) ? shape.dim : [];
  return dims.map((dim: unknown) => (isObject(dim) ? Number(dim.size ?? 0) : -1));
}

function outlineGroups(model: TfjsModel): OutlineNode[] {
  return model.json.groups.map(({ weights, paths }, i) => ({
    label: `group ${i + 1}`,
    kind: "group",
    detail: `${formatCount(weights.length, "weight")} in ${formatCount(paths.length, "file")}`,
    facts: { paths, weightCount: weights.length },
    children: async () => {
      const files = await model.shards.look(model.shardPaths(i));
      const layout = await model.layout(i);
      return layout.weights.map((place) => outlineWeight(place, files));
    },
  }));
}

function outlineWeight(place: PlacedWeight, files: readonly (ShardFile | undefined)[]): OutlineNode {
  const { spec, offset, byteLength } = place;
  const { name, dtype, shape, quantization, group } = spec;
  const parts = rangesOf(offset, byteLength, files);
  const [only] = parts;
  const storedAs = quantization === undefined ? "" : `, stored as ${quantization.dtype}`;
  const within = parts.length > 1 ? `, in ${parts.length} files` : "";
  return {
    label: name,
    kind: group === "optimizer" ? "slot" : "tensor",
    detail: `${dtype} ${formatShape(shape)}, ${formatBytes(byteLength)}${storedAs}${within}`,
    facts: {
      dtype,
      shape: [...shape],
      byteLength,
      ...(quantization === undefined ? {} : { quantization: { ...quantization } }),
      ...(parts.length > 1 ? { ranges: parts.map(({ file, start, end }) => ({ file, start, end })) } : {}),
    },
    ...(parts.length === 1 && only !== undefined ? { range: only } : {}),
  };
}

/** The bytes of a weight in each file that has some; none when a file before is missing. */
export function rangesOf(
  offset: number,
  byteLength: number,
  files: readonly (ShardFile | undefined)[],
): { file: string; start: number; end: number }[] {
  const ranges: { file: string; start: number; end: number }[] = [];
  let base = 0;
  for (const file of files) {
    if (file === undefined) return ranges;
    const start = Math.max(0, offset - base);
    const end = Math.min(file.size, offset + byteLength - base);
    if (start < end) ranges.push({ file: file.path, start, end });
    base += file.size;
  }
  return ranges;
}
