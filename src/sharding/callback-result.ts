import { CairnError, PlanError } from "../errors.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { type Region, regionShape } from "../tensor/region.js";
import { elementCount, formatShape } from "../tensor/shape.js";
import { formatSliceSpec, parseSliceSpec, type SliceInfo } from "../tensor/slice-spec.js";
import { coverSame, findOverlap } from "./coverage.js";
import { describeMismatch, isSameShape, type PlannedInput } from "./planned-input.js";
import type { PlannedShard, PlannedSlice } from "./shard-plan.js";

/** What a result is checked against. */
export interface CheckedCall {
  readonly description: string;
  readonly task: string;
  /** The keys of the task's tensors. */
  readonly keys: ReadonlySet<string>;
  /** The tensors of all tasks. */
  readonly inputs: ReadonlyMap<string, PlannedInput>;
}

/** The answer of a callback for one task, held against the tensors that the callback was given. */
export class CallbackResult {
  private readonly call: CheckedCall;
  /** By key, the parts of the tensor that are in a shard. */
  private readonly placed = new Map<string, Region[]>();

  /** Checks results of one call. */
  constructor(call: CheckedCall) {
    this.call = call;
  }

  /** The shards of the task. @throws {@link PlanError} (`invalid-plan`) when they break the rules */
  check(returned: unknown): PlannedShard[] {
    if (!Array.isArray(returned)) throw this.broken(`gave ${nameOf(returned)}, not a list of shards`);
    if (returned.length === 0) throw this.broken(`gave no shard for ${this.call.task}`);
    const shards = returned.map((shard: unknown, index) => this.checkShard(shard, index));
    for (const key of this.call.keys) this.checkCoverage(this.call.inputs.get(key) as PlannedInput);
    return shards;
  }

  private checkShard(shard: unknown, index: number): PlannedShard {
    if (!(shard instanceof Map)) {
      throw this.broken(`gave ${nameOf(shard)} as shard ${index}, not a Map of key to Map of slice spec to tensor`);
    }
    const slices: PlannedSlice[] = [];
    for (const [key, bySpec] of shard) {
      if (!(bySpec instanceof Map)) {
        throw this.broken(`gave ${nameOf(bySpec)} as ${JSON.stringify(key)}, not a Map of slice spec to tensor`);
      }
      for (const [spec, tensor] of bySpec) slices.push(this.checkSlice(key, spec, tensor));
    }
    if (slices.length === 0) throw this.broken(`left shard ${index} of ${this.call.task} empty`);
    return { task: this.call.task, slices };
  }

  private checkSlice(key: unknown, text: unknown, tensor: unknown): PlannedSlice {
    if (typeof key !== "string" || typeof text !== "string") {
      throw this.broken(`gave ${nameOf(key)} and ${nameOf(text)} as key and slice spec, not text`);
    }
    const spec = text.trim();
    const input = this.call.inputs.get(key);
    if (input === undefined) throw this.broken(`added ${sliceName(key, spec)}, which is not to be saved`);
    if (!isTensor(tensor)) throw this.broken(`gave ${nameOf(tensor)} for ${sliceName(key, spec)}, not a tensor`);
    const slice = this.readSlice(input, spec, tensor);
    const wanted = { dtype: input.dtype, shape: spec === "" ? input.fullShape : regionShape(slice.region) };
    const problem = describeMismatch(wanted, tensor);
    if (problem !== undefined) throw this.broken(`changed ${sliceName(key, spec)}: it ${problem}`);
    const regions = this.placed.get(key);
    if (regions === undefined) this.placed.set(key, [slice.region]);
    else regions.push(slice.region);
    return slice;
  }

  private readSlice({ key, fullShape, whole, parts }: PlannedInput, spec: string, tensor: LazyTensor): PlannedSlice {
    const { task, keys } = this.call;
    if (!keys.has(key)) {
      throw this.broken(`put ${sliceName(key, spec)} into a shard of ${task}, but it belongs to ${parts[0]?.task}`);
    }
    const slice = this.parseSpec(key, spec);
    const shape = slice?.fullShape ?? tensor.shape;
    if (!isSameShape(shape, fullShape)) {
      const [actual, expected] = [formatShape(shape), formatShape(fullShape)];
      throw this.broken(`changed the shape of ${sliceName(key, spec)}`, { expected, actual });
    }
    const sliceSpec = slice === undefined ? "" : formatSliceSpec(fullShape, slice.region);
    return { key, sliceSpec, fullShape, region: slice?.region ?? whole, tensor };
  }

  private parseSpec(key: string, spec: string): SliceInfo | undefined {
    try {
      return parseSliceSpec(spec);
    } catch (cause) {
      const why = cause instanceof CairnError ? cause.message : String(cause);
      throw this.broken(`gave ${sliceName(key, spec)} a slice spec that cannot be read (${why})`, { cause });
    }
  }

  /** Checks that the slices of a tensor are together what the task has of it. */
  private checkCoverage({ key, fullShape, parts }: PlannedInput): void {
    const placed = this.placed.get(key);
    if (placed === undefined) throw this.broken(`left out "${key}"`);
    if (parts.length === 1 && placed.length === 1 && isSameRegion(placed[0], parts[0]?.region)) return;
    const wanted = parts.filter(({ task }) => task === this.call.task).map(({ region }) => region);
    const areSame = placed.length === 1 && wanted.length === 1 && isSameRegion(placed[0], wanted[0]);
    if (areSame || (!fullShape.includes(0) && coverSame(placed, wanted))) return;
    throw this.uncovered({ key, fullShape, placed, wanted });
  }

  /** The error that says how the slices of a tensor are not what they should be. */
  private uncovered(
    tensor: Pick<PlannedInput, "key" | "fullShape"> & { placed: Region[]; wanted: Region[] },
  ): PlanError {
    const { key, fullShape, placed, wanted } = tensor;
    const specOf = (region: Region | undefined): string => JSON.stringify(formatSliceSpec(fullShape, region ?? []));
    if (fullShape.includes(0)) return this.broken(`saved "${key}", which is empty, otherwise than once and whole`);
    let pair: readonly [number, number] | undefined;
    try {
      pair = findOverlap(placed);
    } catch {
      return this.broken(`cut "${key}" into ${placed.length} slices that overlap or leave something out`);
    }
    if (pair !== undefined) {
      const [a, b] = [specOf(placed[pair[0]]), specOf(placed[pair[1]])];
      return this.broken(`saved a part of "${key}" twice: slices ${a} and ${b} overlap`);
    }
    const [actual, expected] = [countElements(placed), countElements(wanted)];
    if (actual < expected)
      return this.broken(`left out a part of "${key}"`, { expected: `${expected} elements`, actual });
    return this.broken(
      `saved parts of "${key}" that ${this.call.task} does not have, such as slice ${specOf(placed[0])}`,
    );
  }

  private broken(
    what: string,
    details: { expected?: string; actual?: string | number; cause?: unknown } = {},
  ): PlanError {
    return new PlanError("invalid-plan", `sharding callback "${this.call.description}" ${what}`, {
      ...details,
      hint: "A callback may cut tensors and change numbers; it saves each element once, as dtype and shape are.",
    });
  }
}

/** A slice for an error. */
function sliceName(key: string, spec: string): string {
  return spec === "" ? `"${key}"` : `"${key}" slice "${spec}"`;
}

function isTensor(value: unknown): value is LazyTensor {
  if (typeof value !== "object" || value === null) return false;
  return "data" in value && typeof value.data === "function" && "shape" in value && Array.isArray(value.shape);
}

function isSameRegion(a: Region | undefined, b: Region | undefined): boolean {
  if (a === b) return true;
  return a?.every(({ start, end }, i) => start === b?.[i]?.start && end === b[i].end) ?? false;
}

function countElements(regions: readonly Region[]): number {
  return regions.reduce((sum, region) => sum + elementCount(regionShape(region)), 0);
}

/** What something is, for an error. */
function nameOf(value: unknown): string {
  if (typeof value !== "object" || value === null)
    return typeof value === "string" ? JSON.stringify(value) : String(value);
  return Array.isArray(value) ? "an array" : `an object of class ${value.constructor?.name ?? "null"}`;
}
