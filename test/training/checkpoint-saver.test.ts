import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { restoreShares } from "../../src/formats/elasticdl/restore.js";
import { VersionContents } from "../../src/formats/elasticdl/version-contents.js";
import { localFiles } from "../../src/platform/node/index.js";
import { CheckpointSaver, type CheckpointSaverOptions, type SavedShard } from "../../src/training/checkpoint-saver.js";
import { parseOptimizer } from "../../src/training/optimizers.js";
import { Parameters } from "../../src/training/parameters.js";
import { PserverService } from "../../src/training/pserver-service.js";
import { Snapshots } from "../../src/training/snapshot.js";
import { saveThreadUrl } from "../support/save-thread.js";
import { gradients, type ModelState, model, numbers, stateOf } from "../support/training.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-saver-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Server {
  parameters: Parameters;
  service: PserverService;
  saver: CheckpointSaver;
}

async function serve(options: Partial<CheckpointSaverOptions> = {}, optimizer = "Adam"): Promise<Server> {
  const snapshots = new Snapshots();
  const parameters = new Parameters({ optimizer: parseOptimizer(optimizer), guard: snapshots, seed: 7 });
  const saver = new CheckpointSaver({
    parameters,
    snapshots,
    directory: join(folder, "checkpoints"),
    psId: 0,
    psNum: 1,
    threadUrl: await saveThreadUrl(),
    restMs: 0,
    ...options,
  });
  const service = new PserverService(parameters, { useAsync: true });
  service.pushModel(model({ dense: { w: [40_000], b: [3] }, tables: { e: 5, other: 1 } }));
  return { parameters, service, saver };
}

async function readBack(path: string): Promise<ModelState> {
  const contents = await VersionContents.open(localFiles, [path]);
  const [share] = await restoreShares(contents, { psNum: 1 });
  await contents.verify();
  await contents.close();
  if (share === undefined) throw new Error("no share");
  const table = ([name, { ids, data, dim, slots }]: [
    string,
    (typeof share)["tables"] extends ReadonlyMap<string, infer T> ? T : never,
  ]) => [
    name,
    Object.fromEntries(
      Array.from(ids, (id, row) => [
        String(id),
        [data, ...Array.from(slots.values(), (slot) => slot.data)].map((bytes) =>
          numbers(bytes.slice(row * dim * 4, (row + 1) * dim * 4)),
        ),
      ]),
    ),
  ];
  return {
    modelVersion: share.modelVersion,
    step: Number(share.state.integers.get("optimizer.step")),
    learningRate: share.state.numbers.get("optimizer.learning_rate") as number,
    dense: Object.fromEntries(
      Array.from(share.dense, ([name, { data, slots }]) => [
        name,
        [data, ...Array.from(slots.values(), (slot) => slot.data)].map(numbers),
      ]),
    ),
    tables: Object.fromEntries(Array.from(share.tables, table)),
  };
}

describe("a saved shard", () => {
  it("is the state at the instant of the save, whatever is pushed while it is written", async () => {
    const { parameters, service, saver } = await serve({ restMs: 1 });
    const push = (step: number) => {
      const ids = Array.from({ length: 300 }, (_, i) => BigInt((i * 37 * (step + 1)) % 9000) - 4000n);
      service.pushGradients(gradients({ dense: { w: [40_000], b: [3] }, rows: { e: [ids, 5] } }, step));
    };
    for (let step = 0; step < 20; step++) push(step);
    const expected = new Map<number, ModelState>();
    const saves: Promise<SavedShard | undefined>[] = [];
    for (let round = 0; round < 4; round++) {
      // The second save waits for the first, with its own state.
      for (let k = 0; k < 2; k++) {
        expected.set(parameters.modelVersion, stateOf(parameters));
        saves.push(saver.save());
        push(100 + 10 * round + k);
      }
      let isBusy = true;
      saver.idle().then(() => {
        isBusy = false;
      });
      for (let step = 0; isBusy; step++) {
        push(1000 * round + step);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const shards = await Promise.all(saves);
    await saver.close();
    expect(shards.filter((shard) => shard === undefined)).toEqual([]);
    for (const shard of shards as SavedShard[]) {
      expect(await readBack(shard.path)).toEqual(expected.get(shard.modelVersion));
    }
    expect(new Set(shards.map((shard) => shard?.modelVersion)).size).toBe(8);
  });

  it("leaves out a save that waits when a newer one comes, and tells so", async () => {
    const left: number[] = [];
    const { service, saver } = await serve({ onProblem: (version) => left.push(version) });
    const saves = [saver.save()];
    for (let step = 0; step < 3; step++) {
      service.pushGradients(gradients({ dense: { b: [3] } }, step));
      saves.push(saver.save());
    }
    const versions = (await Promise.all(saves)).map((shard) => shard?.modelVersion);
    await saver.close();
    expect(versions).toEqual([0, undefined, undefined, 3]);
    expect(left).toEqual([1, 2]);
  });

  it("stands in a version directory of its layout, and nothing else is left beside it", async () => {
    const { saver } = await serve({ layout: "elasticdl", psId: 2, psNum: 3 });
    const shard = await saver.save();
    await saver.close();
    expect(shard?.path).toBe(join(folder, "checkpoints/version-0/variables-2-of-3.ckpt"));
    expect(readdirSync(folder)).toEqual(["checkpoints"]);
  });

  it("is written at the versions that the steps say", async () => {
    const { service, saver, parameters } = await serve({ checkpointSteps: 3 });
    for (let step = 0; step < 10; step++) {
      service.pushGradients(gradients({ dense: { b: [3] } }, step));
      saver.saveIfDue(parameters.modelVersion);
      await saver.idle();
    }
    await saver.close();
    expect(readdirSync(join(folder, "checkpoints")).sort()).toEqual(["version_3", "version_6", "version_9"]);
  });

  it("that cannot be written is a problem told, and training goes on", async () => {
    const problems: string[] = [];
    writeFileSync(join(folder, "file"), "");
    const { saver, service } = await serve({
      directory: join(folder, "file/checkpoints"),
      onProblem: (_version, { message }) => problems.push(message),
    });
    expect(await saver.save()).toBeUndefined();
    expect(service.pushGradients(gradients({ dense: { b: [3] } }, 1))).toEqual({ accepted: true, modelVersion: 1 });
    await saver.close();
    expect(problems).toEqual([expect.stringMatching(/cannot write/)]);
  });
});
