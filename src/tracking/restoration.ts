import { CorruptionError, isCairnError, UsageError } from "../errors.js";
import { type ObjectGraph, type ObjectNode, shortestPaths } from "../proto/object-graph.js";
import type { DType } from "../tensor/dtype.js";
import { formatShape, type Shape } from "../tensor/shape.js";
import type { TensorSource } from "../tensor/tensor-source.js";
import { type LiveGraph, type LiveNode, walkObjects } from "./live-graph.js";
import { keyText, objectPath, tensorKey } from "./object-path.js";
import type { TensorValue, Trackable, TrackedTensor } from "./trackable.js";

/** The tensors of an opened checkpoint. */
export interface CheckpointTensors extends TensorSource {
  /** What errors print. */
  readonly path: string;
  /** Several tensors at once, in any order; absent where one at a time is as good. */
  readAll?(keys: ReadonlySet<string>): AsyncIterable<{ readonly key: string; readonly value: TensorValue }>;
}

/** A tensor of the program and the stored one that it takes. */
interface Assignment {
  readonly tensor: TrackedTensor;
  readonly key: string;
}

/**
 * A checkpoint that is being restored into a program: which stored object is which object of the program. Objects that
 * the program makes later are matched when {@link Restoration.update} is called again.
 */
export class Restoration {
  readonly graph: ObjectGraph;
  readonly tensors: CheckpointTensors;
  /** The object that each matched stored object stands for, by its id. */
  readonly bound = new Map<number, Trackable>();
  /** The stored objects whose object had been matched to another one before. */
  readonly doubles: number[] = [];
  /** Keys of matched objects that these have no tensor for. */
  readonly unusedKeys: string[] = [];
  private readonly pathOf: (id: number) => readonly string[];
  private readonly ids = new Map<Trackable, number>();
  private readonly filled = new Set<string>();

  /** A restoration that has matched nothing yet. */
  constructor(graph: ObjectGraph, tensors: CheckpointTensors) {
    this.graph = graph;
    this.tensors = tensors;
    this.pathOf = shortestPaths(graph);
  }

  /**
   * Matches what can be reached from `root` and was not matched before, and gives it its values: all of them, or none
   * when one doesn't fit or cannot be read.
   * @throws {@link UsageError} (`tensor-mismatch`), {@link CorruptionError}
   */
  async update(root: Trackable): Promise<void> {
    const live = walkObjects(root);
    const before = new Set(this.bound.keys());
    this.match(root, live);
    const fresh = [...this.bound.keys()].filter((id) => !before.has(id) && !this.doubles.includes(id));
    try {
      await this.fill(fresh);
    } catch (error) {
      for (const id of fresh) this.unbind(id);
      throw error;
    }
  }

  /** Whether an object has got a value for each of its tensors, as far as they are listed. */
  isFilled(object: Trackable, tensors: readonly TrackedTensor[]): boolean {
    const id = this.ids.get(object);
    return id !== undefined && tensors.every((tensor) => tensor.isUnlisted || this.filled.has(`${id} ${tensor.name}`));
  }

  private unbind(id: number): void {
    const object = this.bound.get(id);
    this.bound.delete(id);
    for (const double of this.doubles.filter((one) => this.bound.get(one) === object)) {
      this.bound.delete(double);
      this.doubles.splice(this.doubles.indexOf(double), 1);
    }
    if (object !== undefined) this.ids.delete(object);
  }

  /** Walks both graphs by the names of edges. Source: tensorflow/python/checkpoint/restore.py. */
  private match(root: Trackable, live: LiveGraph): void {
    const nodeOf = (object: Trackable): LiveNode | undefined => live.nodes[live.ids.get(object) ?? -1];
    this.bind(0, root);
    const visited = new Set([0]);
    for (const id of visited) {
      const node = nodeOf(this.bound.get(id) as Trackable);
      if (node === undefined) continue;
      const byName = new Map(node.children.map((child) => [child.name, child.nodeId]));
      for (const { name, nodeId } of this.stored(id).children) {
        const child = live.nodes[byName.get(name) ?? -1];
        if (child === undefined) continue;
        this.bind(nodeId, child.object);
        visited.add(nodeId);
      }
    }
    for (const id of visited) this.matchSlots(id);
  }

  private matchSlots(id: number): void {
    const owner = this.bound.get(id)?.checkpointSlots;
    if (owner === undefined) return;
    for (const { variableId, slotName, nodeId } of this.stored(id).slots) {
      const variable = this.bound.get(variableId);
      if (variable === undefined || this.bound.has(nodeId)) continue;
      const slot = owner.slot(variable, slotName) ?? owner.futureSlot(variable, slotName);
      if (slot !== undefined) this.bind(nodeId, slot);
    }
  }

  private bind(id: number, object: Trackable): void {
    if (this.bound.has(id)) return;
    this.bound.set(id, object);
    if (this.ids.has(object)) this.doubles.push(id);
    else this.ids.set(object, id);
  }

  private stored(id: number): ObjectNode {
    return this.graph[id] as ObjectNode;
  }

  /** Checks all, then reads all, then assigns all. */
  private async fill(ids: readonly number[]): Promise<void> {
    const assignments: Assignment[] = [];
    const filled: string[] = [];
    const unused: string[] = [];
    for (const id of ids) {
      const { attributes } = this.stored(id);
      const tensors = [...((this.bound.get(id) as Trackable).checkpointTensors?.() ?? [])];
      for (const tensor of tensors) {
        const key = tensor.isUnlisted
          ? await this.unlistedKey(id, tensor)
          : attributes.find(({ name }) => name === tensor.name)?.checkpointKey;
        if (key === undefined) continue;
        assignments.push({ tensor, key: keyText(key) });
        filled.push(`${id} ${tensor.name}`);
      }
      for (const { name, checkpointKey } of attributes) {
        if (!tensors.some((tensor) => tensor.name === name)) unused.push(checkpointKey);
      }
    }
    for (const assignment of assignments) await this.check(assignment);
    const applies: (() => void)[] = [];
    const values = await this.readAll(new Set(assignments.map(({ key }) => key)));
    for (const { tensor, key } of assignments) applies.push(await tensor.prepare(values.get(key) as TensorValue));
    for (const apply of applies) apply();
    for (const name of filled) this.filled.add(name);
    this.unusedKeys.push(...unused);
  }

  /** The key of a tensor that the graph does not name, when there is one. */
  private async unlistedKey(id: number, tensor: TrackedTensor): Promise<string | undefined> {
    const key = tensorKey(objectPath(this.pathOf(id)), tensor.name);
    try {
      await this.tensors.info(keyText(key));
      return key;
    } catch (error) {
      if (isCairnError(error, "no-such-key")) return undefined;
      throw error;
    }
  }

  private async check({ tensor, key }: Assignment): Promise<void> {
    const stored = await this.info(key);
    const isSame = stored.dtype === tensor.dtype && formatShape(stored.shape) === formatShape(tensor.shape);
    if (isSame || tensor.accepts?.(stored)) return;
    throw new UsageError("tensor-mismatch", `"${key}" does not fit the object that it is restored into`, {
      file: this.tensors.path,
      expected: formatType(tensor),
      actual: formatType(stored),
      hint: "Build the objects as they were when the checkpoint was written.",
    });
  }

  private async info(key: string): Promise<{ dtype: DType; shape: Shape }> {
    try {
      return await this.tensors.info(key);
    } catch (cause) {
      if (!isCairnError(cause, "no-such-key")) throw cause;
      const what = `the object graph names "${key}", which the checkpoint has not`;
      throw new CorruptionError("object-graph", what, { file: this.tensors.path, cause });
    }
  }

  /** Reads and verifies tensors. */
  private async readAll(keys: ReadonlySet<string>): Promise<ReadonlyMap<string, TensorValue>> {
    const { tensors } = this;
    const values = new Map<string, TensorValue>();
    if (tensors.readAll !== undefined) {
      for await (const { key, value } of tensors.readAll(keys)) values.set(key, value);
      return values;
    }
    for (const key of keys) {
      const { dtype, shape } = await tensors.info(key);
      const data = await tensors.data(key);
      values.set(key, { dtype, shape, bytes: await data.read(0, data.size) });
    }
    await tensors.verify();
    return values;
  }
}

function formatType({ dtype, shape }: { readonly dtype: DType; readonly shape: Shape }): string {
  return `${dtype} ${formatShape(shape)}`;
}
