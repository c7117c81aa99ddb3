import { PlanError } from "../errors.js";
import { MAX_OFFSET, MAX_RANK } from "../limits.js";
import { type DType, elementBytes } from "../tensor/dtype.js";
import { type Region, regionShape, wholeRegion } from "../tensor/region.js";
import { elementCount, formatShape, type Shape } from "../tensor/shape.js";
import { formatSliceSpec, parseSliceSpec, type SliceInfo } from "../tensor/slice-spec.js";
import { coverSame, findOverlap } from "./coverage.js";
import { parseDevice, taskOf } from "./device.js";
import type { ShardableTensor } from "./shardable-tensor.js";

/** What is known of a tensor before the callback has seen it. */
export interface PlannedInput {
  readonly key: string;
  readonly dtype: DType;
  readonly fullShape: Shape;
  /** The region that is the whole tensor. */
  readonly whole: Region;
  /** What of the tensor is to be saved, and by which task. */
  readonly parts: { readonly task: string; readonly region: Region }[];
}

/** What a task has to save. */
export interface TaskInputs {
  readonly tensors: readonly ShardableTensor[];
  readonly keys: ReadonlySet<string>;
}

/** All that is to be saved. */
export interface PlannedInputs {
  /** By task, in order of first appearance. */
  readonly tasks: ReadonlyMap<string, TaskInputs>;
  readonly byKey: ReadonlyMap<string, PlannedInput>;
}

/**
 * Groups tensors by task and notes what they are.
 * @throws {@link PlanError} (`invalid-plan`) when one contradicts itself or another
 */
export function collectInputs(tensors: Iterable<ShardableTensor>): PlannedInputs {
  const tasks = new Map<string, { tensors: ShardableTensor[]; keys: Set<string> }>();
  const byKey = new Map<string, PlannedInput>();
  const taskOfDevice = new Map<string, string>();
  for (const tensor of tensors) {
    let task = taskOfDevice.get(tensor.device);
    if (task === undefined) {
      task = readTask(tensor);
      taskOfDevice.set(tensor.device, task);
    }
    let ofTask = tasks.get(task);
    if (ofTask === undefined) {
      ofTask = { tensors: [], keys: new Set() };
      tasks.set(task, ofTask);
    }
    ofTask.tensors.push(tensor);
    ofTask.keys.add(tensor.checkpointKey);
    addInput(byKey, task, tensor);
  }
  for (const input of byKey.values()) checkDisjoint(input);
  return { tasks, byKey };
}

function readTask({ device, checkpointKey }: ShardableTensor): string {
  try {
    return taskOf(parseDevice(device));
  } catch (cause) {
    throw new PlanError("invalid-plan", `device ${JSON.stringify(device)} of "${checkpointKey}"`, { cause });
  }
}

function addInput(byKey: Map<string, PlannedInput>, task: string, tensor: ShardableTensor): void {
  const { checkpointKey: key, dtype, shape, sliceSpec } = tensor;
  checkTensor(tensor);
  const slice = readSlice(key, sliceSpec, shape);
  const fullShape = slice?.fullShape ?? shape;
  let input = byKey.get(key);
  if (input === undefined) {
    input = { key, dtype, fullShape, whole: wholeRegion(fullShape), parts: [] };
    byKey.set(key, input);
  } else if (input.dtype !== dtype || !isSameShape(input.fullShape, fullShape)) {
    throw new PlanError("invalid-plan", `slices of "${key}" are of different tensors`, {
      expected: `${input.dtype} ${formatShape(input.fullShape)}`,
      actual: `${dtype} ${formatShape(fullShape)}`,
    });
  }
  input.parts.push({ task, region: slice?.region ?? input.whole });
}

function checkTensor({ checkpointKey, dtype, shape, tensor }: ShardableTensor): void {
  let elements = shape.length > MAX_RANK ? Number.NaN : 1;
  for (const size of shape) elements *= Number.isSafeInteger(size) && size >= 0 ? Math.max(1, size) : Number.NaN;
  if (!(elements <= MAX_OFFSET)) {
    throw new PlanError("invalid-plan", `shape ${formatShape(shape)} of "${checkpointKey}"`);
  }
  const problem = describeMismatch({ dtype, shape }, tensor);
  if (problem !== undefined) throw new PlanError("invalid-plan", `the value of "${checkpointKey}" ${problem}`);
}

/** What keeps a value from being the tensor that it should be; undefined when nothing does. */
export function describeMismatch(
  wanted: { readonly dtype: DType; readonly shape: Shape },
  tensor: { readonly dtype: DType; readonly shape: Shape; readonly byteLength: number },
): string | undefined {
  const { dtype, shape } = wanted;
  if (tensor.dtype !== dtype) return `has dtype ${tensor.dtype}, not ${dtype}`;
  if (!isSameShape(tensor.shape, shape)) return `has shape ${formatShape(tensor.shape)}, not ${formatShape(shape)}`;
  const width = elementBytes(dtype);
  if (width === 0 || tensor.byteLength === elementCount(shape) * width) return undefined;
  return `has ${tensor.byteLength} bytes, not ${elementCount(shape) * width}`;
}

/** Where a tensor lies in the whole of which it is a slice; undefined when it is whole. */
function readSlice(key: string, sliceSpec: string, shape: Shape): SliceInfo | undefined {
  let slice: SliceInfo | undefined;
  try {
    slice = parseSliceSpec(sliceSpec);
  } catch (cause) {
    throw new PlanError("invalid-plan", `slice spec "${sliceSpec}" of "${key}" cannot be read`, { cause });
  }
  if (slice === undefined || isSameShape(regionShape(slice.region), shape)) return slice;
  throw new PlanError("invalid-plan", `slice spec "${sliceSpec}" of "${key}" is of another shape than its value`, {
    expected: formatShape(regionShape(slice.region)),
    actual: formatShape(shape),
  });
}

/** Checks that no element of a tensor is to be saved twice. */
function checkDisjoint({ key, fullShape, whole, parts }: PlannedInput): void {
  if (parts.length === 1) return;
  const regions = parts.map(({ region }) => region);
  const isEmpty = fullShape.includes(0);
  if (!isEmpty && coverSame(regions, [whole])) return;
  const pair = isEmpty ? ([0, 1] as const) : findOverlap(regions);
  if (pair === undefined) return;
  const [a, b] = pair.map((index) => JSON.stringify(formatSliceSpec(fullShape, regions[index] as Region)));
  throw new PlanError("invalid-plan", `"${key}" is to be saved twice: slices ${a} and ${b} overlap`);
}

/** Whether two shapes are the same. */
export function isSameShape(a: Shape, b: Shape): boolean {
  return a === b || (a.length === b.length && a.every((size, i) => size === b[i]));
}
