import { type DescMessage, type Message, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import type { FileStore } from "../bytes/file-store.js";
import { MemorySource } from "../bytes/memory-source.js";
import { PlanError, UsageError } from "../errors.js";
import type { ChunkedMessage } from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { VersionDefSchema } from "../proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";
import type { MapKey } from "../proto/map-key.js";
import { MessageRules } from "../proto/message-rules.js";
import { MessageView } from "../proto/message-view.js";
import { buildChunkedMessage, type Chunk, type ChunkEntry } from "./chunk.js";
import { shareEqualChunks } from "./equal-chunks.js";
import { type FieldTags, formatSteps, parseFieldTags, type TagStep } from "./field-tag.js";
import { SPLITTER_VERSION } from "./version.js";
import { type WriteOptions, type WrittenProto, writeProto } from "./write-proto.js";

/** What a splitter takes: a protobuf-es message, serialized bytes in memory or anywhere, or a view. */
export type SplitterInput = Message | Uint8Array | ByteSource | MessageView;

/** What a splitter made: the chunks in the order of their indexes, and how they make up the message. */
export interface SplitOutput {
  readonly chunks: readonly Chunk[];
  readonly chunkedMessage: ChunkedMessage;
  /** What could not be cut to the size asked for, and why. */
  readonly warnings: readonly string[];
}

/** Splits a proto message and writes it. */
export abstract class Splitter {
  /** The chunks of the message, and how to merge them. */
  abstract split(): Promise<SplitOutput>;
  /**
   * Writes the message: `PREFIX.pb` when nothing was split, else `PREFIX.cpb`. The file appears whole or not at all.
   */
  abstract write(prefix: string, options: WriteOptions & { readonly files: FileStore }): Promise<WrittenProto>;
}

/** Chunks of at most 1 GiB, as in TensorFlow's own splitter. */
export const DEFAULT_MAX_CHUNK_SIZE: number = 2 ** 30;

/** Options of a {@link ComposableSplitter}. */
export interface SplitterOptions {
  /** Chunks are to be no larger, in bytes; 1 GiB when it is not given. */
  readonly maxChunkSize?: number | undefined;
  /** Whether the message itself is the first chunk; true when it is not given. */
  readonly protoAsInitialChunk?: boolean | undefined;
  /** The splitter that this one works for: chunks go to it. */
  readonly parentSplitter?: ComposableSplitter | undefined;
  /** Where the message stands in the parent's. */
  readonly fieldsInParent?: FieldTags | undefined;
}

/**
 * A splitter made of others. A subclass says in {@link ComposableSplitter.buildChunks} what leaves the message, with
 * {@link ComposableSplitter.moveOut}, {@link ComposableSplitter.addChunk} and other splitters whose parent it is. The
 * input is never changed: all is done on a lazy view of its bytes.
 */
export abstract class ComposableSplitter extends Splitter {
  /** The message, as it is after what has left it so far. */
  readonly message: MessageView;
  readonly maxChunkSize: number;
  /** Written to the file's metadata. Raise `joinVersion` for what older mergers cannot merge. */
  versionDef: MessageInitShape<typeof VersionDefSchema> = { splitterVersion: SPLITTER_VERSION };
  private readonly parent: ComposableSplitter | undefined;
  private readonly stepsInParent: readonly TagStep[];
  private readonly protoAsInitialChunk: boolean;
  private readonly entries: ChunkEntry[] = [];
  private built: Promise<SplitOutput> | undefined;

  /** A splitter of `proto`, a message of type `schema`. @throws {@link UsageError} (`usage`) for a bad size or parent */
  constructor(schema: DescMessage | MessageRules, proto: SplitterInput, options: SplitterOptions = {}) {
    super();
    this.maxChunkSize = options.maxChunkSize ?? options.parentSplitter?.maxChunkSize ?? DEFAULT_MAX_CHUNK_SIZE;
    if (!(this.maxChunkSize >= 1)) {
      throw new UsageError("usage", "maximum chunk size", { expected: "1 byte or more", actual: this.maxChunkSize });
    }
    this.message = viewOf(schema, proto);
    this.parent = options.parentSplitter;
    this.protoAsInitialChunk = options.protoAsInitialChunk ?? true;
    this.stepsInParent =
      this.parent === undefined ? [] : parseFieldTags(this.parent.message.rules, options.fieldsInParent ?? []);
  }

  /** Takes parts out of the message. Called once, by {@link ComposableSplitter.split} or by a parent splitter. */
  abstract buildChunks(): Promise<void>;

  /**
   * Adds a chunk that belongs at `fieldTags` of the message. With `index` it is put there in the list of chunks, not at
   * its end: chunks of one place are merged in the order of the list.
   */
  addChunk(chunk: SplitterInput, fieldTags: FieldTags, index?: number): void {
    const steps = parseFieldTags(this.message.rules, fieldTags);
    const last = steps.at(-1)?.rule;
    const schema =
      steps.length === 0 ? this.message.rules : last?.isMap ? last.message?.field(2)?.message : last?.message;
    if (!isSource(chunk) && !(chunk instanceof Uint8Array) && schema === undefined) {
      throw new UsageError("usage", `a message for ${formatSteps(steps)}, which is no message`);
    }
    const content = schema === undefined ? sourceOf(chunk) : viewOf(schema, chunk);
    this.add({ steps, content }, index);
  }

  /** The message at `fieldTags`, to look into or to split further; undefined when there is none. */
  async edit(fieldTags: FieldTags): Promise<MessageView | undefined> {
    let view: MessageView | undefined = this.message;
    for (const step of parseFieldTags(this.message.rules, fieldTags)) {
      if (view === undefined) return undefined;
      view = await editStep(view, step);
    }
    return view;
  }

  /**
   * Takes the value at `fieldTags` out of the message, leaving an empty field in its place, and adds it as a chunk.
   * False when there is no such value.
   */
  async moveOut(fieldTags: FieldTags, index?: number): Promise<boolean> {
    const steps = parseFieldTags(this.message.rules, fieldTags);
    const content = await takeValue(this.message, steps);
    if (content === undefined) return false;
    this.add({ steps, content }, index);
    return true;
  }

  /** See {@link Splitter.split}. The message is split once, however often this is called. */
  split(): Promise<SplitOutput> {
    this.built ??= this.build();
    return this.built;
  }

  /** See {@link Splitter.write}. */
  async write(prefix: string, options: WriteOptions & { readonly files: FileStore }): Promise<WrittenProto> {
    return writeProto(prefix, await this.split(), this.versionDef, options);
  }

  /** Adds chunks whose places are known as steps; for the splitters of cairn itself. */
  protected add(entry: ChunkEntry, index?: number): void {
    if (this.parent !== undefined) {
      this.parent.add({ ...entry, steps: [...this.stepsInParent, ...entry.steps] }, index);
      return;
    }
    this.entries.splice(index ?? this.entries.length, 0, entry);
  }

  private async build(): Promise<SplitOutput> {
    if (this.parent !== undefined) throw new UsageError("usage", "a splitter with a parent is split by its parent");
    await this.buildChunks();
    const root = this.protoAsInitialChunk ? this.message : undefined;
    const { chunkedMessage, ordered } = buildChunkedMessage(root, this.entries);
    const chunks: Chunk[] = [];
    for (const { content, path } of ordered) {
      const type = content instanceof MessageView ? "message" : "bytes";
      const source = content instanceof MessageView ? await content.toSource() : content;
      chunks.push({ type, path, source });
    }
    const shared = await shareEqualChunks(chunks, chunkedMessage);
    return { chunks: shared, chunkedMessage, warnings: this.oversize(shared) };
  }

  private oversize(chunks: readonly Chunk[]): string[] {
    return chunks
      .filter(({ source }) => source.size > this.maxChunkSize)
      .map(({ path, type, source }) => {
        const why = type === "bytes" ? "the value of one field cannot be cut" : "nothing more in it can be cut";
        return `${path === "" ? "the root" : path} stays whole with ${source.size} bytes, over ${this.maxChunkSize}: ${why}`;
      });
  }
}

/** A view of whatever a splitter takes. */
export function viewOf(schema: DescMessage | MessageRules, proto: SplitterInput): MessageView {
  if (proto instanceof MessageView) return proto;
  const rules = schema instanceof MessageRules ? schema : MessageRules.of(schema);
  if (isSource(proto) || proto instanceof Uint8Array) return new MessageView(rules, sourceOf(proto));
  if (rules.schema === undefined || proto.$typeName !== rules.typeName) {
    throw new UsageError("usage", "message type", { expected: rules.typeName, actual: proto.$typeName });
  }
  return new MessageView(rules, new MemorySource(toBinary(rules.schema, proto), rules.typeName));
}

function isSource(input: SplitterInput): input is ByteSource {
  return "readPieces" in input;
}

function sourceOf(input: SplitterInput): ByteSource {
  if (input instanceof Uint8Array) return new MemorySource(input, "bytes");
  if (isSource(input)) return input;
  throw new PlanError("invalid-plan", "a chunk for a scalar field has to be bytes");
}

async function editStep(view: MessageView, step: TagStep): Promise<MessageView | undefined> {
  const found = await fieldOf(view, step);
  return found?.owner.edit(found.field);
}

/** The field that a step leads to; the value of a map entry, which is a field of the entry. */
async function fieldOf(view: MessageView, { rule, selector, isKey }: TagStep) {
  const list = await view.open();
  if (!isKey) {
    const field = selector === undefined ? await view.single(rule) : list.at(rule.number, selector as number);
    return field === undefined ? undefined : { owner: view, field };
  }
  const entryField = selector === undefined ? undefined : (await list.entries(rule)).get(selector as MapKey);
  const entry = entryField === undefined ? undefined : view.edit(entryField);
  const valueRule = entry?.rules.field(2);
  const field = valueRule === undefined ? undefined : await entry?.single(valueRule);
  return entry === undefined || field === undefined ? undefined : { owner: entry, field };
}

async function takeValue(root: MessageView, steps: readonly TagStep[]): Promise<MessageView | ByteSource | undefined> {
  let view: MessageView | undefined = root;
  for (const step of steps.slice(0, -1)) {
    if (view === undefined) return undefined;
    view = await editStep(view, step);
  }
  const last = steps.at(-1);
  const found = view === undefined || last === undefined ? undefined : await fieldOf(view, last);
  if (found === undefined) return undefined;
  const { owner, field } = found;
  const message = owner.edit(field);
  if (message !== undefined) return message.takeOut();
  const value = owner.value(field);
  owner.replace(field, new MemorySource(new Uint8Array(0), owner.name));
  return value;
}
