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
  const check = new Check(source, rules);
  const { window } = check;
  while (!check.isDone()) {
    if (!window.holds(check.position, LONGEST_HEAD_BYTES)) await window.move(check.position, LONGEST_HEAD_BYTES);
    check.checkWindow();
  }
}

class Check {
  readonly window: Window;
  position = 0;
  private readonly source: ByteSource;
  private readonly head: WireHead;
  /** The open messages, the innermost last: where each ends and what it is. A group has its number instead of an end. */
  private readonly ends: number[];
  private readonly rules: (MessageRules | undefined)[];
  private readonly groups: number[] = [0];

  constructor(source: ByteSource, rules: MessageRules) {
    this.source = source;
    this.window = new Window(source);
    this.head = new WireHead(source);
    this.ends = [source.size];
    this.rules = [rules];
  }

  /** Closes the messages that end here; tells whether the outermost has. */
  isDone(): boolean {
    while (this.ends.length > 0 && this.position === this.ends.at(-1)) {
      if (this.groups.at(-1) !== 0) throw this.head.invalid(this.position, "group is not closed");
      this.close();
    }
    return this.ends.length === 0;
  }

  checkWindow(): void {
    const { window, head, source } = this;
    const { bytes, start: base } = window;
    const stop = window.end === source.size ? source.size - 1 : window.end - LONGEST_HEAD_BYTES;
    while (!this.isDone() && this.position <= stop) {
      head.read(bytes, base, this.position, this.ends.at(-1) as number);
      const { valueStart, valueSize, wireType } = head;
      if (wireType === WIRE.bytes) this.enter(valueStart, valueStart + valueSize);
      else if (wireType === WIRE.groupStart) this.openGroup(valueStart);
      else if (wireType === WIRE.groupEnd) this.closeGroup(valueStart);
      else this.position = valueStart + valueSize;
    }
  }

  /** Goes into a value that is a message, or behind one that is not. */
  private enter(start: number, end: number): void {
    const rules = this.rules.at(-1)?.field(this.head.number)?.message;
    if (rules === undefined || end === start) {
      this.position = end;
      return;
    }
    this.position = start;
    this.push(end, rules, 0);
  }

  private openGroup(start: number): void {
    this.position = start;
    this.push(this.ends.at(-1) as number, undefined, this.head.number);
  }

  private closeGroup(end: number): void {
    if (this.groups.at(-1) !== this.head.number)
      throw this.head.invalid(this.position, `end of group ${this.head.number}`);
    this.position = end;
    this.close();
  }

  private push(end: number, rules: MessageRules | undefined, group: number): void {
    this.ends.push(end);
    this.rules.push(rules);
    this.groups.push(group);
    checkDepth(this.ends.length - 1, this.source, this.position);
  }

  private close(): void {
    this.ends.pop();
    this.rules.pop();
    this.groups.pop();
  }
}
