import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { type Field, type FieldList, type Segment, segmentOf } from "./field-list.js";
import { checkDepth, type FieldTable, readFieldTable } from "./field-table.js";
import { readMapKeys } from "./map-key.js";
import { type FieldRule, type MessageRules, WIRE } from "./message-rules.js";
import type { MessageView } from "./message-view.js";

/**
 * Merges the serialized bytes of a message into one of the same type, as protobuf merges: a singular scalar is
 * replaced, a singular message merged into, a map entry with a known key replaced, another member of a oneof dropped,
 * all else appended. The fields go where they stood before the message was cut, as far as their numbers tell: behind
 * all others when they begin with no lower number than the last, else each where its number belongs.
 * @throws {@link CorruptionError} (`invalid-wire`), {@link LimitError} (`limit`) for messages nested too deep
 */
export async function mergeInto(view: MessageView, source: ByteSource): Promise<void> {
  await mergeAt(view, source, 0);
}

async function mergeAt(view: MessageView, source: ByteSource, depth: number): Promise<void> {
  if (source.size === 0) return;
  if (view.isEmpty) {
    view.fill(source);
    return;
  }
  checkDepth(depth, source, 0);
  const list = await view.open();
  const table = await readFieldTable(source);
  if (table.number(0) >= list.lastNumber && !(await collides(view, list, table))) {
    list.append(segmentOf(table));
    return;
  }
  await new Merge(view, list, depth).take([...runsOf(view.rules, table)]);
}

/** Fields of one number that stand together, and what the schema says of them: undefined when it does not know them so. */
interface Run {
  readonly table: FieldTable;
  readonly from: number;
  readonly to: number;
  readonly rule: FieldRule | undefined;
}

function* runsOf(rules: MessageRules, table: FieldTable): Iterable<Run> {
  for (let from = 0; from < table.count; ) {
    const number = table.number(from);
    const rule = rules.field(number);
    const isKnown = (index: number) => rule?.accepts(table.wireType(index)) === true;
    let to = from + 1;
    while (to < table.count && table.number(to) === number && isKnown(to) === isKnown(from)) to++;
    yield { table, from, to, rule: isKnown(from) ? rule : undefined };
    from = to;
  }
}

/** Whether a field of `table` meets one in the message beside which it cannot stand. */
async function collides(view: MessageView, list: FieldList, table: FieldTable): Promise<boolean> {
  for (const run of runsOf(view.rules, table)) if (await runCollides(view, list, run)) return true;
  return false;
}

async function runCollides(view: MessageView, list: FieldList, run: Run): Promise<boolean> {
  const { rule } = run;
  if (rule === undefined) return false;
  if (rule.oneof >= 0 && hasOneofRival(view, list, rule)) return true;
  if (list.count(rule.number) === 0 || rule.isGroup) return false;
  if (!rule.repeated) return true;
  if (rule.isMap) return (await knownEntries(list, run, rule)).length > 0;
  return rule.packable && endsInHole(list, rule);
}

function hasOneofRival(view: MessageView, list: FieldList, rule: FieldRule): boolean {
  for (const other of view.rules.fields()) {
    if (other.oneof === rule.oneof && other.number !== rule.number && list.count(other.number) > 0) return true;
  }
  return false;
}

/** The entries of the message whose keys stand in a run of entries too. */
async function knownEntries(list: FieldList, run: Run, rule: FieldRule): Promise<Field[]> {
  const keyRule = rule.message?.field(1);
  if (keyRule === undefined) return [];
  const known = await list.entries(rule);
  const fields: Field[] = [];
  for (const key of new Set(await readMapKeys(run.table, run.from, run.to, keyRule))) {
    const field = key === undefined ? undefined : known.get(key);
    if (field !== undefined) fields.push(field);
  }
  return fields;
}

/** Whether the last value of a packed field is or was empty: the values of a cut field join it there. */
function endsInHole(list: FieldList, rule: FieldRule): boolean {
  const last = list.last(rule.number);
  return last !== undefined && last.wireType === WIRE.bytes && last.valueSize === 0;
}

/** A field that values are joined to: a singular message, or a packed field that was cut. */
interface Target {
  readonly rule: FieldRule;
  readonly field: Field;
  readonly values: ByteSource[];
  /** False once a value of the number stands on its own behind it. */
  isLast: boolean;
}

/**
 * One merge in which fields meet. What is to go, to come and to be joined is gathered first and done at the end, so that
 * the work grows with the fields and not with their square.
 */
class Merge {
  private readonly view: MessageView;
  private readonly list: FieldList;
  private readonly depth: number;
  private readonly removed: Field[] = [];
  private readonly added: Segment[] = [];
  /** By number; undefined where there is nothing to join to. */
  private readonly targets = new Map<number, Target | undefined>();

  constructor(view: MessageView, list: FieldList, depth: number) {
    this.view = view;
    this.list = list;
    this.depth = depth;
  }

  async take(runs: readonly Run[]): Promise<void> {
    const replaced = this.settleOneofs(runs);
    for (const run of runs) if (!replaced.has(run)) await this.takeRun(run);
    for (const target of this.targets.values()) if (target !== undefined) await this.join(target);
    this.list.removeAll(this.removed);
    this.list.insertAll(this.added);
  }

  /** Drops the members of oneofs in the message that runs replace. Gives the runs that later ones replace. */
  private settleOneofs(runs: readonly Run[]): Set<Run> {
    const members = new Map<number, Run[]>();
    for (const run of runs) {
      if (run.rule === undefined || run.rule.oneof < 0) continue;
      const known = members.get(run.rule.oneof);
      if (known === undefined) members.set(run.rule.oneof, [run]);
      else known.push(run);
    }
    const replaced = new Set<Run>();
    for (const [oneof, list] of members) {
      const number = list.at(-1)?.rule?.number;
      const lastRival = list.findLastIndex(({ rule }) => rule?.number !== number);
      for (const run of list.slice(0, lastRival + 1)) replaced.add(run);
      const current = this.list.settleOneof(oneof);
      if (current !== number || lastRival >= 0) this.list.removeAll(this.list.values(current));
    }
    return replaced;
  }

  private async takeRun(run: Run): Promise<void> {
    const { rule, table, to } = run;
    let { from } = run;
    if (rule?.isMap) this.removed.push(...(await knownEntries(this.list, run, rule)));
    else if (rule !== undefined && !rule.isGroup) {
      const target = await this.targetFor(rule);
      for (; target?.isLast && from < to && table.wireType(from) === WIRE.bytes; from++) {
        target.values.push(table.source.slice(table.valueStart(from), table.valueSize(from)));
      }
      if (target !== undefined && from < to) target.isLast = false;
    }
    if (from < to) this.added.push({ table, from, to, replaced: new Map() });
  }

  /** What values of a rule are joined to. Singular scalars that are there go. */
  private async targetFor(rule: FieldRule): Promise<Target | undefined> {
    const { list, view, targets } = this;
    if (targets.has(rule.number)) return targets.get(rule.number);
    let field: Field | undefined;
    if (rule.repeated) field = rule.packable && endsInHole(list, rule) ? list.last(rule.number) : undefined;
    else if (rule.message !== undefined) field = await view.single(rule);
    else this.removed.push(...list.values(rule.number));
    const target = field === undefined ? undefined : { rule, field, values: [], isLast: true };
    targets.set(rule.number, target);
    return target;
  }

  private async join({ rule, field, values }: Target): Promise<void> {
    const { view, depth } = this;
    const joined = joinSources(view.name, values);
    const message = rule.repeated ? undefined : view.edit(field);
    if (message !== undefined) await mergeAt(message, joined, depth + 1);
    else view.replace(field, joinSources(view.name, [view.value(field), joined]));
  }
}
