import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ParameterServer, type ParameterServerOptions } from "../../src/training/parameter-server.js";
import { PserverClient } from "../../src/training/pserver-client.js";
import { fixturePath, readExpected } from "../support/fixtures.js";
import { saveThreadUrl } from "../support/save-thread.js";
import { gradients, type ModelState, model, numbers, stateOf } from "../support/training.js";

let folder: string;
const closers: (() => Promise<void>)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-ps-"));
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(psNum: number, options: Partial<ParameterServerOptions> = {}) {
  const checkpoint = {
    directory: join(folder, "checkpoints"),
    threadUrl: await saveThreadUrl(),
    restMs: 0,
    ...options.checkpoint,
  };
  const servers: ParameterServer[] = [];
  for (let psId = 0; psId < psNum; psId++) {
    const common = { psId, psNum, port: 0, optimizerType: "Adam", optimizerArgs: "learning_rate=0.01", seed: 3 };
    servers.push(await ParameterServer.start({ ...common, ...options, checkpoint }));
  }
  const client = new PserverClient(servers.map(({ port }) => `127.0.0.1:${port}`));
  closers.push(...servers.map((server) => () => server.close()), () => client.close());
  return { servers, client };
}

const first = () => model({ dense: { w: [5, 3], b: [3], c: [1] }, tables: { e: 4, f: 2 } });

/** One step of a worker that goes through its data in order: pull, then push. */
async function step(client: PserverClient, number: number): Promise<void> {
  const ids = Array.from({ length: 20 }, (_, i) => BigInt((i * number * 7) % 53) - 20n);
  await client.pullEmbeddingVectors("e", ids);
  const { modelVersions } = await client.pullDenseParameters();
  const { gradients: push } = gradients(
    { dense: { w: [5, 3], b: [3], c: [1] }, rows: { e: [ids, 4], f: [ids.slice(0, 3), 2] } },
    number,
  );
  const learningRate = number % 4 === 0 ? 0.02 / number : 0;
  await client.pushGradients({ dense: push.denseParameters, rows: push.embeddingTables, modelVersions, learningRate });
}

/** The whole model, however many servers it is on. */
function whole(servers: readonly ParameterServer[]): ModelState {
  const states = servers.map(({ parameters }) => stateOf(parameters));
  const [state] = states as [ModelState];
  for (const other of states.slice(1)) {
    Object.assign(state.dense, other.dense);
    for (const [name, rows] of Object.entries(other.tables)) Object.assign(state.tables[name] ?? {}, rows);
  }
  return state;
}

async function trained(psNum: number, steps: number, options: Partial<ParameterServerOptions> = {}) {
  const cluster = await start(psNum, options);
  await cluster.client.pushModel(first());
  for (let number = 1; number <= steps; number++) await step(cluster.client, number);
  return cluster;
}

describe("ParameterServer", () => {
  it.each([
    ["SGD", "learning_rate=0.1;momentum=0.9;nesterov=true;"],
    ["Adam", "learning_rate=0.01;amsgrad=true"],
    ["Adagrad", "learning_rate=0.1"],
  ])(
    "with %s goes on from a checkpoint as if it had not stopped, to the last bit",
    async (optimizerType, optimizerArgs) => {
      const options = { optimizerType, optimizerArgs };
      const straight = await trained(1, 12, options);
      const stopped = await trained(1, 6, { ...options, seed: 3 });
      await stopped.servers[0]?.close({ saveLast: true });
      // The seed comes from the checkpoint: rows that are made later are the same.
      const resumed = await start(1, { ...options, seed: undefined, checkpointDirForInit: "latest" });
      await resumed.client.pushModel(model({ dense: { w: [9] } }));
      for (let number = 7; number <= 12; number++) await step(resumed.client, number);
      expect(whole(resumed.servers)).toEqual(whole(straight.servers));
      expect(whole(resumed.servers).modelVersion).toBe(12);
    },
  );

  it("restores what any number of servers saved to any other number", async () => {
    const { servers } = await trained(3, 5, {
      checkpoint: { directory: join(folder, "checkpoints"), checkpointSteps: 5 },
    });
    const expected = whole(servers);
    for (const server of servers) await server.saver?.idle();
    for (const psNum of [1, 2, 4]) {
      const restored = await start(psNum, { checkpointDirForInit: join(folder, "checkpoints") });
      expect(whole(restored.servers)).toEqual(expected);
      const answer = await restored.client.pullDenseParameters();
      expect([answer.isInitialized, answer.modelVersions]).toEqual([true, new Array(psNum).fill(5)]);
    }
  });

  it("begins anew with `latest` where nothing was saved, and refuses other things that are not there", async () => {
    const { servers } = await start(1, { checkpointDirForInit: "latest" });
    expect(servers[0]?.parameters.isInitialized).toBe(false);
    await expect(start(1, { checkpointDirForInit: join(folder, "nowhere") })).rejects.toMatchObject({
      code: "not-found",
    });
    await expect(
      start(1, { checkpointDirForInit: fixturePath("elasticdl/versions/version-30") }),
    ).rejects.toMatchObject({
      code: "missing-shard",
    });
    await expect(ParameterServer.start({ psId: 2, psNum: 2, port: 0, optimizerType: "SGD" })).rejects.toMatchObject({
      code: "usage",
    });
  });

  it("goes on from what ElasticDL saved", async () => {
    const { model_a } = readExpected<{
      model_a: {
        whole: {
          dense: Record<string, { sha256: string }>;
          tables: Record<string, { ids: string[]; rows_sha256: string }>;
        };
      };
    }>("elasticdl/expected.json");
    const { servers, client } = await start(2, {
      checkpointDirForInit: fixturePath("elasticdl/model_a/ps3/version-300"),
    });
    const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
    const { dense, modelVersions } = await client.pullDenseParameters();
    expect(modelVersions).toEqual([300, 300]);
    const digests = Object.fromEntries(Array.from(dense, ([name, { content }]) => [name, sha256(content)]));
    expect(digests).toEqual(
      Object.fromEntries(Object.entries(model_a.whole.dense).map(([name, one]) => [name, one.sha256])),
    );
    for (const [name, { ids, rows_sha256 }] of Object.entries(model_a.whole.tables)) {
      const { values } = await client.pullEmbeddingVectors(name, ids.map(BigInt));
      expect(sha256(new Uint8Array(values.buffer))).toBe(rows_sha256);
    }
    expect(servers.every(({ parameters }) => parameters.step === 0)).toBe(true);
  });

  it("keeps the newest complete versions, whichever server is slow", async () => {
    const directory = join(folder, "checkpoints");
    const { servers, client } = await start(2, { checkpoint: { directory, keepCheckpointMax: 2 } });
    await client.pushModel(first());
    const versions: string[][] = [];
    const [fast, slow] = servers as [ParameterServer, ParameterServer];
    for (let number = 1; number <= 5; number++) {
      await step(client, number);
      await fast.saver?.save();
      if (number !== 3) await slow.saver?.save();
      versions.push(readdirSync(directory).filter((name) => readdirSync(join(directory, name)).length === 2));
    }
    expect(versions).toEqual([
      ["version_1"],
      ["version_1", "version_2"],
      // Version 3 is not complete, and does not count.
      ["version_1", "version_2"],
      ["version_2", "version_4"],
      ["version_4", "version_5"],
    ]);
    // Each server takes its own shard of an old version; the last of them is gone with the next save.
    await fast.saver?.save();
    expect(readdirSync(directory).sort()).toEqual(["version_4", "version_5"]);
  });

  it("saves its last state when it is told to, once", async () => {
    const { servers } = await trained(1, 4, {
      checkpoint: { directory: join(folder, "checkpoints"), checkpointSteps: 4 },
    });
    await servers[0]?.close({ saveLast: true });
    expect(readdirSync(join(folder, "checkpoints"))).toEqual(["version_4"]);
    const other = await trained(1, 3, { checkpoint: { directory: join(folder, "other") } });
    await other.servers[0]?.close({ saveLast: true });
    expect(readdirSync(join(folder, "other"))).toEqual(["version_3"]);
  });

  it("says so when another optimizer goes on, whose state begins anew", async () => {
    const { servers } = await trained(1, 2);
    await servers[0]?.close({ saveLast: true });
    const other = await start(1, { optimizerType: "Adagrad", optimizerArgs: "", checkpointDirForInit: "latest" });
    expect(other.servers[0]?.notes).toEqual([
      expect.stringMatching(/saved with Adam: the state of Adagrad begins anew/),
    ]);
    const { parameters } = other.servers[0] as ParameterServer;
    expect([parameters.step, parameters.learningRate]).toEqual([0, 0.001]);
    expect(numbers(new Uint8Array(parameters.dense.get("c")?.memory.arrays[1] as SharedArrayBuffer))).toEqual([
      Math.fround(0.1),
    ]);
  });
});
