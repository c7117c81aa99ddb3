import { MAX_MESSAGE_DEPTH } from "../../limits.js";
import { BackwardBuffer } from "./backward-buffer.js";
import { FIRST_INLINE_SUBTYPE, NODE_TAGS, SUBMESSAGE_END_OFFSET, WIRE_TYPES } from "./format.js";
import { isCanonicalMessage, varintAt, varintEnd } from "./wire.js";

/** What the buffers of a chunk hold. Those of a kind stand together, so that they compress well together. */
export const BUFFER_KINDS = { varint: 0, fixed32: 1, fixed64: 2, string: 3, nonProto: 4, nonProtoLengths: 5 } as const;

/** Varint values up to this are kept in the node. Source: transpose_encoder.cc, kMaxVarintInline. */
const MAX_INLINE_VALUE = 3;

/** A node of the state machine that is to be. There is one for each field path and form of the field. */
export interface State {
  /** As in the header of the chunk. */
  readonly tag: number;
  /** Of a varint field; the others have none. */
  readonly subtype: number | undefined;
  /** What its values go to. */
  readonly buffer: BackwardBuffer | undefined;
  /**
   * Number of the message path that it is reached from. All that can follow a state, seen backward, is reached from
   * the same path.
   */
  readonly reachedFrom: number;
}

/** A path of field tags from the record to a field. The forms of a field are its states. */
interface FieldPath {
  readonly id: number;
  readonly tag: number;
  /** The path of the message that the field is in. */
  readonly parentId: number;
  readonly children: Map<number, FieldPath>;
  /** States by {@link FORMS} or by subtype, as far as there are any. */
  readonly states: (number | undefined)[];
  buffer: BackwardBuffer | undefined;
}

/** Indexes in {@link FieldPath.states} for fields that are not varints. */
const FORMS = { plain: 0, submessageStart: 1, submessageEnd: 2, groupEnd: 1 } as const;

/**
 * Takes records apart: their values go to buffers, one for each field path, and what they were made of goes to a list
 * of steps. Values are put in front of those that are there already, since a chunk is decoded from its end.
 */
export class ColumnBuilder {
  readonly states: State[] = [];
  /** All buffers, in the order of their first value. */
  readonly buffers: BackwardBuffer[] = [];
  /** Lengths of the records that are no messages. */
  readonly nonProtoLengths: BackwardBuffer = new BackwardBuffer(BUFFER_KINDS.nonProtoLengths);
  private stepList = new Uint32Array(1024);
  private stepCount = 0;
  private pathCount = 0;
  private readonly root = this.makePath(0, 0);
  private readonly messageStart = this.addState({
    tag: NODE_TAGS.messageStart,
    subtype: undefined,
    buffer: undefined,
    reachedFrom: this.root.id,
  });
  private nonProto = -1;

  /** The states that make up the records, in their order. */
  get steps(): Uint32Array {
    return this.stepList.subarray(0, this.stepCount);
  }

  /** Adds a record. */
  add(record: Uint8Array): void {
    if (isCanonicalMessage(record, 0, record.length)) {
      this.addStep(this.messageStart);
      this.addFields(record);
    } else {
      this.addNonProto(record);
    }
  }

  private addNonProto(record: Uint8Array): void {
    if (this.nonProto < 0) {
      const buffer = this.addBuffer(BUFFER_KINDS.nonProto);
      const { nonProto: tag } = NODE_TAGS;
      this.nonProto = this.addState({ tag, subtype: undefined, buffer, reachedFrom: this.root.id });
    }
    this.states[this.nonProto]?.buffer?.prepend(record, 0, record.length);
    this.nonProtoLengths.prependVarint(record.length);
    this.addStep(this.nonProto);
  }

  /** Takes a canonical message apart. This is the hot loop of the encoder. */
  private addFields(bytes: Uint8Array): void {
    const outer: { readonly path: FieldPath; readonly end: number }[] = [];
    let path = this.root;
    let end = bytes.length;
    let at = 0;
    for (;;) {
      if (at === end) {
        const frame = outer.pop();
        if (frame === undefined) return;
        this.addStep(this.formOf(path, FORMS.submessageEnd));
        path = frame.path;
        end = frame.end;
        continue;
      }
      const tag = varintAt(bytes, at);
      at = varintEnd(bytes, at);
      const wireType = tag & 7;
      if (wireType === WIRE_TYPES.endGroup) {
        this.addStep(this.formOf(path, FORMS.groupEnd));
        path = (outer.pop() as { path: FieldPath }).path;
        continue;
      }
      const field = this.childOf(path, tag);
      if (wireType === WIRE_TYPES.startGroup) {
        this.addStep(this.formOf(field, FORMS.plain));
        outer.push({ path, end });
        path = field;
      } else if (wireType === WIRE_TYPES.lengthDelimited) {
        const start = varintEnd(bytes, at);
        const fieldEnd = start + varintAt(bytes, at);
        // An empty one is simpler as a string; one that is too deep need not be looked into.
        if (start < fieldEnd && outer.length < MAX_MESSAGE_DEPTH && isCanonicalMessage(bytes, start, fieldEnd)) {
          this.addStep(this.formOf(field, FORMS.submessageStart));
          outer.push({ path, end });
          path = field;
          end = fieldEnd;
          at = start;
        } else {
          this.addStep(this.formOf(field, FORMS.plain));
          field.buffer?.prepend(bytes, at, fieldEnd);
          at = fieldEnd;
        }
      } else if (wireType === WIRE_TYPES.varint) {
        at = this.addVarint(field, bytes, at);
      } else {
        const fieldEnd = at + (wireType === WIRE_TYPES.fixed32 ? 4 : 8);
        this.addStep(this.formOf(field, FORMS.plain));
        field.buffer?.prepend(bytes, at, fieldEnd);
        at = fieldEnd;
      }
    }
  }

  private addVarint(field: FieldPath, bytes: Uint8Array, start: number): number {
    const end = varintEnd(bytes, start);
    const first = bytes[start] as number;
    if (first <= MAX_INLINE_VALUE) {
      this.addStep(this.formOf(field, FIRST_INLINE_SUBTYPE + first));
    } else {
      this.addStep(this.formOf(field, end - start - 1));
      field.buffer?.prependSevenBits(bytes, start, end);
    }
    return end;
  }

  private childOf(path: FieldPath, tag: number): FieldPath {
    let child = path.children.get(tag);
    if (child === undefined) {
      child = this.makePath(tag, path.id);
      path.children.set(tag, child);
    }
    return child;
  }

  private makePath(tag: number, parentId: number): FieldPath {
    return { id: this.pathCount++, tag, parentId, children: new Map(), states: [], buffer: undefined };
  }

  private formOf(path: FieldPath, form: number): number {
    return path.states[form] ?? this.addForm(path, form);
  }

  private addForm(path: FieldPath, form: number): number {
    const state = this.addState(this.makeForm(path, form));
    path.states[form] = state;
    return state;
  }

  private makeForm(path: FieldPath, form: number): State {
    const { tag, parentId, id } = path;
    const plain = { tag, subtype: undefined, buffer: undefined, reachedFrom: parentId };
    switch (tag & 7) {
      case WIRE_TYPES.varint: {
        const buffer = form < FIRST_INLINE_SUBTYPE ? this.bufferOf(path, BUFFER_KINDS.varint) : undefined;
        return { ...plain, subtype: form, buffer };
      }
      case WIRE_TYPES.fixed32:
        return { ...plain, buffer: this.bufferOf(path, BUFFER_KINDS.fixed32) };
      case WIRE_TYPES.fixed64:
        return { ...plain, buffer: this.bufferOf(path, BUFFER_KINDS.fixed64) };
      case WIRE_TYPES.startGroup:
        return form === FORMS.groupEnd ? { ...plain, tag: tag + 1 } : { ...plain, reachedFrom: id };
    }
    if (form === FORMS.submessageStart) return { ...plain, tag: NODE_TAGS.submessageStart, reachedFrom: id };
    if (form === FORMS.submessageEnd) return { ...plain, tag: tag + SUBMESSAGE_END_OFFSET };
    return { ...plain, buffer: this.bufferOf(path, BUFFER_KINDS.string) };
  }

  private bufferOf(path: FieldPath, kind: number): BackwardBuffer {
    path.buffer ??= this.addBuffer(kind);
    return path.buffer;
  }

  private addBuffer(kind: number): BackwardBuffer {
    const buffer = new BackwardBuffer(kind);
    this.buffers.push(buffer);
    return buffer;
  }

  private addState(state: State): number {
    return this.states.push(state) - 1;
  }

  private addStep(state: number): void {
    if (this.stepCount === this.stepList.length) {
      const larger = new Uint32Array(this.stepCount * 2);
      larger.set(this.stepList);
      this.stepList = larger;
    }
    this.stepList[this.stepCount++] = state;
  }
}
