import type { ByteSource } from "../bytes/byte-source.js";
import { Window } from "../bytes/window.js";
import { checkDepth } from "./field-table.js";
import { type MessageRules, WIRE } from "./message-rules.js";
import { LONGEST_HEAD_BYTES, WireHead } from "./wire-head.js";

/**
 * Checks that bytes are a message of a type, down to the innermost: tags, lengths, nesting. Bytes of strings and
 * numbers are skipped, not read. As in protobuf, a field of another wire type than the schema's counts as unknown.
 * @throws {@link CorruptionError} (`invalid-wire`), {@link LimitError} (`limit`)
 */
export async function checkWire(source: ByteSource, rules: MessageRules): Promise<void> {
  const check = new Check(source);
  await check.message(0, source.size, rules, 0);
  check.window.release();
}

class Check {
  readonly window: Window;
  private readonly source: ByteSource;
  private readonly head: WireHead;

  constructor(source: ByteSource) {
    this.source = source;
    this.window = new Window(source);
    this.head = new WireHead(source);
  }

  /** Checks a message that may be larger than what is in view. */
  async message(start: number, end: number, rules: MessageRules | undefined, depth: number): Promise<void> {
    const { window, head } = this;
    checkDepth(depth, this.source, start);
    let position = start;
    while (position < end) {
      if (!window.holds(position, Math.min(LONGEST_HEAD_BYTES, end - position))) {
        await window.move(position, Math.min(LONGEST_HEAD_BYTES, end - position));
      }
      head.read(window.bytes, window.start, position, end);
      const { number, wireType, valueStart, valueSize } = head;
      if (wireType === WIRE.groupStart || wireType === WIRE.groupEnd) {
        position = await this.group(position, valueStart, end, depth);
        continue;
      }
      const inner = wireType === WIRE.bytes && valueSize > 0 ? rules?.messageIn(number) : undefined;
      if (inner !== undefined) {
        if (window.holds(valueStart, valueSize)) this.inView(valueStart, valueStart + valueSize, inner, depth + 1);
        else await this.nested(valueStart, valueStart + valueSize, inner, depth + 1);
      }
      position = valueStart + valueSize;
    }
  }

  /** Checks a message that is not in view: at once when it can be brought there as a whole. */
  private async nested(start: number, end: number, rules: MessageRules, depth: number): Promise<void> {
    const { window } = this;
    if (end - start <= LARGEST_AT_ONCE_BYTES) await window.move(start, end - start);
    if (window.holds(start, end - start)) this.inView(start, end, rules, depth);
    else await this.message(start, end, rules, depth);
  }

  /** Checks a message that is in view. The inner loop of every merge, so the usual short heads are read here. */
  private inView(start: number, end: number, rules: MessageRules | undefined, depth: number): void {
    checkDepth(depth, this.source, start);
    const { bytes, start: base } = this.window;
    const { head } = this;
    let position = start;
    while (position < end) {
      const tag = bytes[position - base] as number;
      const size = bytes[position - base + 1] as number;
      if ((tag & 0x87) === WIRE.bytes && tag > 7 && size < 0x80 && position + 2 + size <= end) {
        const inner = size > 0 ? rules?.messageIn(tag >> 3) : undefined;
        if (inner !== undefined) this.inView(position + 2, position + 2 + size, inner, depth + 1);
        position += 2 + size;
        continue;
      }
      head.read(bytes, base, position, end);
      const { number, wireType, valueStart, valueSize } = head;
      if (wireType === WIRE.groupStart || wireType === WIRE.groupEnd) {
        position = this.groupInView(position, valueStart, end, depth);
        continue;
      }
      const inner = wireType === WIRE.bytes && valueSize > 0 ? rules?.messageIn(number) : undefined;
      if (inner !== undefined) this.inView(valueStart, valueStart + valueSize, inner, depth + 1);
      position = valueStart + valueSize;
    }
  }

  /** Goes over a group, whose head was read last, and gives where it ends. A group holds nothing that has a schema. */
  private async group(start: number, contents: number, end: number, depth: number): Promise<number> {
    const { window, head } = this;
    const open: number[] = [this.openedGroup(start, depth)];
    let position = contents;
    while (open.length > 0) {
      const room = Math.min(LONGEST_HEAD_BYTES, end - position);
      if (room === 0) throw head.invalid(position, "group is not closed");
      if (!window.holds(position, room)) await window.move(position, room);
      position = this.stepInGroup(open, position, end, depth);
    }
    return position;
  }

  private groupInView(start: number, contents: number, end: number, depth: number): number {
    const open: number[] = [this.openedGroup(start, depth)];
    let position = contents;
    while (open.length > 0) {
      if (position === end) throw this.head.invalid(position, "group is not closed");
      position = this.stepInGroup(open, position, end, depth);
    }
    return position;
  }

  private openedGroup(start: number, depth: number): number {
    checkDepth(depth + 1, this.source, start);
    if (this.head.wireType === WIRE.groupStart) return this.head.number;
    throw this.head.invalid(start, `end of group ${this.head.number}`);
  }

  private stepInGroup(open: number[], position: number, end: number, depth: number): number {
    const { head, window } = this;
    head.read(window.bytes, window.start, position, end);
    if (head.wireType === WIRE.groupStart) {
      open.push(head.number);
      checkDepth(depth + open.length, this.source, position);
    } else if (head.wireType === WIRE.groupEnd && open.pop() !== head.number) {
      throw head.invalid(position, `end of group ${head.number}`);
    }
    return head.valueStart + head.valueSize;
  }
}

/** A message up to this is brought into view as a whole, 128 KiB. */
const LARGEST_AT_ONCE_BYTES = 128 * 1024;
