import { beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { isCairnError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import {
  addSlice,
  MaxShardSizePolicy,
  type ShardableTensor,
  ShardByDevicePolicy,
  ShardingCallback,
  type TensorSliceDict,
} from "../../src/sharding/index.js";
import { Checkpoint } from "../../src/tracking/checkpoint.js";
import { placeOn } from "../../src/tracking/devices.js";
import { TrackedNumber } from "../../src/tracking/scalars.js";
import { Net, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

const names = async (files: MemoryStore) => (await files.list("dir")).map(({ path }) => path.slice("dir/".length));

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

async function text(files: MemoryStore, path: string): Promise<string> {
  const source = await files.open(path);
  return new TextDecoder().decode(await source.read(0, source.size));
}

async function patch(files: MemoryStore, path: string, change: (bytes: Uint8Array) => Uint8Array): Promise<void> {
  const source = await files.open(path);
  const bytes = change((await source.read(0, source.size)).slice());
  const sink = await files.create(path, { overwrite: true });
  await sink.write(bytes);
  await sink.close();
}

/** The design's own scenario: what belongs to each model gets a shard of its own. */
class ModelSeparationPolicy extends ShardingCallback {
  readonly description = "Separates tensors into shards based on the model they belong to.";
  private readonly models: readonly Net[];

  constructor(models: readonly Net[]) {
    super();
    this.models = models;
  }

  call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
    const shards: TensorSliceDict[] = [...this.models, undefined].map(() => new Map());
    for (const { checkpointKey, sliceSpec, tensor, trackable } of tensors) {
      const model = this.models.findIndex((one) => one.variables.includes(trackable as tf.Variable));
      addSlice(shards.at(model) as TensorSliceDict, checkpointKey, sliceSpec, tensor);
    }
    return shards.filter((shard) => shard.size > 0);
  }
}

describe("a checkpoint of a program", () => {
  it("is saved under numbers, named in the state file, and restored with its counter", async () => {
    const files = new MemoryStore();
    const net = new Net(1);
    const checkpoint = new Checkpoint({ net }, { files });
    expect(await checkpoint.save("dir/ckpt")).toBe("dir/ckpt-1");
    net.b.assign(tf.ones([4]));
    expect(await checkpoint.save("dir/ckpt")).toBe("dir/ckpt-2");
    expect(await names(files)).toEqual([
      "checkpoint",
      ...["ckpt-1", "ckpt-2"].flatMap((name) => [`${name}.cairn.json`, `${name}.data-00000-of-00001`, `${name}.index`]),
    ]);
    expect(await text(files, "dir/checkpoint")).toBe(
      'model_checkpoint_path: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-2"\n',
    );
    const other = new Net(5);
    const restored = new Checkpoint({ net: other }, { files });
    (await restored.restore("dir/ckpt-2")).assertConsumed();
    expect(other.values()).toEqual(net.values());
    expect(restored.saveCounter).toBe(2);
    expect(await restored.save("dir/ckpt")).toBe("dir/ckpt-3");
  });

  it("is written as it is by write, without a counter", async () => {
    const files = new MemoryStore();
    await new Checkpoint({ net: new Net(1) }, { files }).write("dir/state");
    expect(await names(files)).toEqual(["state.cairn.json", "state.data-00000-of-00001", "state.index"]);
    const status = await new Checkpoint({ net: new Net(2) }, { files }).restore("dir/state");
    status.assertConsumed();
  });

  it("replaces another only when told, and keeps its counter when a save fails", async () => {
    const files = new MemoryStore();
    await new Checkpoint({ net: new Net(1) }, { files }).save("dir/ckpt");
    const [net, fresh] = [new Net(2), new Net(3)];
    const checkpoint = new Checkpoint({ net }, { files });
    expect(isCairnError(await errorOf(checkpoint.save("dir/ckpt")), "exists")).toBe(true);
    expect(checkpoint.saveCounter).toBe(0);
    await checkpoint.save("dir/ckpt", { overwrite: true });
    (await new Checkpoint({ net: fresh }, { files }).restore("dir/ckpt-1")).assertConsumed();
    expect(fresh.values()).toEqual(net.values());
  });

  it("has the values of the moment of the call, whatever comes after", async () => {
    const files = new MemoryStore();
    const net = new Net(1);
    const before = net.values();
    const saving = new Checkpoint({ net }, { files }).write("dir/ckpt");
    net.train(tf.train.sgd(1), 1);
    await saving;
    const other = new Net(2);
    await new Checkpoint({ net: other }, { files }).restore("dir/ckpt");
    expect(other.values()).toEqual(before);
  });

  it("gives objects that come later their values until it forgets", async () => {
    const files = new MemoryStore();
    const net = new Net(1);
    await new Checkpoint({ net, rest: { step: new TrackedNumber(7) } }, { files }).write("dir/ckpt");
    const state: Record<string, object> = { net: new Net(2) };
    const checkpoint = new Checkpoint(state as never, { files });
    const status = await checkpoint.restore("dir/ckpt");
    expect(() => status.assertConsumed()).toThrow(/rest\/step/);
    const step = new TrackedNumber(0);
    state.rest = { step };
    await checkpoint.sync();
    expect(step.value).toBe(7);
    status.assertConsumed();
    await checkpoint.forget();
    await checkpoint.sync();
  });

  it("keeps names that look like hex", async () => {
    const files = new MemoryStore();
    await new Checkpoint({ "hex:zz": 4 }, { files }).write("dir/ckpt");
    const state = { "hex:zz": 0 };
    (await new Checkpoint(state, { files }).restore("dir/ckpt")).assertConsumed();
    expect(state["hex:zz"]).toBe(4);
  });

  it("is not there for a typed error", async () => {
    const files = new MemoryStore();
    expect(isCairnError(await errorOf(new Checkpoint({ a: 1 }, { files }).restore("dir/ckpt")), "not-found")).toBe(
      true,
    );
  });
});

describe("sharding of a checkpoint of a program", () => {
  const restoreAll = async (files: MemoryStore, prefix: string, nets: Record<string, Net>) => {
    const others = Object.fromEntries(Object.keys(nets).map((name, i) => [name, new Net(50 + i)]));
    (await new Checkpoint(others, { files }).restore(prefix)).assertConsumed();
    for (const [name, net] of Object.entries(nets)) expect(others[name]!.values()).toEqual(net.values());
  };

  it.each([
    ["by size", (): ShardingCallback => new MaxShardSizePolicy({ maxShardSize: 16 })],
    ["by device", (): ShardingCallback => new ShardByDevicePolicy()],
  ])("comes back whole %s", async (_, policy) => {
    const files = new MemoryStore();
    const nets = { one: new Net(1), two: new Net(2) };
    placeOn(nets.two.w, "/device:GPU:1");
    const checkpoint = new Checkpoint(nets, { files });
    await checkpoint.write("dir/ckpt", { shardingCallback: policy() });
    expect(checkpoint.metrics).toMatchObject({ callbackDescription: policy().description });
    expect(checkpoint.metrics!.shardsWritten).toBeGreaterThan(1);
    await restoreAll(files, "dir/ckpt", nets);
  });

  it("sees the objects of the program", async () => {
    const files = new MemoryStore();
    const nets = { one: new Net(1), two: new Net(2) };
    const policy = new ModelSeparationPolicy([nets.one, nets.two]);
    await new Checkpoint(nets, { files }).write("dir/ckpt", { shardingCallback: policy });
    const reader = await openCheckpoint("dir/ckpt", { files });
    expect((await reader.info("two/b/.ATTRIBUTES/VARIABLE_VALUE")).facts).toMatchObject({ shard: 1 });
    expect((await reader.info("_CHECKPOINTABLE_OBJECT_GRAPH")).facts).toMatchObject({ shard: 2 });
    await reader.close();
    await restoreAll(files, "dir/ckpt", nets);
  });

  it("is told by errors of a restore", async () => {
    const files = new MemoryStore();
    const nets = { one: new Net(1), two: new Net(2) };
    await new Checkpoint(nets, { files }).write("dir/ckpt", {
      shardingCallback: new MaxShardSizePolicy({ maxShardSize: 40 }),
    });
    await patch(files, "dir/ckpt.data-00000-of-00006", (bytes) => bytes.fill(9, 0, 1)).catch(() => {});
    const shard = (await names(files)).find((name) => name.includes("data-00000"))!;
    await patch(files, `dir/${shard}`, (bytes) => bytes.fill(bytes[0]! ^ 1, 0, 1));
    const others = { one: new Net(3), two: new Net(4) };
    const before = others.one.values();
    const error = await errorOf(new Checkpoint(others, { files }).restore("dir/ckpt"));
    expect(isCairnError(error, "tensor-checksum")).toBe(true);
    expect((error as Error).message).toContain("Split tensors into shards with a max shard size.");
    expect(others.one.values()).toEqual(before);
  });
});
