import { elementCount, formatShape } from "../../tensor/shape.js";
import type { TensorInfo } from "../../tensor/tensor-source.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import type { SafetensorsFile } from "./file.js";
import type { SafetensorsMetadata } from "./header.js";
import type { SafetensorsModel } from "./model.js";

/** The outline of an open model. The model has to stay open as long as children are asked for. */
export async function outlineSafetensors(model: SafetensorsModel): Promise<OutlineNode> {
  const names = [...model.shardPaths.keys()];
  const shards: SafetensorsFile[] = [];
  for (const name of names) shards.push(await model.shard(name));
  const metadata = await model.metadata();
  const tensors = shards.flatMap((file) => [...file.tensors.values()]);
  const byteLength = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  const parameters = tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const inFiles = names.length === 1 ? "" : ` in ${formatCount(names.length, "file")}`;
  const counts = `${formatCount(tensors.length, "tensor")}${inFiles}, ${formatCount(parameters, "element")}`;
  return {
    label: model.path,
    kind: "safetensors",
    detail: `safetensors, ${counts}, ${formatBytes(byteLength)}${describeDTypes(tensors)}`,
    facts: {
      tensorCount: tensors.length,
      elementCount: parameters,
      byteLength,
      fileCount: names.length,
      hasIndex: model.index !== undefined,
      metadata,
    },
    children: async () => [...outlineMetadata(metadata), ...outlineFiles(names, shards)],
  };
}

/** Which dtypes there are, the most frequent first. */
function describeDTypes(tensors: readonly TensorInfo[]): string {
  const counts = new Map<string, number>();
  for (const { dtype } of tensors) counts.set(dtype, (counts.get(dtype) ?? 0) + 1);
  const names = [...counts].sort(([, a], [, b]) => b - a).map(([name]) => name);
  return names.length === 0 ? "" : `, ${names.join(" ")}`;
}

function outlineMetadata(metadata: SafetensorsMetadata): OutlineNode[] {
  const entries = Object.entries(metadata);
  if (entries.length === 0) return [];
  return [
    {
      label: "metadata",
      kind: "metadata",
      detail: formatCount(entries.length, "text"),
      facts: metadata,
      children: async () => entries.map(([key, text]) => ({ label: key, kind: "text", detail: oneLine(text) })),
    },
  ];
}

/** A text for one line of an outline. */
function oneLine(text: string): string {
  const shown = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  return JSON.stringify(shown).slice(1, -1);
}

/** The tensors of the only file, or each file with its tensors. */
function outlineFiles(names: readonly string[], shards: readonly SafetensorsFile[]): OutlineNode[] {
  const [only] = shards;
  if (shards.length === 1 && only !== undefined) return outlineTensors(only);
  return shards.map((file, i) => ({
    label: names[i] ?? file.source.name,
    kind: "shard",
    detail: `${formatCount(file.tensors.size, "tensor")}, ${formatBytes(file.source.size)}`,
    facts: { tensorCount: file.tensors.size, byteLength: file.source.size },
    range: { file: file.source.name, start: 0, end: file.source.size },
    children: async () => outlineTensors(file),
  }));
}

function outlineTensors(file: SafetensorsFile): OutlineNode[] {
  return [...file.tensors.values()].map(({ key, dtype, shape, byteLength, facts }) => {
    const start = Number(facts?.offset ?? 0);
    return {
      label: key,
      kind: "tensor",
      detail: `${dtype} ${formatShape(shape)}, ${formatBytes(byteLength)}`,
      facts: { dtype, shape: [...shape], byteLength, ...facts },
      range: { file: file.source.name, start, end: start + byteLength },
    };
  });
}
