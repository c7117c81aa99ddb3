import { beforeEach, describe, expect, it } from "vitest";
import { LocalStore } from "../../../src/training/job/local-store.js";
import type { Job, TrainingTask } from "../../../src/training/job/master-link.js";
import type { ParameterStore } from "../../../src/training/job/parameter-store.js";
import { TrainingWork } from "../../../src/training/job/training-work.js";
import { checkDefinition } from "../../../src/training/model/model-definition.js";
import { TrainableModel } from "../../../src/training/model/trainable-model.js";
import { TOY } from "./toy-model.js";

const JOB: Job = {
  strategy: "parameter-server",
  seed: 1,
  minibatchSize: 4,
  shuffle: false,
  isExact: false,
  maxStep: 0,
  optimizer: { type: "SGD", args: "" },
};
const TASK: TrainingTask = {
  kind: "training",
  taskId: 1,
  epoch: 0,
  start: 0,
  end: 12,
  startVersion: 0,
  generation: 1,
  addresses: [],
  isRestored: false,
  startPath: "",
};

let model: TrainableModel;
let store: LocalStore;
let seen: number[];

beforeEach(async () => {
  model = await TrainableModel.build(checkDefinition(TOY), 1);
  store = await LocalStore.open({ optimizer: JOB.optimizer });
  seen = [];
});

function work(job: Partial<Job> = {}, over: ParameterStore = store): TrainingWork {
  return new TrainingWork({ model, job: { ...JOB, ...job }, store: over, seen, report: () => {} });
}

/** The store with another answer to the pull of a version. */
function pulling(change: (versions: readonly number[]) => number[], isInitialized = true): ParameterStore {
  const changed: ParameterStore = Object.create(store);
  changed.pullDense = async (versions) => {
    const pulled = await store.pullDense(versions);
    return { ...pulled, isInitialized, modelVersions: change(pulled.modelVersions) };
  };
  return changed;
}

describe("the work of a task", () => {
  it("is a version for each batch, and only what is left of it where the version tells", async () => {
    expect(await work().run(TASK)).toBe(3);
    expect(await work({ isExact: true }).run({ ...TASK, startVersion: 2 })).toBe(5);
    expect(await work({ isExact: true }).run({ ...TASK, startVersion: 2 })).toBe(5);
  });

  it("ends where training does", async () => {
    expect(await work({ maxStep: 2 }).run(TASK)).toBe(2);
    expect(await work({ maxStep: 2 }).run(TASK)).toBe(2);
  });

  it("is not done with servers that were not all started from one version", async () => {
    await work().run(TASK);
    const disagree = { code: "servers-disagree" };
    // Started anew from an older version.
    await expect(
      work(
        {},
        pulling(() => [1]),
      ).run(TASK),
    ).rejects.toMatchObject(disagree);
    // Started anew from nothing, while the others go on.
    await expect(
      work(
        {},
        pulling(() => [3, 0], false),
      ).run(TASK),
    ).rejects.toMatchObject(disagree);
    await expect(
      work(
        {},
        pulling(() => [0], false),
      ).run({ ...TASK, isRestored: true }),
    ).rejects.toMatchObject(disagree);
    // Of two versions, where each batch is one.
    await expect(
      work(
        { isExact: true },
        pulling(() => [3, 4]),
      ).run(TASK),
    ).rejects.toMatchObject(disagree);
    // Older than the task.
    const later = { ...TASK, startVersion: 9 };
    await expect(work({ isExact: true }).run(later)).rejects.toMatchObject(disagree);
  });

  it("computes a batch again whose gradients came too late, but not for ever", async () => {
    let refusals = 2;
    const refusing: ParameterStore = Object.create(store);
    refusing.push = async (...given) => {
      if (refusals-- > 0) return { accepted: false, modelVersions: [store.parameters.modelVersion] };
      return store.push(...given);
    };
    expect(await work({}, refusing).run(TASK)).toBe(3);
    refusals = Number.POSITIVE_INFINITY;
    await expect(work({}, refusing).run(TASK)).rejects.toMatchObject({ code: "training-failed" });
  });
});
