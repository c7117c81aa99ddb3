import { openRecovered } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { AssetFileDefSchema } from "../../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import type { MessageView } from "../../proto/message-view.js";
import type { MergerOptions } from "../../splitter/merger.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import { ModelConstants } from "./constants.js";
import { type GraphSummary, summarizeGraph } from "./graph-summary.js";
import { messagesIn, metaGraphsOf, nodeListsOf } from "./graphs.js";
import { metaInfoOf } from "./meta-info.js";
import { ModelFile, parseView } from "./model-file.js";
import { type Signature, signaturesOf } from "./signatures.js";

// Source: tensorflow/core/protobuf/meta_graph.proto, MetaGraphDef.asset_file_def.
const ASSET_FILE_DEF = 6;

/** One meta graph of a SavedModel. Each method reads only what it needs. */
export class MetaGraph {
  /** The MetaGraphDef, lazily. */
  readonly view: MessageView;

  /** Made by {@link OpenedModel.metaGraphs}. */
  constructor(view: MessageView) {
    this.view = view;
  }

  /** Such as `serve`. */
  async tags(): Promise<readonly string[]> {
    return (await metaInfoOf(this.view)).tags;
  }

  /** The version of TensorFlow that wrote it, or "". */
  async tensorflowVersion(): Promise<string> {
    return (await metaInfoOf(this.view)).tensorflowVersion;
  }

  /** The functions that it offers to be called, by name. */
  signatures(): Promise<readonly Signature[]> {
    return signaturesOf(this.view);
  }

  /** Files under `assets/` that tensors of the graph name. */
  async assets(): Promise<readonly { readonly filename: string; readonly tensor: string }[]> {
    const assets = await messagesIn(this.view, ASSET_FILE_DEF);
    return Promise.all(
      assets.map(async (asset) => {
        const { filename, tensorInfo } = await parseView(AssetFileDefSchema, asset);
        return { filename, tensor: tensorInfo?.encoding.case === "name" ? tensorInfo.encoding.value : "" };
      }),
    );
  }
}

/** A model that was opened. Close it when it is no longer needed. */
export class OpenedModel {
  /** Its files and its proto. */
  readonly file: ModelFile;

  /** Made by {@link openSavedModel}. */
  constructor(file: ModelFile) {
    this.file = file;
  }

  /** The root message, lazily. */
  get view(): MessageView {
    return this.file.view;
  }

  /** Its meta graphs; none for a bare GraphDef. */
  async metaGraphs(): Promise<readonly MetaGraph[]> {
    return (await metaGraphsOf(this.view)).map((view) => new MetaGraph(view));
  }

  /** Counts of nodes, functions and ops, and the largest constants. Reads all nodes, but no large constant. */
  summary(): Promise<GraphSummary> {
    return summarizeGraph(nodeListsOf(this.view), this.file.paths.protoPath);
  }

  /** Its constants as tensors; do not close them apart from the model. */
  constants(): TensorSource {
    return new ModelConstants(this.file);
  }

  /** Gives back the files. */
  close(): Promise<void> {
    return this.file.close();
  }
}

/**
 * Opens a SavedModel directory, or a `.pb`, `.cpb` or `.pbtxt` file. Nothing but names is read before it is asked for.
 * @throws NotFoundError (`not-found`), and what damaged files give
 */
export async function openSavedModel(
  path: string,
  options: Omit<MergerOptions, "check"> & { readonly files: FileStore },
): Promise<OpenedModel> {
  const { files, ignoreVersion } = options;
  return openRecovered(files, path, async () => new OpenedModel(await ModelFile.open(files, path, { ignoreVersion })));
}
