import type { ByteSource } from "../bytes/byte-source.js";
import { UsageError } from "../errors.js";
import type { Field } from "./field-list.js";
import { type MapKey, stringKey } from "./map-key.js";
import type { FieldRule } from "./message-rules.js";
import type { MessageView } from "./message-view.js";
import { placeOf } from "./wire-head.js";

/** One step of a path: a field, and which of its values. */
export interface PathStep {
  readonly field: string;
  /** Index in a repeated field, key in a map, or the name of an element. */
  readonly selector?: number | string | undefined;
}

/** What a path leads to. */
export interface FoundField {
  /** The message that has the field; opened. */
  readonly owner: MessageView;
  readonly field: Field;
  /** The path, as it was given. */
  readonly path: string;
  /** The message that the field holds, or undefined for a scalar. */
  readonly message: MessageView | undefined;
  /** The bytes of the value, without tag and length. */
  value(): Promise<ByteSource>;
  /** Where the value lies, as long as it is one plain part of a file. `start` and `end` count from the file's start. */
  range(): { file: string; start: number; end: number };
}

/**
 * Parses a path such as `meta_graphs[0].graph_def.library.function["f"].signature`. Fields have the names of the .proto
 * file.
 * @throws {@link UsageError} (`usage`)
 */
export function parseMessagePath(path: string): PathStep[] {
  const steps: PathStep[] = [];
  if (path === "") throw unreadable(path, 0);
  const pattern = /([A-Za-z_]\w*)(?:\[(?:(\d+)|("(?:[^"\\]|\\.)*")|(-\d+|true|false))\])?(?:\.(?!$)|$)/y;
  while (pattern.lastIndex < path.length) {
    const at = pattern.lastIndex;
    const match = pattern.exec(path);
    if (match === null) throw unreadable(path, at);
    const [, field = "", index, text, word] = match;
    let selector: number | string | undefined;
    // A key of 64 bits may be larger than a number can be.
    if (index !== undefined) selector = Number.isSafeInteger(Number(index)) ? Number(index) : index;
    else selector = text === undefined ? word : parseQuoted(text, path, at);
    steps.push({ field, selector });
  }
  return steps;
}

function parseQuoted(text: string, path: string, at: number): string {
  try {
    return JSON.parse(text) as string;
  } catch (cause) {
    throw unreadable(path, at, cause);
  }
}

function unreadable(path: string, at: number, cause?: unknown): UsageError {
  return new UsageError("usage", `path "${path}" cannot be read from character ${at} on`, {
    cause,
    hint: 'A path looks like meta_graphs[0].graph_def.library.function["f"].signature.',
  });
}

/**
 * Follows a path through a message, reading only what the way needs. In a map, `["key"]` and `[5]` are keys; in a
 * repeated message, `[5]` is an index and `["f"]` the element whose `name`, or `signature.name`, is `f`. Without a
 * selector a repeated field must hold exactly one value. Undefined when nothing is there.
 * @throws {@link UsageError} (`usage`) when the schema has no such field, {@link CorruptionError} (`invalid-wire`)
 */
export async function findField(root: MessageView, path: string): Promise<FoundField | undefined> {
  let owner = root;
  const steps = parseMessagePath(path);
  for (const [i, step] of steps.entries()) {
    const rule = owner.rules.fieldNamed(step.field);
    if (rule === undefined) {
      const known = [...owner.rules.fields()].map((field) => field.name).join(", ");
      throw new UsageError("usage", `${owner.rules.typeName} has no field ${step.field}`, { hint: `It has ${known}.` });
    }
    const value = await select(owner, rule, step);
    if (value === undefined) return undefined;
    if (i === steps.length - 1) return found(value, path);
    if (value.view === undefined) throw new UsageError("usage", `${step.field} in "${path}" is no message`);
    owner = value.view;
  }
  return undefined;
}

/** A value on the way: its field, the message that has it, and the message that it is. */
interface Selected {
  readonly owner: MessageView;
  readonly field: Field;
  readonly view: MessageView | undefined;
}

function found({ owner, field, view: message }: Selected, path: string): FoundField {
  return {
    owner,
    field,
    path,
    message,
    value: async () => (message === undefined ? owner.value(field) : message.toSource()),
    range: () => {
      const { source, valueStart, end } = field.range;
      const { file, offset } = placeOf(source, valueStart);
      return { file, start: offset, end: offset + end - valueStart };
    },
  };
}

async function select(owner: MessageView, rule: FieldRule, step: PathStep): Promise<Selected | undefined> {
  const list = await owner.open();
  const { selector } = step;
  if (rule.isMap && selector !== undefined) {
    const entry = (await list.entries(rule)).get(toMapKey(rule, selector));
    const view = entry === undefined ? undefined : owner.message(entry);
    const valueRule = view?.rules.field(2);
    return view === undefined || valueRule === undefined ? undefined : selected(view, await view.single(valueRule));
  }
  if (!rule.repeated) {
    if (selector === undefined) return selected(owner, await owner.single(rule));
    throw new UsageError("usage", `${rule.name} is not repeated, so it takes no [${selector}]`);
  }
  if (typeof selector === "number") return selected(owner, list.at(rule.number, selector));
  if (typeof selector === "string") return selected(owner, await elementNamed(owner, rule, selector));
  const count = list.count(rule.number);
  if (count <= 1) return selected(owner, list.last(rule.number));
  throw new UsageError("usage", `${rule.name} has ${count} values; say which, as in ${rule.name}[0]`);
}

function selected(owner: MessageView, field: Field | undefined): Selected | undefined {
  return field === undefined ? undefined : { owner, field, view: owner.message(field) };
}

function toMapKey(rule: FieldRule, selector: number | string): MapKey {
  const keyRule = rule.message?.field(1);
  if (keyRule?.kind === "string") return stringKey(String(selector));
  if (keyRule?.kind === "bool") {
    if (selector === "true" || selector === "false") return selector === "true";
    throw new UsageError("usage", `${rule.name} has true and false as keys, not "${selector}"`);
  }
  if (/^-?\d+$/.test(String(selector))) return BigInt(selector);
  throw new UsageError("usage", `${rule.name} has whole numbers as keys, not "${selector}"`);
}

/** The first element whose `name`, or `signature.name`, is the one asked for. */
async function elementNamed(owner: MessageView, rule: FieldRule, name: string): Promise<Field | undefined> {
  const list = await owner.open();
  for (let i = 0; i < list.count(rule.number); i++) {
    const field = list.at(rule.number, i) as Field;
    const element = owner.message(field);
    if (element !== undefined && (await nameOf(element)) === name) return field;
  }
  return undefined;
}

/** The `name` of a message, or its `signature.name`; undefined when its type has neither. */
export async function nameOf(message: MessageView): Promise<string | undefined> {
  const rule = message.rules.fieldNamed("name");
  if (rule?.kind === "string") {
    const field = (await message.open()).last(rule.number);
    if (field === undefined) return "";
    const value = message.value(field);
    return new TextDecoder().decode(await value.read(0, value.size));
  }
  const signatureRule = message.rules.fieldNamed("signature");
  if (signatureRule?.message === undefined) return undefined;
  const field = await message.single(signatureRule);
  const signature = field === undefined ? undefined : message.message(field);
  return signature === undefined ? undefined : nameOf(signature);
}
