import type { Field } from "../../proto/field-list.js";
import type { MessageView } from "../../proto/message-view.js";
import { messageIn } from "./graphs.js";
import { readText } from "./nodes.js";

// Field numbers. Source: tensorflow/core/protobuf/meta_graph.proto.
const META_INFO_DEF = 1;
const TAGS = 4;
const TENSORFLOW_VERSION = 5;

/** The tags of a meta graph, and the version of TensorFlow that wrote it. */
export async function metaInfoOf(metaGraph: MessageView): Promise<{ tags: string[]; tensorflowVersion: string }> {
  const info = await messageIn(metaGraph, META_INFO_DEF);
  if (info === undefined) return { tags: [], tensorflowVersion: "" };
  const list = await info.open();
  const tags: string[] = [];
  for (let i = 0; i < list.count(TAGS); i++) {
    const value = info.value(list.at(TAGS, i) as Field);
    tags.push(new TextDecoder().decode(await value.read(0, value.size)));
  }
  return { tags, tensorflowVersion: await readText(info, list, TENSORFLOW_VERSION) };
}
