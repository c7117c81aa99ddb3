import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type MetricsRecord, rankVersions, readMetrics } from "../../../src/formats/elasticdl/metrics.js";
import { listVersions } from "../../../src/formats/elasticdl/versions.js";
import { localFiles } from "../../../src/platform/node/index.js";
import { type JobOptions, masterOptions } from "../../../src/training/job/job-options.js";
import { LocalStore, storeOptions } from "../../../src/training/job/local-store.js";
import { Master } from "../../../src/training/job/master.js";
import type { EvaluationTask, MasterLink, TrainingTask } from "../../../src/training/job/master-link.js";
import { runWorker } from "../../../src/training/job/worker.js";
import { checkDefinition } from "../../../src/training/model/model-definition.js";
import { TOY } from "./toy-model.js";

const definition = checkDefinition(TOY);
let folder: string;
let nowMs = 0;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-master-"));
  nowMs = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const JOB: JobOptions = {
  strategy: "parameter-server",
  numWorkers: 2,
  numEpochs: 1,
  minibatchSize: 4,
  numMinibatchesPerTask: 2,
  maxStep: 0,
  shuffle: false,
  seed: 1,
  useAsync: true,
  gradsToWait: 1,
  checkpointSteps: 0,
  keepCheckpointMax: 0,
  evaluationSteps: 0,
  patience: 0,
  layout: "design",
  workerTimeout: 10,
};

async function startMaster(options: Partial<JobOptions> = {}): Promise<Master> {
  const all = await masterOptions(definition, { ...JOB, jobId: "j", ...options });
  return Master.start({ ...all, now: () => nowMs });
}

const SERVERS = { addresses: ["a:1"], generation: 1, modelVersion: 0, isRestored: false, startPath: "" };

async function training(master: MasterLink, workerId: number): Promise<TrainingTask> {
  const task = await master.getTask(workerId);
  expect(task.kind).toBe("training");
  return task as TrainingTask;
}

const starts = async (master: Master, workerId: number) => (await training(master, workerId)).start;

describe("a master", () => {
  it("has nothing to do before there are servers, and ends when all is done", async () => {
    const master = await startMaster();
    expect(await master.getTask(0)).toMatchObject({ kind: "wait" });
    await master.setServers(SERVERS);
    for (let i = 0; i < 5; i++) {
      const { taskId, start, end } = await training(master, 0);
      expect([start, end]).toEqual([i * 8, i * 8 + 8]);
      await master.reportTaskResult({ taskId, modelVersion: (i + 1) * 2 });
    }
    expect(master.status()).toMatchObject({ phase: "trained", modelVersion: 10, tasksDone: 5 });
    expect((await master.getTask(0)).kind).toBe("wait");
    await master.setTrained(10);
    expect(master.status().phase).toBe("finished");
    expect(await master.getTask(0)).toEqual({ kind: "end" });
  });

  it("gives the task of a silent worker to another, and takes no late result of it", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    const lost = await training(master, 0);
    nowMs = 9_000;
    await master.tick();
    expect(await starts(master, 1)).toBe(8);
    nowMs = 10_001;
    await master.tick();
    expect(master.status().silentWorkers).toEqual([0]);
    await master.reportTaskResult({ taskId: lost.taskId, modelVersion: 2 });
    expect(master.status().tasksDone).toBe(0);
    expect(await starts(master, 2)).toBe(0);
  });

  it("takes back what a worker had who asks for a new task", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    expect([await starts(master, 0), await starts(master, 0)]).toEqual([0, 0]);
  });

  it("goes back with the servers", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    for (const modelVersion of [2, 4, 6]) {
      await master.reportTaskResult({ taskId: (await training(master, 0)).taskId, modelVersion });
    }
    await master.setServers({ ...SERVERS, addresses: ["b:1"], generation: 2, modelVersion: 4, isRestored: true });
    expect(await training(master, 0)).toMatchObject({ start: 16, addresses: ["b:1"], isRestored: true, generation: 2 });
  });

  it("asks for a rollback when servers disagree, and deals out nothing until it is done", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    const { taskId } = await training(master, 0);
    const failure = { code: "servers-disagree", message: "of different versions" };
    await master.reportTaskResult({ taskId, modelVersion: 0, failure });
    expect(master.status().needsRollback).toBe(true);
    expect((await master.getTask(0)).kind).toBe("wait");
    await master.setServers({ ...SERVERS, generation: 2 });
    expect(await starts(master, 0)).toBe(0);
  });

  it.each([
    ["usage", 1],
    ["training-failed", 3],
  ])("fails by a task that fails with %s %i times", async (code, times) => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    for (let i = 0; i < times; i++) {
      expect(master.status().phase).toBe("training");
      const { taskId } = await training(master, i);
      await master.reportTaskResult({ taskId, modelVersion: 0, failure: { code, message: "why" } });
    }
    expect(master.status()).toMatchObject({ phase: "failed", code, reason: "why" });
    expect(await master.getTask(0)).toEqual({ kind: "end" });
  });

  it("waits for servers that are away, but not for ever", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    for (const at of [0, 15_000, 29_000]) {
      nowMs = at;
      const { taskId } = await training(master, 0);
      await master.reportTaskResult({ taskId, modelVersion: 0, failure: { code: "rpc-failed", message: "away" } });
      await master.tick();
      expect(master.status()).toMatchObject({ phase: "training", needsRollback: false });
    }
    nowMs = 31_000;
    await master.tick();
    expect(master.status()).toMatchObject({ phase: "training", needsRollback: true });
    nowMs = 120_001;
    await master.tick();
    expect(master.status()).toMatchObject({ phase: "failed", code: "rpc-failed" });
  });

  it("knows of servers that are away from a worker, too, that has lost its task meanwhile", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    const { taskId } = await training(master, 0);
    nowMs = 10_001;
    await master.tick();
    await master.reportTaskResult({ taskId, modelVersion: 0, failure: { code: "rpc-failed", message: "away" } });
    nowMs += 31_000;
    await master.tick();
    expect(master.status().needsRollback).toBe(true);
  });

  it("does not give up servers with which somebody trains", async () => {
    const master = await startMaster();
    await master.setServers(SERVERS);
    const { taskId } = await training(master, 0);
    await master.reportTaskResult({ taskId, modelVersion: 0, failure: { code: "rpc-failed", message: "away" } });
    await master.reportProgress({ workerId: 1, modelVersion: 7, loss: 0.5, batches: 2 });
    await master.reportProgress({ workerId: 1, modelVersion: 0, loss: Number.NaN, batches: 0 });
    nowMs = 31_000;
    await master.tick();
    expect(master.status()).toMatchObject({ needsRollback: false, modelVersion: 7, loss: 0.5 });
  });

  it("that is started again knows what is done, and takes no results for tasks of before", async () => {
    const checkpointDir = join(folder, "ckpt");
    const first = await startMaster({ checkpointDir });
    await first.setServers(SERVERS);
    await first.reportTaskResult({ taskId: (await training(first, 0)).taskId, modelVersion: 2 });
    const open = await training(first, 0);
    nowMs = 1000;
    await first.tick();
    const second = await startMaster({ checkpointDir });
    await second.setServers(SERVERS);
    await second.reportTaskResult({ taskId: open.taskId, modelVersion: 4 });
    expect(second.status().tasksDone).toBe(1);
    expect(await starts(second, 0)).toBe(8);
    const other = await startMaster({ checkpointDir, jobId: "another" });
    await other.setServers(SERVERS);
    expect(await starts(other, 0)).toBe(0);
  });

  it("refuses a damaged record of its progress", async () => {
    const checkpointDir = join(folder, "ckpt");
    const first = await startMaster({ checkpointDir });
    await first.setServers(SERVERS);
    writeFileSync(join(folder, "ckpt.cairn", "progress.json"), '{"done": 3}');
    await expect(startMaster({ checkpointDir })).rejects.toMatchObject({ code: "invalid-json" });
  });
});

/** Trains with the toy in this process, and gives the master. */
async function train(options: Partial<JobOptions>, startPath = ""): Promise<{ master: Master; evaluated: string[] }> {
  const initPath = startPath === "" ? undefined : startPath;
  const all = { strategy: "local" as const, numWorkers: 1, checkpointDir: join(folder, "ckpt"), ...options, initPath };
  const master = await startMaster({ jobId: startPath, ...all });
  const modelVersion = Number(/\d+$/.exec(startPath)?.[0] ?? 0);
  await master.setServers({ ...SERVERS, addresses: [], modelVersion, isRestored: startPath !== "", startPath });
  const evaluated: string[] = [];
  let store: LocalStore | undefined;
  const link: MasterLink = {
    join: (workerId) => master.join(workerId),
    getTask: async (workerId) => {
      // What is being saved is there when the master looks.
      await store?.saver?.idle();
      await master.tick();
      const task = await master.getTask(workerId);
      if (task.kind === "evaluation") evaluated.push((task as EvaluationTask).path.slice(folder.length));
      return task;
    },
    reportTaskResult: (result) => master.reportTaskResult(result),
    reportEvaluation: (outputs) => master.reportEvaluation(outputs),
    reportProgress: (progress) => master.reportProgress(progress),
    getCommRank: (workerId) => master.getCommRank(workerId),
    reduce: (call) => master.reduce(call),
  };
  await runWorker({
    master: link,
    definition,
    workerId: 0,
    openStore: async (servers, job) => {
      store = await LocalStore.open(storeOptions(servers, job, () => {}));
      return store;
    },
  });
  await store?.close();
  return { master, evaluated };
}

describe("a training in one process", () => {
  it("evaluates each due version once, and the last, and keeps the best from retention", async () => {
    const options = { checkpointSteps: 4, evaluationSteps: 4, keepCheckpointMax: 1, numEpochs: 2, maxStep: 18 };
    const { master, evaluated } = await train(options);
    const paths = [4, 8, 12, 16, 18].map((version) => `/ckpt/version_${version}`);
    expect([...new Set(evaluated)].sort()).toEqual([...paths].sort());
    const record = await readMetrics(localFiles, join(folder, "ckpt"));
    expect(record?.best).toEqual({ metric: "mse", mode: "min" });
    expect(record?.versions.map(({ version }) => version)).toEqual([4, 8, 12, 16, 18]);
    expect(master.status()).toMatchObject({ phase: "finished", modelVersion: 18, reason: "version 18 was reached" });
    const best = rankVersions(record as MetricsRecord)[0]?.version;
    const { versions } = await listVersions(localFiles, join(folder, "ckpt"));
    const complete = versions.filter(({ problems }) => problems.length === 0).map(({ modelVersion }) => modelVersion);
    expect(complete).toContain(18);
    expect(complete).toContain(best);
  });

  it("stops when the metric gets no better", async () => {
    const options = { checkpointSteps: 2, evaluationSteps: 2, patience: 1, bestMetric: "mse:max", numEpochs: 50 };
    const { master } = await train(options);
    expect(master.status()).toMatchObject({ phase: "finished", reason: "mse gets no better" });
    expect(master.status().tasksDone).toBeLessThan(50);
  });

  it("goes on from a version in the middle of a task as if it had not stopped", async () => {
    const saved = { checkpointSteps: 5, numEpochs: 2, shuffle: true };
    await train({ ...saved, maxStep: 15 });
    await train(saved, join(folder, "ckpt", "version_15"));
    await train({ ...saved, checkpointDir: join(folder, "whole") });
    const read = async (root: string) => {
      const { parameters } = await LocalStore.open({
        optimizer: { type: "Adam", args: "" },
        checkpointDirForInit: join(folder, root, "version_20"),
      });
      const { dense, modelVersion, step } = parameters;
      return { modelVersion, step, dense: Array.from(dense, ([name, { bytes }]) => [name, [...bytes]]) };
    };
    expect(await read("ckpt")).toEqual(await read("whole"));
  });
});
