import type { DescMessage } from "@bufbuild/protobuf";
import { FunctionDefSchema } from "../proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../proto/gen/tensorflow/core/framework/graph_pb.js";
import { NodeDefSchema } from "../proto/gen/tensorflow/core/framework/node_def_pb.js";
import { SavedModelSchema } from "../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import type { MessageView } from "../proto/message-view.js";
import { ComposableSplitter, type SplitterInput, type SplitterOptions } from "./composable-splitter.js";
import { sliceMessage, splitMessage, splitSizesFor } from "./split-message.js";

/**
 * Splits a message of any type whose schema is given: it finds what is large by itself. A message of at most
 * `maxChunkSize` bytes is left whole. See {@link splitMessage} for what leaves and what cannot.
 */
export class MessageSplitter extends ComposableSplitter {
  /** See {@link ComposableSplitter.buildChunks}. */
  async buildChunks(): Promise<void> {
    if ((await this.message.toSource()).size <= this.maxChunkSize) return;
    const emit = (
      steps: Parameters<typeof this.add>[0]["steps"],
      content: MessageView | Parameters<typeof this.add>[0]["content"],
    ) => this.add({ steps, content });
    const { slices } = await splitMessage(this.message, [], splitSizesFor(this.maxChunkSize), emit);
    for (const slice of slices) this.add({ steps: [], content: slice });
  }
}

/** Splits a SavedModel: constants, functions, nodes, and all else that is large, in every meta graph. */
export class SavedModelSplitter extends MessageSplitter {
  /** A splitter of a SavedModel message. */
  constructor(proto: SplitterInput, options?: SplitterOptions) {
    super(SavedModelSchema, proto, options);
  }
}

/** Splits a GraphDef. */
export class GraphDefSplitter extends MessageSplitter {
  /** A splitter of a GraphDef message. */
  constructor(proto: SplitterInput, options?: SplitterOptions) {
    super(GraphDefSchema, proto, options);
  }
}

/** Splits a FunctionDef. */
export class FunctionDefSplitter extends MessageSplitter {
  /** A splitter of a FunctionDef message. */
  constructor(proto: SplitterInput, options?: SplitterOptions) {
    super(FunctionDefSchema, proto, options);
  }
}

/** Takes the value out of a constant NodeDef that is larger than the maximum chunk size, and leaves other nodes whole. */
export class ConstantSplitter extends ComposableSplitter {
  /** A splitter of a NodeDef message. */
  constructor(proto: SplitterInput, options?: SplitterOptions) {
    super(NodeDefSchema, proto, options);
  }

  /** See {@link ComposableSplitter.buildChunks}. */
  async buildChunks(): Promise<void> {
    if ((await this.message.toSource()).size <= this.maxChunkSize) return;
    await this.moveOut(["attr", "value", "tensor", "tensor_content"]);
  }
}

/** Takes the whole message out of its parent when it is larger than a third of the maximum chunk size. */
export class LargeMessageSplitter extends ComposableSplitter {
  /** See {@link ComposableSplitter.buildChunks}. */
  async buildChunks(): Promise<void> {
    if ((await this.message.toSource()).size <= Math.floor(this.maxChunkSize / 3)) return;
    this.add({ steps: [], content: this.message.takeOut() });
  }
}

/** Makes the splitter of one element; it is given the parent and the element's place there. */
export type ElementSplitter = (element: MessageView, options: SplitterOptions) => ComposableSplitter;

/**
 * Splits a repeated message field: first each large element by its own splitters, then the list in slices.
 */
export class RepeatedMessageSplitter extends ComposableSplitter {
  private readonly field: string | number;
  private readonly elementSplitters: readonly ElementSplitter[];

  /** A splitter of the elements of `field` in a message of type `schema`. */
  constructor(
    schema: DescMessage,
    proto: SplitterInput,
    options: SplitterOptions & {
      readonly field: string | number;
      readonly elementSplitters?: readonly ElementSplitter[];
    },
  ) {
    super(schema, proto, options);
    this.field = options.field;
    this.elementSplitters = options.elementSplitters ?? [];
  }

  /** See {@link ComposableSplitter.buildChunks}. */
  async buildChunks(): Promise<void> {
    const { message, maxChunkSize } = this;
    const list = await message.open();
    const rule =
      typeof this.field === "number" ? message.rules.field(this.field) : message.rules.fieldNamed(this.field);
    if (rule === undefined) return;
    for (let index = 0; index < list.count(rule.number); index++) {
      const field = list.at(rule.number, index);
      if (field === undefined || field.valueSize <= Math.floor(maxChunkSize / 3)) continue;
      const element = message.edit(field);
      if (element === undefined) continue;
      for (const make of this.elementSplitters) {
        await make(element, { parentSplitter: this, fieldsInParent: [rule.number, index], maxChunkSize }).buildChunks();
      }
    }
    const sizes = { message: maxChunkSize, nested: maxChunkSize, value: maxChunkSize };
    for (const slice of await sliceMessage(message, sizes)) this.add({ steps: [], content: slice });
  }
}
