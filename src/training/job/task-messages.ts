import type { MessageInitShape } from "@bufbuild/protobuf";
import { CorruptionError } from "../../errors.js";
import { type Task, type TaskSchema, TaskType } from "../../proto/gen/elasticdl/master_pb.js";
import type { ServersOfTask, WorkerTask } from "./master-link.js";

/** Names in a task's `extended_config`, for what ElasticDL's message has no field. */
const CONFIG = {
  epoch: "cairn.epoch",
  startVersion: "cairn.start_version",
  generation: "cairn.generation",
  addresses: "cairn.ps_addresses",
  isRestored: "cairn.is_restored",
  startPath: "cairn.start_path",
  round: "cairn.round",
} as const;

/** A task as `proto.Task`. */
export function encodeTask(task: WorkerTask): MessageInitShape<typeof TaskSchema> {
  if (task.kind === "end") return { type: TaskType.NONE };
  if (task.kind === "wait") return { type: TaskType.WAIT, extendedConfig: serversConfig(task) };
  if (task.kind === "save") {
    return { taskId: task.taskId, type: TaskType.TRAIN_END_CALLBACK, extendedConfig: serversConfig(task) };
  }
  const { taskId, start, end } = task;
  const range = { start: BigInt(start), end: BigInt(end) };
  if (task.kind === "evaluation") {
    const extendedConfig = { [CONFIG.round]: String(task.round) };
    const { modelVersion } = task;
    return { taskId, type: TaskType.EVALUATION, modelVersion, shard: { ...range, name: task.path }, extendedConfig };
  }
  const extendedConfig = {
    [CONFIG.epoch]: String(task.epoch),
    // Below 0 only where several workers train, who have no use for it.
    [CONFIG.startVersion]: String(Math.max(0, task.startVersion)),
    ...serversConfig(task),
  };
  const modelVersion = Math.max(0, task.startVersion);
  return { taskId, type: TaskType.TRAINING, modelVersion, shard: range, extendedConfig };
}

function serversConfig({ generation, addresses, isRestored, startPath }: ServersOfTask): Record<string, string> {
  return {
    [CONFIG.generation]: String(generation),
    [CONFIG.addresses]: addresses.join(" "),
    [CONFIG.isRestored]: String(isRestored),
    [CONFIG.startPath]: startPath,
  };
}

/** A task of a `proto.Task`. @throws {@link CorruptionError} (`invalid-wire`) */
export function decodeTask({ taskId, type, modelVersion, shard, extendedConfig }: Task): WorkerTask {
  if (type === TaskType.NONE) return { kind: "end" };
  const number = (name: string) => count(Number(extendedConfig[name] ?? Number.NaN), name);
  const servers = () => ({
    generation: number(CONFIG.generation),
    addresses: (extendedConfig[CONFIG.addresses] ?? "").split(" ").filter((address) => address !== ""),
    isRestored: extendedConfig[CONFIG.isRestored] === "true",
    startPath: extendedConfig[CONFIG.startPath] ?? "",
  });
  if (type === TaskType.WAIT) return { kind: "wait", ...servers() };
  if (type === TaskType.TRAIN_END_CALLBACK) return { kind: "save", taskId, ...servers() };
  const start = count(Number(shard?.start ?? -1), "start");
  const end = count(Number(shard?.end ?? -1), "end");
  if (type === TaskType.EVALUATION) {
    return {
      kind: "evaluation",
      taskId,
      start,
      end,
      modelVersion,
      path: shard?.name ?? "",
      round: number(CONFIG.round),
    };
  }
  return {
    kind: "training",
    taskId,
    start,
    end,
    epoch: number(CONFIG.epoch),
    startVersion: number(CONFIG.startVersion),
    ...servers(),
  };
}

function count(value: number, name: string): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new CorruptionError("invalid-wire", `"${name}" of a task`, {
    expected: "a whole number from 0",
    actual: value,
  });
}
