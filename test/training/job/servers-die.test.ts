import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { localFiles } from "../../../src/platform/node/index.js";
import { type JobOptions, masterOptions } from "../../../src/training/job/job-options.js";
import { LocalStore } from "../../../src/training/job/local-store.js";
import { MasterClient } from "../../../src/training/job/master-client.js";
import { MasterServer } from "../../../src/training/job/master-server.js";
import { RemoteStore } from "../../../src/training/job/remote-store.js";
import { findAfterFault, type StartVersion } from "../../../src/training/job/start-version.js";
import { runWorker } from "../../../src/training/job/worker.js";
import { checkDefinition, optimizerOf } from "../../../src/training/model/model-definition.js";
import { ParameterServer } from "../../../src/training/parameter-server.js";
import { TOY } from "./toy-model.js";

const definition = checkDefinition(TOY);
const { type: optimizerType, args: optimizerArgs } = optimizerOf(definition);
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-servers-die-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const JOB: JobOptions = {
  strategy: "parameter-server",
  numWorkers: 1,
  numEpochs: 2,
  minibatchSize: 4,
  numMinibatchesPerTask: 3,
  maxStep: 0,
  shuffle: true,
  seed: 1,
  useAsync: false,
  gradsToWait: 1,
  checkpointSteps: 3,
  keepCheckpointMax: 2,
  evaluationSteps: 6,
  patience: 0,
  layout: "design",
  workerTimeout: 60,
};

/** Trains with servers, worker and master in this process; before some pushes, counted from 1, servers are taken away. */
async function train(name: string, psNum: number, dieAt: readonly number[]) {
  const checkpointDir = join(folder, name);
  const job = { ...JOB, checkpointDir };
  const master = await MasterServer.start(await masterOptions(definition, job), { port: 0 });
  let servers: ParameterServer[] = [];
  let generation = 0;
  const start = async (from: StartVersion | undefined) => {
    const checkpoint = { directory: checkpointDir, checkpointSteps: 3, keepCheckpointMax: 2, restMs: 0 };
    const shared = { port: 0, psNum, optimizerType, optimizerArgs, seed: 1, checkpoint };
    const checkpointDirForInit = from?.path;
    servers = await Promise.all(
      Array.from({ length: psNum }, (_, psId) => ParameterServer.start({ ...shared, psId, checkpointDirForInit })),
    );
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
    const modelVersion = from?.modelVersion ?? 0;
    const isRestored = from !== undefined;
    await master.master.setServers({ addresses, generation: ++generation, modelVersion, isRestored, startPath: "" });
  };
  await start(undefined);
  const link = new MasterClient(`127.0.0.1:${master.port}`);
  let pushes = 0;
  const rollBacks: (number | undefined)[] = [];
  const worker = runWorker({
    master: link,
    definition,
    workerId: 0,
    openStore: async ({ addresses }) => {
      const store = new RemoteStore(addresses);
      const push = store.push.bind(store);
      store.push = async (...given) => {
        if (dieAt.includes(++pushes)) {
          const [first, ...others] = servers;
          await first?.close();
          // What the others were told meanwhile goes with them.
          await push(...given).catch(() => {});
          for (const server of others) await server.close();
          const from = await findAfterFault(localFiles, checkpointDir);
          rollBacks.push(from?.modelVersion);
          await start(from);
        }
        return push(...given);
      };
      return store;
    },
  });
  while (master.master.status().phase !== "trained") await new Promise((resolve) => setTimeout(resolve, 20));
  for (const server of servers) await server.close({ saveLast: true });
  const { modelVersion } = master.master.status();
  await master.master.setTrained(modelVersion);
  await worker;
  await link.close();
  await master.close();
  return { modelVersion, rollBacks, path: join(checkpointDir, `version_${modelVersion}`) };
}

/** All of a version, in an order of its own. */
async function read(path: string) {
  const { parameters } = await LocalStore.open({ optimizer: { type: "Adam", args: "" }, checkpointDirForInit: path });
  const rows = [...parameters.tables.values()].flatMap((table) => {
    return Array.from({ length: 12 }, (_, id) => {
      const row = new Int32Array(1);
      table.ensureRows(BigInt64Array.of(BigInt(id)), row);
      const [at] = row as unknown as [number];
      const start = table.offsetOf(at);
      return table.arraysOf(at).map((array) => [...array.subarray(start, start + table.dim)]);
    });
  });
  const dense = Array.from(
    parameters.dense,
    ([name, { arrays }]) => [name, arrays.map((array) => [...array])] as const,
  );
  return { step: parameters.step, dense: dense.sort(([a], [b]) => (a < b ? -1 : 1)), rows };
}

it("gives bit for bit the model that it gives when no server dies, on any number of servers", async () => {
  const undisturbed = await train("undisturbed", 1, []);
  const disturbed = await train("disturbed", 2, [2, 9, 17]);
  expect(undisturbed).toMatchObject({ modelVersion: 20, rollBacks: [] });
  expect(disturbed).toMatchObject({ modelVersion: 20 });
  expect(disturbed.rollBacks[0]).toBeUndefined();
  expect(disturbed.rollBacks).toHaveLength(3);
  expect(await read(disturbed.path)).toEqual(await read(undisturbed.path));
});
