import type { Field } from "../../proto/field-list.js";
import { FunctionDefSchema } from "../../proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../../proto/gen/tensorflow/core/framework/graph_pb.js";
import { MetaGraphDefSchema } from "../../proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedModelSchema } from "../../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { nameOf } from "../../proto/message-path.js";
import type { MessageView } from "../../proto/message-view.js";

/** A list of nodes: a graph, or the body of a function. */
export interface NodeList {
  /** What the keys of its constants begin with: empty for the first graph, `FUNCTION:` for a function. */
  readonly keyPrefix: string;
  /** The function's name; undefined for a graph. */
  readonly functionName: string | undefined;
  /** The message that has the nodes. */
  readonly view: MessageView;
  /** The number of the field with the nodes. */
  readonly field: number;
}

// Field numbers. Source: saved_model.proto, meta_graph.proto, graph.proto, function.proto.
const SAVED_MODEL_META_GRAPHS = 2;
const META_GRAPH_GRAPH_DEF = 2;
const GRAPH_NODE = 1;
const GRAPH_LIBRARY = 2;
const LIBRARY_FUNCTION = 1;
const FUNCTION_NODE_DEF = 3;

/** The meta graphs of a SavedModel, or the one that the root is; none for other types. */
export async function metaGraphsOf(root: MessageView): Promise<MessageView[]> {
  if (root.rules.typeName === MetaGraphDefSchema.typeName) return [root];
  if (root.rules.typeName !== SavedModelSchema.typeName) return [];
  return messagesIn(root, SAVED_MODEL_META_GRAPHS);
}

/** The GraphDefs of a model: one for each meta graph, or the one that the root is. */
export async function graphsOf(root: MessageView): Promise<MessageView[]> {
  if (root.rules.typeName === GraphDefSchema.typeName) return [root];
  const graphs: MessageView[] = [];
  for (const metaGraph of await metaGraphsOf(root)) {
    const graph = await messageIn(metaGraph, META_GRAPH_GRAPH_DEF);
    if (graph !== undefined) graphs.push(graph);
  }
  return graphs;
}

/** The functions in a graph's library. */
export async function functionsOf(graph: MessageView): Promise<MessageView[]> {
  const library = await messageIn(graph, GRAPH_LIBRARY);
  return library === undefined ? [] : messagesIn(library, LIBRARY_FUNCTION);
}

/**
 * All lists of nodes of a model: each graph and then its functions. A constant's key is its node's name, with
 * `FUNCTION:` before it in a function, and `meta_graphs[i].` before that from the second meta graph on.
 */
export async function* nodeListsOf(root: MessageView): AsyncGenerator<NodeList> {
  if (root.rules.typeName === FunctionDefSchema.typeName) {
    yield { keyPrefix: "", functionName: await nameOf(root), view: root, field: FUNCTION_NODE_DEF };
    return;
  }
  for (const [i, graph] of (await graphsOf(root)).entries()) {
    const keyPrefix = i === 0 ? "" : `meta_graphs[${i}].`;
    yield { keyPrefix, functionName: undefined, view: graph, field: GRAPH_NODE };
    for (const view of await functionsOf(graph)) {
      const functionName = await nameOf(view);
      yield { keyPrefix: `${keyPrefix}${functionName}:`, functionName, view, field: FUNCTION_NODE_DEF };
    }
  }
}

/** The message in a singular field. */
export async function messageIn(view: MessageView, number: number): Promise<MessageView | undefined> {
  const rule = view.rules.field(number);
  const field = rule === undefined ? undefined : await view.single(rule);
  return field === undefined ? undefined : view.message(field);
}

/** The messages in a repeated field. */
export async function messagesIn(view: MessageView, number: number): Promise<MessageView[]> {
  const list = await view.open();
  const messages: MessageView[] = [];
  for (let i = 0; i < list.count(number); i++) {
    const message = view.message(list.at(number, i) as Field);
    if (message !== undefined) messages.push(message);
  }
  return messages;
}
