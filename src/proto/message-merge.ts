import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { type Field, type FieldList, type Segment, segmentOf } from "./field-list.js";
import { type FieldTable, readFieldTable } from "./field-table.js";
import { readMapKeys } from "./map-key.js";
import { type FieldRule, WIRE } from "./message-rules.js";
import type { MessageView } from "./message-view.js";

/**
 * Merges the serialized bytes of a message into one of the same type, as protobuf merges: a singular scalar is
 * replaced, a singular message merged into, a map entry with a known key replaced, another member of a oneof dropped,
 * all else appended. The fields go where they stood before the message was cut, as far as their numbers tell: behind
 * all others when they begin with no lower number than the last, else each where its number belongs.
 */
export async function mergeInto(view: MessageView, source: ByteSource): Promise<void> {
  if (source.size === 0) return;
  if (view.isEmpty) {
    view.fill(source);
    return;
  }
  const list = await view.open();
  const table = await readFieldTable(source);
  if (table.number(0) >= list.lastNumber && !(await collides(view, list, table))) {
    list.append(segmentOf(table));
    return;
  }
  for (let from = 0; from < table.count; ) {
    const to = endOfRun(table, from);
    await mergeRun(view, list, { table, from, to, replaced: new Map() });
    from = to;
  }
}

function endOfRun(table: FieldTable, from: number): number {
  let to = from + 1;
  while (to < table.count && table.number(to) === table.number(from)) to++;
  return to;
}

/** Whether a field of `table` meets one in the message beside which it cannot stand. */
async function collides(view: MessageView, list: FieldList, table: FieldTable): Promise<boolean> {
  for (let from = 0; from < table.count; ) {
    const to = endOfRun(table, from);
    const rule = view.rules.field(table.number(from));
    if (rule !== undefined && (await runCollides(view, list, { table, from, to, replaced: new Map() }, rule)))
      return true;
    from = to;
  }
  return false;
}

async function runCollides(view: MessageView, list: FieldList, run: Segment, rule: FieldRule): Promise<boolean> {
  if (rule.oneof >= 0 && hasOneofRival(view, list, rule)) return true;
  if (list.count(rule.number) === 0) return false;
  if (!rule.repeated) return true;
  if (rule.isMap) return (await knownKeys(list, run, rule)).length > 0;
  return rule.packable && endsInHole(list, rule);
}

function hasOneofRival(view: MessageView, list: FieldList, rule: FieldRule): boolean {
  for (const other of view.rules.fields()) {
    if (other.oneof === rule.oneof && other.number !== rule.number && list.count(other.number) > 0) return true;
  }
  return false;
}

/** The entries of the message whose keys stand in a run of entries too. */
async function knownKeys(list: FieldList, run: Segment, rule: FieldRule): Promise<Field[]> {
  const keyRule = rule.message?.field(1);
  if (keyRule === undefined) return [];
  const known = await list.entries(rule);
  const keys = new Set(await readMapKeys(run.table, run.from, run.to, keyRule));
  const fields: Field[] = [];
  for (const key of keys) {
    const field = known.get(key);
    if (field !== undefined) fields.push(field);
  }
  return fields;
}

/** Whether the last value of a packed field is or was empty: the values of a cut field join it there. */
function endsInHole(list: FieldList, rule: FieldRule): boolean {
  const last = list.last(rule.number);
  return last !== undefined && last.wireType === WIRE.bytes && last.valueSize === 0;
}

/** Merges a run of fields of one number in. */
async function mergeRun(view: MessageView, list: FieldList, run: Segment): Promise<void> {
  const number = run.table.number(run.from);
  const rule = view.rules.field(number);
  await view.removeOneofRivals(number);
  if (rule === undefined || list.count(number) === 0) list.insert(run);
  else if (rule.isMap) {
    for (const old of await knownKeys(list, run, rule)) list.remove(old);
    list.insert(run);
  } else if (rule.repeated) mergeRepeated(view, list, run, rule);
  else if (rule.message !== undefined) await mergeMessages(view, list, run, rule);
  else {
    for (let i = list.count(number) - 1; i >= 0; i--) list.remove(list.at(number, i) as Field);
    list.insert(run);
  }
}

async function mergeMessages(view: MessageView, list: FieldList, run: Segment, rule: FieldRule): Promise<void> {
  const { table } = run;
  for (let i = run.from; i < run.to; i++) {
    const field = await view.single(rule);
    const message = field === undefined ? undefined : view.edit(field);
    if (message === undefined) list.insert({ table, from: i, to: i + 1, replaced: new Map() });
    else await mergeInto(message, table.source.slice(table.valueStart(i), table.valueSize(i)));
  }
}

function mergeRepeated(view: MessageView, list: FieldList, run: Segment, rule: FieldRule): void {
  const { table, to } = run;
  let { from } = run;
  while (rule.packable && from < to && table.wireType(from) === WIRE.bytes && endsInHole(list, rule)) {
    const last = list.last(rule.number) as Field;
    const more = table.source.slice(table.valueStart(from), table.valueSize(from));
    view.replace(last, joinSources(view.name, [view.value(last), more]));
    from++;
  }
  if (from < to) list.insert({ ...run, from });
}
