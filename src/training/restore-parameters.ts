import type { FileStore } from "../bytes/file-store.js";
import { UnsupportedError } from "../errors.js";
import { openVersion } from "../formats/elasticdl/locate.js";
import {
  type RestoredShare,
  type RestoredTable,
  type RestoredVariable,
  restoreShares,
} from "../formats/elasticdl/restore.js";
import { findDTypeNumber } from "../tensor/dtype.js";
import { floatsOf } from "./float-view.js";
import { idWords } from "./ids.js";
import { checkTensor, type Parameters } from "./parameters.js";
import { STATE } from "./snapshot.js";

/** Which server's share is read. */
export interface ShareChoice {
  readonly psId: number;
  readonly psNum: number;
}

/**
 * Reads the share of one server of a version, whatever the number of servers that saved it, and checks it. `path` is a
 * version directory, or a checkpoint directory, of which the newest complete version is taken.
 * @throws NotFoundError (`not-found`, `no-complete-version`, `missing-shard`, `mixed-shards`), and what damaged shards give
 */
export async function readShare(files: FileStore, path: string, { psId, psNum }: ShareChoice): Promise<RestoredShare> {
  const contents = await openVersion(files, path);
  try {
    const [share] = await restoreShares(contents, { psNum, psIds: [psId] });
    await contents.verify();
    if (share === undefined) throw new TypeError("no share of the server that was asked for");
    return share;
  } finally {
    await contents.close();
  }
}

/**
 * Puts a share into parameters that are empty: values, version, and where the optimizer is the same its slots, step and
 * learning rate, so that training goes on as if it had not stopped. Slots that are not there begin anew, as all do when
 * ElasticDL saved the share. Gives what a user should know.
 * @throws {@link UnsupportedError} (`unsupported-dtype`) for rows that are no float32, UsageError (`usage`)
 */
export function restoreParameters(parameters: Parameters, share: RestoredShare): string[] {
  const notes: string[] = [];
  const { integers, numbers, texts } = share.state;
  const { optimizer } = parameters;
  const isSame = texts.get(STATE.type) === optimizer.type;
  if (texts.has(STATE.type) && !isSame) {
    notes.push(`The checkpoint was saved with ${texts.get(STATE.type)}: the state of ${optimizer.type} begins anew.`);
  }
  for (const [name, variable] of share.dense) restoreVariable(parameters, name, variable, isSame);
  for (const [name, table] of share.tables) restoreTable(parameters, name, table, isSame);
  parameters.modelVersion = share.modelVersion;
  parameters.isInitialized = true;
  if (isSame) parameters.step = Number(integers.get(STATE.step) ?? 0n);
  // With other settings, the learning rate is the one that these say.
  const rate = numbers.get(STATE.learningRate);
  if (texts.get(STATE.args) === optimizer.args && isSame && rate !== undefined) parameters.learningRate = rate;
  return notes;
}

function restoreVariable(parameters: Parameters, name: string, variable: RestoredVariable, withSlots: boolean): void {
  const { dtype, shape, data, slots } = variable;
  const tensor = { dtype: findDTypeNumber(dtype) ?? 0, shape: [...shape], content: data };
  checkTensor(name, tensor);
  const { arrays } = parameters.addDense(name, tensor);
  if (!withSlots || arrays.length === 0) return;
  parameters.optimizer.slots.forEach((slot, index) => {
    const stored = slots.get(slot.name);
    const target = arrays[index + 1];
    if (stored?.dtype === "float32" && stored.data.length === target?.byteLength) target.set(floatsIn(stored.data));
  });
}

function restoreTable(parameters: Parameters, name: string, stored: RestoredTable, withSlots: boolean): void {
  const { dim, dtype, initializer, ids, data } = stored;
  if (dtype !== "float32" && ids.length > 0) {
    throw new UnsupportedError("unsupported-dtype", `rows of embedding table "${name}"`, {
      expected: "float32",
      actual: dtype,
    });
  }
  const table = parameters.addStoredTable({ name, dim, initializer });
  const words = idWords(ids);
  const values = floatsIn(data);
  const slots = parameters.optimizer.slots.map((slot) => {
    const found = stored.slots.get(slot.name);
    const fits = withSlots && found?.dtype === "float32" && found.data.length === data.length;
    return fits ? floatsIn(found.data) : undefined;
  });
  for (let i = 0; i < ids.length; i++) {
    const row = table.setRow(words[2 * i] as number, words[2 * i + 1] as number, values, i * dim);
    const arrays = table.arraysOf(row);
    const to = table.offsetOf(row);
    for (let k = 0; k < slots.length; k++) {
      const from = slots[k];
      const target = arrays[k + 1] as Float32Array;
      if (from !== undefined) for (let j = 0; j < dim; j++) target[to + j] = from[i * dim + j] as number;
    }
  }
}

function floatsIn(bytes: Uint8Array): Float32Array {
  return floatsOf(bytes, (count) => new Float32Array(count));
}

/** The seed of random rows that a share was saved with; undefined when it says none. */
export function storedSeed({ state }: RestoredShare): number | undefined {
  const seed = state.integers.get(STATE.seed);
  return seed === undefined ? undefined : Number(seed);
}
