import type { DescMessage } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { CairnError, CorruptionError } from "../errors.js";
import type { Field } from "../proto/field-list.js";
import type {
  ChunkedField,
  ChunkedMessage,
  FieldIndex,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { mergeInto } from "../proto/message-merge.js";
import { type FieldRule, MessageRules } from "../proto/message-rules.js";
import { MessageView } from "../proto/message-view.js";
import { checkWire } from "../proto/wire-check.js";
import { compareTags, decodeKey, formatTag } from "./field-tag.js";
import { encodeScalarText } from "./scalar-text.js";
import { TreeParts } from "./tree-parts.js";

/** Gives the bytes of a chunk by its index. `type` says what they are to become. */
export interface ChunkProvider {
  /** What errors print. */
  readonly name: string;
  readonly chunkCount: number;
  /** The bytes of a chunk. @throws CairnError when they cannot be read */
  chunk(index: number, type: "message" | "bytes"): Promise<ByteSource>;
  /** Reads a ChunkedMessage that is itself a chunk. */
  tree?(index: number): Promise<ChunkedMessage>;
}

/** How a tree of chunks is merged. */
export interface MergeRules {
  /** Sort the fields as TensorFlow does when it reads a file; an in-memory list is taken as it stands. */
  readonly sort: boolean;
  /** Check every message chunk down to the innermost before it is merged; otherwise only what is looked at. */
  readonly check: boolean;
}

/**
 * The merged message as a lazy view: a chunk is read when the part of the message that it belongs to is looked at.
 * Looking at all of it ({@link MessageView.settle}) is the whole merge.
 */
export function mergeLazily(
  schema: DescMessage | MessageRules,
  message: ChunkedMessage,
  chunks: ChunkProvider,
  rules: MergeRules,
): MessageView {
  const root = schema instanceof MessageRules ? schema : MessageRules.of(schema);
  const view = new MessageView(root, new MemorySource(new Uint8Array(0), chunks.name));
  const merge = new TreeMerge(chunks, rules, root);
  view.defer((target) => merge.readFields(target, message));
  return view;
}

/** A field tag on its way down: the steps before `depth` have been followed. */
interface Pending {
  readonly tag: readonly FieldIndex[];
  readonly depth: number;
  readonly message: ChunkedMessage;
}

class TreeMerge {
  private readonly chunks: ChunkProvider;
  private readonly rules: MergeRules;
  private readonly root: MessageRules;
  private readonly parts: TreeParts;

  constructor(chunks: ChunkProvider, rules: MergeRules, root: MessageRules) {
    this.chunks = chunks;
    this.parts = new TreeParts(chunks);
    this.rules = rules;
    this.root = root;
  }

  /** Merges the chunk of a ChunkedMessage into a view, and then its fields. */
  async readFields(view: MessageView, given: ChunkedMessage): Promise<void> {
    const message = await this.parts.follow(given);
    if (message.chunkIndex !== undefined) {
      const chunk = await this.read(message.chunkIndex, "message");
      await this.mergeChunk(view, chunk, message.chunkIndex);
    }
    if (message.chunkedFields.length > 0) await this.distribute(view, this.prepare(message.chunkedFields));
  }

  private prepare(fields: readonly ChunkedField[]): Pending[] {
    const { name } = this.chunks;
    const pending = fields.map((field) => {
      const { message } = field;
      const isEmpty =
        message === undefined || (message.chunkIndex === undefined && message.cairnTreeChunk === undefined);
      if (isEmpty && (message?.chunkedFields.length ?? 0) === 0) {
        throw new CorruptionError("field-tag", `field ${this.describe(field.fieldTag)} names no chunk`, { file: name });
      }
      return { tag: field.fieldTag, depth: 0, message: message as ChunkedMessage };
    });
    if (!this.rules.sort) return pending;
    return pending.sort((a, b) => compareTags(a.tag, b.tag, name) || compareIndexes(a.message, b.message));
  }

  /** Merges what belongs to this very message, and hands the rest on to the messages below, grouped. */
  private async distribute(view: MessageView, pending: readonly Pending[]): Promise<void> {
    const below = new Map<string, Pending[]>();
    for (const one of pending) {
      if (one.tag.length === one.depth) {
        // What was deferred below has its turn before more is merged over it.
        if (below.size > 0) await this.handOn(view, below);
        await this.readFields(view, one.message);
        continue;
      }
      const key = this.stepKey(view, one);
      const group = below.get(key);
      if (group === undefined) below.set(key, [one]);
      else group.push(one);
    }
    await this.handOn(view, below);
  }

  private async handOn(view: MessageView, groups: Map<string, Pending[]>): Promise<void> {
    for (const group of groups.values()) await this.enter(view, group);
    groups.clear();
  }

  /** Checks the next step of a tag against the schema, and names it so that equal steps can be grouped. */
  private stepKey(view: MessageView, { tag, depth }: Pending): string {
    const { kind } = tag[depth] as FieldIndex;
    if (kind.case === undefined) throw this.badTag(tag, "a step of it is neither field, index nor map key");
    if (kind.case === "index") throw this.badTag(tag, "an index does not belong to any field");
    if (kind.case === "mapKey") throw this.badTag(tag, "a map key does not belong to any field");
    const rule = view.rules.field(kind.value);
    if (rule === undefined) throw this.badTag(tag, `${view.rules.typeName} has no field ${kind.value}`);
    const selector = tag[depth + 1];
    if (selector?.kind.case === undefined && selector !== undefined) {
      throw this.badTag(tag, "a step of it is neither field, index nor map key");
    }
    if (selector?.kind.case === "index") {
      if (!rule.repeated || rule.isMap)
        throw this.badTag(tag, `an index on the ${rule.isMap ? "map" : "singular field"} ${rule.name}`);
      return `${rule.number}[${selector.kind.value}]`;
    }
    if (selector?.kind.case === "mapKey") {
      if (!rule.isMap) throw this.badTag(tag, `a map key on ${rule.name}, which is no map`);
      return `${rule.number}{${String(decodeKey(selector, this.chunks.name))}}`;
    }
    if (rule.repeated)
      throw this.badTag(tag, `the repeated field ${rule.name} needs ${rule.isMap ? "a map key" : "an index"}`);
    return String(rule.number);
  }

  /** Hands the pending fields of one step on: to the message there, or to the scalar there. */
  private async enter(view: MessageView, group: readonly Pending[]): Promise<void> {
    const [first] = group as [Pending];
    const number = (first.tag[first.depth] as FieldIndex).kind.value as number;
    const rule = view.rules.field(number) as FieldRule;
    const target = await this.targetOf(view, rule, first);
    const consumed = first.tag[first.depth + 1]?.kind.case === "field" || first.tag.length === first.depth + 1 ? 1 : 2;
    const rest = group.map((one) => ({ ...one, depth: one.depth + consumed }));
    if (target.rule.kind === "message") {
      const message = target.owner.edit(target.field);
      if (message === undefined) throw this.badTag(first.tag, `${rule.name} cannot be looked into`);
      message.defer((opened) => this.distribute(opened, rest));
      return;
    }
    for (const one of rest) {
      if (one.tag.length > one.depth)
        throw this.badTag(one.tag, `it goes through ${target.rule.name}, which is no message`);
      await this.setScalar(target, one);
    }
  }

  /** The field that a step leads to; made when it is missing, as TensorFlow's merger does. */
  private async targetOf(
    view: MessageView,
    rule: FieldRule,
    { tag, depth }: Pending,
  ): Promise<{ owner: MessageView; field: Field; rule: FieldRule }> {
    const list = await view.open();
    if (rule.isMap) return this.mapTarget(view, rule, tag, depth);
    if (!rule.repeated) {
      if (rule.kind !== "message") return { owner: view, field: (await view.single(rule)) ?? NO_FIELD, rule };
      await view.removeOneofRivals(rule.number);
      return { owner: view, field: (await view.single(rule)) ?? (await view.addEmpty(rule)), rule };
    }
    const selector = tag[depth + 1]?.kind;
    const index = selector?.case === "index" ? Number(selector.value) : 0;
    const count = list.count(rule.number);
    const field = list.at(rule.number, index);
    if (field !== undefined) return { owner: view, field, rule };
    if (index === count && rule.kind === "message") return { owner: view, field: await view.addEmpty(rule), rule };
    throw this.badTag(tag, `index ${index} of ${rule.name} is beyond the ${count} elements there`);
  }

  private async mapTarget(view: MessageView, rule: FieldRule, tag: readonly FieldIndex[], depth: number) {
    const list = await view.open();
    const key = decodeKey(tag[depth + 1] as FieldIndex, this.chunks.name);
    const entryField = (await list.entries(rule)).get(key) ?? (await view.addMapEntry(rule, key));
    const entry = view.edit(entryField);
    const valueRule = entry?.rules.field(2);
    if (entry === undefined || valueRule === undefined) throw this.badTag(tag, `${rule.name} is no map`);
    const value = await entry.single(valueRule);
    if (value !== undefined || valueRule.kind !== "message") {
      return { owner: entry, field: value ?? NO_FIELD, rule: valueRule };
    }
    return { owner: entry, field: await entry.addEmpty(valueRule), rule: valueRule };
  }

  /** Sets a scalar field from a chunk: bytes as they are, numbers from decimal text, enums by name. */
  private async setScalar(
    { owner, field, rule }: { owner: MessageView; field: Field; rule: FieldRule },
    { tag, message }: Pending,
  ): Promise<void> {
    if (message.chunkIndex === undefined) throw this.badTag(tag, "it names no chunk");
    const chunk = await this.read(message.chunkIndex, "bytes");
    if (rule.kind === "bytes" || rule.kind === "string") {
      await owner.removeOneofRivals(rule.number);
      const target = field === NO_FIELD ? await owner.addEmpty(rule) : field;
      owner.replace(target, chunk);
      return;
    }
    if (rule.repeated) throw this.badTag(tag, `an element of ${rule.name}, which is a list of numbers`);
    const { wireType, value } = await encodeScalarText(rule, chunk, this.chunks.name, this.describe(tag));
    const list = await owner.open();
    for (let i = list.count(rule.number) - 1; i >= 0; i--) list.remove(list.at(rule.number, i) as Field);
    await owner.addField(rule.number, wireType, value);
  }

  private async mergeChunk(view: MessageView, chunk: ByteSource, index: bigint): Promise<void> {
    try {
      if (this.rules.check) await checkWire(chunk, view.rules);
      await mergeInto(view, chunk);
    } catch (cause) {
      if (!(cause instanceof CairnError) || cause.code !== "invalid-wire") throw cause;
      throw notAMessage(this.chunks.name, Number(index), view.rules, cause);
    }
  }

  private async read(index: bigint, type: "message" | "bytes"): Promise<ByteSource> {
    const count = this.chunks.chunkCount;
    if (index >= BigInt(count)) {
      throw new CorruptionError("chunk-index", "index of a chunk", {
        file: this.chunks.name,
        expected: `less than ${count}`,
        actual: index,
      });
    }
    return this.chunks.chunk(Number(index), type);
  }

  private badTag(tag: readonly FieldIndex[], what: string): CorruptionError {
    return new CorruptionError("field-tag", `field tag ${this.describe(tag)}: ${what}`, { file: this.chunks.name });
  }

  private describe(tag: readonly FieldIndex[]): string {
    return formatTag(tag, this.root) || "(empty)";
  }
}

/** Stands for a scalar field that is not there yet. */
const NO_FIELD = {} as Field;

/** The error for a message chunk that cannot be parsed as the message it is to be. */
export function notAMessage(file: string, index: number, rules: MessageRules, cause: CairnError): CorruptionError {
  return new CorruptionError("chunk-value", `chunk ${index} is no ${rules.typeName}: ${cause.summary}`, {
    file,
    offset: cause.file === file ? cause.offset : undefined,
    cause,
  });
}

function compareIndexes(a: ChunkedMessage, b: ChunkedMessage): number {
  const left = a.chunkIndex ?? 0n;
  const right = b.chunkIndex ?? 0n;
  return left < right ? -1 : left > right ? 1 : 0;
}
