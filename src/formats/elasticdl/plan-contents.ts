import type { ByteSource } from "../../bytes/byte-source.js";
import { DeferredSource } from "../../bytes/deferred-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { CorruptionError, PlanError } from "../../errors.js";
import type { PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import type { DenseVariable, EmbeddingTable, ModelContents, StoredTensor } from "./model-contents.js";
import { SLOT_MARK } from "./tensors.js";

/**
 * A plan as a model: its tensors are dense variables, those with ids embedding tables, and those that are named as slots
 * of one of them its slots. Data is opened in the order of the plan when it is first read.
 * @throws {@link PlanError} (`invalid-plan`) for a tensor that is cut other than along its first dimension
 */
export async function planToContents(plan: ShardPlan, modelVersion: number): Promise<ModelContents> {
  const tensors = new Map<string, PlannedSlice[]>();
  for (const { slices } of plan.shards) {
    for (const slice of slices) tensors.set(slice.key, [...(tensors.get(slice.key) ?? []), slice]);
  }
  const dense = new Map<string, { variable: StoredTensor; slots: Map<string, StoredTensor> }>();
  const tables = new Map<string, PlannedTable>();
  const slots: [owner: string, name: string, key: string, slices: PlannedSlice[]][] = [];
  for (const [key, slices] of tensors) {
    const mark = key.lastIndexOf(SLOT_MARK);
    const owner = mark < 0 ? undefined : key.slice(0, mark);
    if (owner !== undefined && tensors.has(owner)) slots.push([owner, key.slice(mark + SLOT_MARK.length), key, slices]);
    else if (slices[0]?.tensor.embedding === undefined)
      dense.set(key, { variable: await whole(key, slices), slots: new Map() });
    else tables.set(key, { tensor: await whole(key, slices), first: slices[0], slots: new Map() });
  }
  for (const [owner, name, key, slices] of slots) {
    (dense.get(owner) ?? tables.get(owner))?.slots.set(name, await whole(key, slices));
  }
  const variables: DenseVariable[] = [];
  for (const [name, { variable, slots: own }] of dense) variables.push({ name, ...variable, slots: own });
  const planned: EmbeddingTable[] = [];
  for (const [name, table] of tables) planned.push(toTable(name, table));
  return { modelVersion, dense: variables, tables: planned, states: [] };
}

interface PlannedTable {
  readonly tensor: StoredTensor;
  readonly first: PlannedSlice;
  readonly slots: Map<string, StoredTensor>;
}

/** A tensor as one, from slices that lie behind one another. */
async function whole(key: string, slices: readonly PlannedSlice[]): Promise<StoredTensor> {
  const [first] = slices;
  if (first === undefined) throw new TypeError("a tensor without slices");
  const { fullShape: shape, tensor } = first;
  let row = 0;
  for (const { region } of slices) {
    const [outer, ...inner] = region;
    const isWhole = inner.every(({ start, end }, i) => start === 0 && end === shape[i + 1]);
    if (!isWhole || (outer?.start ?? 0) !== row) throw cut(key);
    row = outer?.end ?? row;
  }
  if (shape.length > 0 && row !== shape[0]) throw cut(key);
  const byteLength = elementCount(shape) * elementBytes(tensor.dtype);
  const data = new DeferredSource(key, byteLength, async () => {
    const parts: ByteSource[] = [];
    for (const slice of slices) parts.push(await slice.tensor.data());
    const joined = joinSources(key, parts);
    if (joined.size === byteLength) return joined;
    const sizes = { expected: `${byteLength} bytes`, actual: `${joined.size} bytes` };
    throw new CorruptionError("tensor-data", `elements of "${key}"`, sizes);
  });
  return { dtype: tensor.dtype, shape, data: () => data };
}

function cut(key: string): PlanError {
  return new PlanError("invalid-plan", `a training checkpoint cannot hold slices of "${key}"`, {
    hint: "Variables stand whole in the shard of their server; use no sharding policy.",
  });
}

function toTable(name: string, { tensor, first, slots }: PlannedTable): EmbeddingTable {
  const [rowCount = 0, dim = 1] = tensor.shape;
  const { embedding } = first.tensor;
  const part = {
    rowCount,
    data: tensor.data,
    slots,
    async *idBatches(limit: number) {
      let count = 0;
      for await (const ids of embedding?.idBatches(limit) ?? []) {
        count += ids.length;
        yield ids;
      }
      if (count === rowCount) return;
      const what = `ids of "${name}"`;
      throw new CorruptionError("tensor-data", what, { file: name, expected: rowCount, actual: count });
    },
  };
  return {
    name,
    dim,
    dtype: tensor.dtype,
    initializer: embedding?.initializer ?? "",
    parts: rowCount === 0 ? [] : [part],
    slots: Array.from(slots, ([slot, { dtype, shape }]) => ({ name: slot, dtype, rowShape: shape.slice(1) })),
  };
}
