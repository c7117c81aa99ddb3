import { Window } from "../../bytes/window.js";
import type { Field, FieldList } from "../../proto/field-list.js";
import { stringKey } from "../../proto/map-key.js";
import { WIRE } from "../../proto/message-rules.js";
import type { MessageView } from "../../proto/message-view.js";
import { WireHead } from "../../proto/wire-head.js";

// Field numbers. Source: tensorflow/core/framework/node_def.proto, attr_value.proto.
const NODE_NAME = 1;
const NODE_OP = 2;
const NODE_ATTR = 5;
const ATTR_TENSOR = 8;

/** Nodes up to this are read together with their neighbours, 64 KiB; a larger one is looked into on its own. */
const SMALL_NODE_BYTES = 64 * 1024;

/** What a walk over nodes tells of each. */
export interface NodeFacts {
  /** Index among the nodes of its graph or function. */
  readonly index: number;
  readonly op: string;
  /** Read when it is asked for; most walks want few names. */
  readonly name: () => string;
  /** Bytes that the node takes, without what left it for chunks of its own. */
  readonly byteLength: number;
  /** The bytes of a small node; good until the walk goes on. */
  readonly bytes: Uint8Array | undefined;
  /** The node to look into. */
  readonly open: () => MessageView;
}

/**
 * Walks over the NodeDefs in a repeated field, in order. Small nodes are read many at a time; of large ones only the
 * heads and names are read.
 */
export async function walkNodes(
  view: MessageView,
  number: number,
  visit: (node: NodeFacts) => void | Promise<void>,
): Promise<void> {
  const list = await view.open();
  const decoder = new OpDecoder();
  let index = 0;
  for (const segment of list.segments) {
    const { table, replaced } = segment;
    const window = new Window(table.source);
    const head = new WireHead(table.source);
    for (let i = table.seek(number, segment.from, segment.to, true); i < segment.to; i++) {
      if (table.number(i) !== number) continue;
      const start = table.valueStart(i);
      const size = table.valueSize(i);
      const at = index++;
      const open = () => view.message(list.at(number, at) as Field) as MessageView;
      if (replaced.has(i) || size > SMALL_NODE_BYTES) {
        await visit({ index: at, byteLength: size, bytes: undefined, open, ...(await readNode(open())) });
        continue;
      }
      if (!window.holds(start, size)) await window.move(start, size);
      const bytes = window.bytes.subarray(start - window.start, start - window.start + size);
      const visiting = visit({
        index: at,
        byteLength: size,
        bytes,
        open,
        ...readSmallNode(bytes, start, head, decoder),
      });
      if (visiting !== undefined) await visiting;
    }
    window.release();
  }
}

/** Op and name of a node that is in view. */
function readSmallNode(
  bytes: Uint8Array,
  start: number,
  head: WireHead,
  decoder: OpDecoder,
): { op: string; name: () => string } {
  const end = start + bytes.length;
  let op = "";
  let name = bytes.subarray(0, 0);
  for (let at = start; at < end; ) {
    head.read(bytes, start, at, end);
    const { valueStart, valueSize } = head;
    if (head.wireType === WIRE.bytes && head.number <= NODE_OP) {
      const value = bytes.subarray(valueStart - start, valueStart - start + valueSize);
      if (head.number === NODE_OP) op = decoder.decode(value);
      else name = value;
    } else if (head.number === NODE_ATTR && op !== "") break;
    at = valueStart + valueSize;
  }
  return { op, name: () => new TextDecoder().decode(name) };
}

async function readNode(node: MessageView): Promise<{ op: string; name: () => string }> {
  const list = await node.open();
  const name = await readText(node, list, NODE_NAME);
  return { op: await readText(node, list, NODE_OP), name: () => name };
}

/** The text of a string field, or "". */
export async function readText(view: MessageView, list: FieldList, number: number): Promise<string> {
  const field = list.last(number);
  if (field === undefined) return "";
  const value = view.value(field);
  return new TextDecoder().decode(await value.read(0, value.size));
}

/** The TensorProto of a constant node, in its `value` attribute; undefined when it has none. */
export async function constantTensor(node: MessageView): Promise<MessageView | undefined> {
  const rule = node.rules.field(NODE_ATTR);
  if (rule === undefined) return undefined;
  const entryField = (await (await node.open()).entries(rule)).get(stringKey("value"));
  const entry = entryField === undefined ? undefined : node.message(entryField);
  const valueField = (await entry?.open())?.last(2);
  const value = valueField === undefined ? undefined : entry?.message(valueField);
  const tensorField = (await value?.open())?.last(ATTR_TENSOR);
  return tensorField === undefined ? undefined : value?.message(tensorField);
}

/** Decodes op names, of which there are few, from their bytes. */
class OpDecoder {
  private readonly known = new Map<number, { bytes: Uint8Array; text: string }[]>();

  decode(bytes: Uint8Array): string {
    let hash = bytes.length;
    for (const byte of bytes) hash = (Math.imul(hash, 31) + byte) | 0;
    const candidates = this.known.get(hash) ?? [];
    for (const { bytes: other, text } of candidates) if (sameBytes(bytes, other)) return text;
    const text = new TextDecoder().decode(bytes);
    this.known.set(hash, [...candidates, { bytes: bytes.slice(), text }]);
    return text;
  }
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
