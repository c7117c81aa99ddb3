import { UsageError } from "../errors.js";

/** A device by its parts; what a text doesn't say is absent. */
export interface DeviceSpec {
  readonly job?: string | undefined;
  readonly replica?: number | undefined;
  readonly task?: number | undefined;
  /** CPU, GPU, TPU and the like. */
  readonly deviceType?: string | undefined;
  readonly deviceIndex?: number | undefined;
}

const INDEX = /^\d{1,9}$/;
const WORD = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/**
 * Parses `/job:worker/replica:0/task:1/device:GPU:0`. Any part may be absent or `*`, and `/gpu:0` is short for
 * `/device:GPU:0`. Source: tensorflow/python/framework/device_spec.py, DeviceSpecV2.from_string.
 * @throws {@link UsageError} (`usage`)
 */
export function parseDevice(text: string): DeviceSpec {
  const spec: { -readonly [Part in keyof DeviceSpec]: DeviceSpec[Part] } = {};
  for (const part of text.split("/")) {
    if (part === "") continue;
    const [name = "", value = "", index, ...rest] = part.split(":");
    if (rest.length > 0) throw badDevice(text, part);
    if (name === "job" && index === undefined && WORD.test(value)) spec.job = value;
    else if (name === "replica" && index === undefined) spec.replica = parseIndex(value, text);
    else if (name === "task" && index === undefined) spec.task = parseIndex(value, text);
    else if (name === "device" && WORD.test(value)) {
      spec.deviceType = value.toUpperCase();
      spec.deviceIndex = parseIndex(index ?? "*", text);
    } else if (/^[A-Za-z]PU$/i.test(name) && index === undefined) {
      spec.deviceType = name.toUpperCase();
      spec.deviceIndex = parseIndex(value === "" ? "*" : value, text);
    } else if (part !== "job:*") throw badDevice(text, part);
  }
  return spec;
}

/** A device in full, its absent parts left out; equal devices have equal texts. */
export function formatDevice(spec: DeviceSpec): string {
  const { job, replica, task, deviceType, deviceIndex } = spec;
  let text = job === undefined ? "" : `/job:${job}`;
  if (replica !== undefined) text += `/replica:${replica}`;
  if (task !== undefined) text += `/task:${task}`;
  if (deviceType !== undefined) text += `/device:${deviceType}:${deviceIndex ?? "*"}`;
  return text;
}

/**
 * The task of a device, as the CPU of its host: tensors of one task can be in one shard. What the device doesn't say is
 * that of a program on its own, `/job:localhost/replica:0/task:0`.
 * Source: tensorflow/python/training/saving/saveable_object_util.py, set_cpu0.
 */
export function taskOf({ job = "localhost", replica = 0, task = 0 }: DeviceSpec): string {
  return formatDevice({ job, replica, task, deviceType: "CPU", deviceIndex: 0 });
}

/** Orders devices by job, replica, task, type and index, numbers as numbers; what is absent comes first. */
export function compareDevices(a: DeviceSpec, b: DeviceSpec): number {
  return (
    compare(a.job, b.job) ||
    compare(a.replica, b.replica) ||
    compare(a.task, b.task) ||
    compare(a.deviceType, b.deviceType) ||
    compare(a.deviceIndex, b.deviceIndex)
  );
}

function compare<Part extends string | number>(a: Part | undefined, b: Part | undefined): number {
  if (a === b) return 0;
  if (a === undefined || b === undefined) return a === undefined ? -1 : 1;
  return a < b ? -1 : 1;
}

function parseIndex(value: string, text: string): number | undefined {
  if (value === "*") return undefined;
  if (INDEX.test(value)) return Number(value);
  throw badDevice(text, value);
}

function badDevice(text: string, part: string): UsageError {
  return new UsageError("usage", `device ${JSON.stringify(text)} cannot be read at ${JSON.stringify(part)}`, {
    hint: "A device looks like /job:worker/replica:0/task:1/device:GPU:0.",
  });
}
