import type { FileInfo, FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { isCairnError } from "../../errors.js";
import { AssetFileDefSchema } from "../../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedObjectGraphSchema } from "../../proto/gen/tensorflow/core/protobuf/saved_object_graph_pb.js";
import { nameOf } from "../../proto/message-path.js";
import type { MessageView } from "../../proto/message-view.js";
import { formatShape } from "../../tensor/shape.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import { outlineChunks } from "./chunk-outline.js";
import { outlineFunction, outlineGraph, summarizeGraph } from "./graph-summary.js";
import { functionsOf, graphsOf, messageIn, messagesIn, metaGraphsOf, type NodeList, nodeListsOf } from "./graphs.js";
import { metaInfoOf } from "./meta-info.js";
import { type ModelFile, parseView } from "./model-file.js";
import { type Signature, type SignatureTensor, signaturesOf } from "./signatures.js";
import { outlineVariables } from "./variables.js";

// Field numbers. Source: tensorflow/core/protobuf/meta_graph.proto.
const ASSET_FILE_DEF = 6;
const OBJECT_GRAPH_DEF = 7;
const FUNCTION_NODE_DEF = 3;

/** An object graph up to this is counted by kind, 16 MiB. */
const MAX_COUNTED_OBJECT_GRAPH_BYTES = 16 * 1024 * 1024;

/** The outline of an open model. The model has to stay open as long as children are asked for. */
export async function outlineModel(model: ModelFile): Promise<OutlineNode> {
  const { view, paths, proto } = model;
  const metaGraphs = await metaGraphsOf(view);
  const versions = new Set<string>();
  for (const metaGraph of metaGraphs) versions.add((await metaInfoOf(metaGraph)).tensorflowVersion);
  versions.delete("");
  const children: OutlineNode[] = [];
  for (const [i, metaGraph] of metaGraphs.entries()) children.push(await outlineMetaGraph(model, metaGraph, i));
  if (metaGraphs.length === 0) children.push(...(await outlineBare(model)));
  if (proto.chunks !== undefined) children.push(await outlineChunks(proto.chunks, view.rules));
  if (paths.directory !== undefined) {
    children.push(...(await outlineVariables(model.files, paths.directory)));
    children.push(...(await outlineFiles(model.files, paths.directory)));
  }
  const written = versions.size === 0 ? "" : `, TensorFlow ${[...versions].join(", ")}`;
  return {
    label: paths.directory ?? paths.protoPath,
    kind: "saved-model",
    detail: `${model.typeName}${written}, ${baseName(paths.protoPath)} ${formatBytes(proto.source.size)}`,
    facts: {
      type: model.typeName,
      file: paths.protoPath,
      byteLength: proto.source.size,
      isSplit: proto.isSplit,
      metaGraphCount: metaGraphs.length,
      tensorflowVersions: [...versions],
    },
    children: async () => children,
  };
}

async function outlineMetaGraph(model: ModelFile, metaGraph: MessageView, index: number): Promise<OutlineNode> {
  const { tags, tensorflowVersion } = await metaInfoOf(metaGraph);
  const signatures = await signaturesOf(metaGraph);
  return {
    label: `meta graph ${index}`,
    kind: "meta-graph",
    detail: `tags ${tags.join(", ") || "(none)"}`,
    facts: { tags, tensorflowVersion },
    children: async () => {
      const children: OutlineNode[] = [outlineSignatures(signatures)];
      const graphs = await graphsOf(model.view);
      const graph = graphs[index];
      if (graph !== undefined) children.push(await outlineOneGraph(model, graph, index));
      children.push(...(await outlineAssets(metaGraph)), ...(await outlineObjects(metaGraph)));
      return children;
    },
  };
}

function outlineSignatures(signatures: readonly Signature[]): OutlineNode {
  return {
    label: "signatures",
    kind: "signatures",
    detail: formatCount(signatures.length, "signature"),
    children: async () => signatures.map(outlineSignature),
  };
}

function outlineSignature({ name, methodName, inputs, outputs }: Signature): OutlineNode {
  return {
    label: name,
    kind: "signature",
    detail: methodName,
    facts: { methodName },
    children: async () => [
      ...inputs.map((tensor) => outlineSignatureTensor("in", tensor)),
      ...outputs.map((tensor) => outlineSignatureTensor("out", tensor)),
    ],
  };
}

function outlineSignatureTensor(direction: "in" | "out", { name, tensor, dtype, shape }: SignatureTensor): OutlineNode {
  const form = shape === undefined ? "(unknown rank)" : formatShape(shape);
  return {
    label: `${direction} ${name}`,
    kind: direction === "in" ? "input" : "output",
    detail: `${dtype ?? "?"} ${form}  ${tensor}`,
    facts: { name, tensor, dtype: dtype ?? null, shape: shape === undefined ? null : [...shape] },
  };
}

async function outlineOneGraph(model: ModelFile, graph: MessageView, index: number): Promise<OutlineNode> {
  const prefix = index === 0 ? "" : `meta_graphs[${index}].`;
  async function* lists(): AsyncGenerator<NodeList> {
    for await (const list of nodeListsOf(model.view)) {
      const isOwn = prefix === "" ? !list.keyPrefix.startsWith("meta_graphs[") : list.keyPrefix.startsWith(prefix);
      if (isOwn) yield list;
    }
  }
  return outlineGraph(await summarizeGraph(lists(), model.paths.protoPath), "graph", () => outlineFunctions(graph));
}

async function outlineFunctions(graph: MessageView): Promise<OutlineNode[]> {
  const nodes: OutlineNode[] = [];
  for (const view of await functionsOf(graph)) {
    nodes.push(await outlineFunction(view, (await nameOf(view)) ?? "", FUNCTION_NODE_DEF));
  }
  return nodes;
}

/** What stands in a file that is no SavedModel: a GraphDef, or a FunctionDef. */
async function outlineBare(model: ModelFile): Promise<OutlineNode[]> {
  const [graph] = await graphsOf(model.view);
  const summary = await summarizeGraph(nodeListsOf(model.view), model.paths.protoPath);
  if (summary.nodeCount + summary.functionNodeCount === 0) return [];
  return [outlineGraph(summary, "graph", async () => (graph === undefined ? [] : outlineFunctions(graph)))];
}

async function outlineAssets(metaGraph: MessageView): Promise<OutlineNode[]> {
  const assets = await messagesIn(metaGraph, ASSET_FILE_DEF);
  if (assets.length === 0) return [];
  const nodes: OutlineNode[] = [];
  for (const asset of assets) {
    const { filename, tensorInfo } = await parseView(AssetFileDefSchema, asset);
    const tensor = tensorInfo?.encoding.case === "name" ? tensorInfo.encoding.value : "";
    nodes.push({ label: filename, kind: "asset", detail: tensor, facts: { filename, tensor } });
  }
  return [
    { label: "assets", kind: "assets", detail: formatCount(assets.length, "asset"), children: async () => nodes },
  ];
}

async function outlineObjects(metaGraph: MessageView): Promise<OutlineNode[]> {
  const view = await messageIn(metaGraph, OBJECT_GRAPH_DEF);
  if (view === undefined) return [];
  const source = await view.toSource();
  if (source.size > MAX_COUNTED_OBJECT_GRAPH_BYTES) {
    return [{ label: "object graph", kind: "object-graph", detail: formatBytes(source.size) }];
  }
  const { nodes, concreteFunctions } = await parseView(SavedObjectGraphSchema, view);
  const kinds = new Map<string, number>();
  for (const { kind } of nodes) kinds.set(kind.case ?? "object", (kinds.get(kind.case ?? "object") ?? 0) + 1);
  const byKind = [...kinds].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${count} ${kindName(kind)}`);
  const functionCount = Object.keys(concreteFunctions).length;
  return [
    {
      label: "object graph",
      kind: "object-graph",
      detail: `${formatCount(nodes.length, "object")} (${byKind.join(", ")}), ${formatCount(functionCount, "concrete function")}`,
      facts: { objectCount: nodes.length, kinds: Object.fromEntries(kinds), concreteFunctionCount: functionCount },
    },
  ];
}

/** `userObject` as `user object`. */
function kindName(kind: string): string {
  return kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** The files of a SavedModel directory beside the proto. */
async function outlineFiles(files: FileStore, directory: string): Promise<OutlineNode[]> {
  const found: FileInfo[] = [];
  await collectFiles(files, directory, found).catch((error: unknown) => {
    // A web server cannot list them.
    if (!isCairnError(error, "unsupported-operation")) throw error;
  });
  const others = found.filter(({ path }) => !/\/saved_model\.(c?pb|pbtxt)$/.test(path));
  if (others.length === 0) return [];
  return [
    {
      label: "files",
      kind: "files",
      detail: formatCount(others.length, "file"),
      children: async () =>
        others.map(({ path, size }) => ({
          label: path.slice(joinPath(directory, "x").length - 1),
          kind: "file",
          detail: formatBytes(size),
          facts: { path, byteLength: size },
        })),
    },
  ];
}

async function collectFiles(files: FileStore, directory: string, found: FileInfo[]): Promise<void> {
  for (const info of await files.list(directory)) {
    if (info.kind === "file") found.push(info);
    else await collectFiles(files, info.path, found);
  }
}
