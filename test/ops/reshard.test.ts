import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { isCairnError } from "../../src/errors.js";
import type { StoredObject } from "../../src/formats/checkpoint/stored-object.js";
import { planReshard, type ReshardOptions } from "../../src/ops/reshard.js";
import { listTensors, openTensors } from "../../src/ops/tensors.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import {
  addSlice,
  MaxShardSizePolicy,
  type ShardableTensor,
  ShardByDevicePolicy,
  ShardByTaskPolicy,
  ShardingCallback,
  type TensorSliceDict,
} from "../../src/sharding/index.js";

const FIXTURES = fileURLToPath(new URL("../fixtures/checkpoints", import.meta.url));
const disk = new LocalFiles();
const PREFIXES = Object.keys(JSON.parse(readFileSync(join(FIXTURES, "expected.json"), "utf8")) as object);

async function reshard(prefix: string, callback: ShardingCallback, options?: ReshardOptions): Promise<MemoryStore> {
  const files = new MemoryStore();
  const source = { files: disk, path: join(FIXTURES, prefix) };
  const resharding = await planReshard(source, { files, path: `out/${basename(prefix)}` }, callback, options);
  try {
    await resharding.write();
  } finally {
    await resharding.close();
  }
  return files;
}

/** The files of a checkpoint by what stands behind the prefix. */
async function bytesOf(files: MemoryStore | LocalFiles, prefix: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const { path } of await files.list(dirname(prefix))) {
    const name = basename(path);
    const end = name.slice(basename(prefix).length);
    if (!name.startsWith(basename(prefix)) || !/^\.(index|data-\d+-of-\d+)$/.test(end)) continue;
    const source = await files.open(path);
    found[end] = Buffer.from(await source.read(0, source.size)).toString("latin1");
    await source.close();
  }
  return found;
}

async function hashes(files: MemoryStore | LocalFiles, path: string): Promise<unknown> {
  const { tensors } = await openTensors(files, path);
  const listed: unknown[] = [];
  for await (const { key, dtype, shape, sha256 } of listTensors(tensors, { sha256: true })) {
    listed.push({ key, dtype, shape, sha256 });
  }
  await tensors.close();
  return listed;
}

/** Small shards from the last to the first, so that no tensor is read in order. */
class BackwardPolicy extends ShardingCallback {
  readonly description = "Backward.";
  call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
    return new MaxShardSizePolicy({ maxShardSize: 24 }).call(tensors).reverse();
  }
}

/** What cairn writes anew otherwise: other gaps, byte order or compression. */
const OTHER_BYTES = /^crafted\//;

describe("resharding", () => {
  const stock = PREFIXES.filter((prefix) => !OTHER_BYTES.test(prefix));

  it.each(stock)("keeps shards byte for byte by device: %s", async (prefix) => {
    const files = await reshard(prefix, new ShardByDevicePolicy());
    expect(await bytesOf(files, `out/${basename(prefix)}`)).toEqual(await bytesOf(disk, join(FIXTURES, prefix)));
  });

  it.each([24, 40, 56, 100])(
    "cuts as TensorFlow does, byte for byte, into shards of %d bytes",
    async (maxShardSize) => {
      const files = await reshard(
        "max_shard_size/max1000",
        new MaxShardSizePolicy({ maxShardSize, tensorflowIdentical: true }),
      );
      const expected = await bytesOf(disk, join(FIXTURES, `max_shard_size/max${maxShardSize}`));
      expect(await bytesOf(files, "out/max1000")).toEqual(expected);
    },
  );

  it.each(PREFIXES.filter((prefix) => prefix !== "many/many"))(
    "loses nothing by task, by size and back: %s",
    async (prefix) => {
      const before = await hashes(disk, join(FIXTURES, prefix));
      const name = basename(prefix);
      const one = await reshard(prefix, new ShardByTaskPolicy());
      expect(Object.keys(await bytesOf(one, `out/${name}`))).toEqual([".data-00000-of-00001", ".index"]);
      expect(await hashes(one, `out/${name}`)).toEqual(before);
      const small = await reshard(prefix, new MaxShardSizePolicy({ maxShardSize: 64 }));
      expect(await hashes(small, `out/${name}`)).toEqual(before);
    },
  );

  it("keeps slices by task, and joins them by size", async () => {
    const slices = async (files: MemoryStore) => {
      const { tensors } = await openTensors(files, "out/max24");
      let count = 0;
      for await (const entry of tensors.entries!()) count += entry.slices.length;
      await tensors.close();
      return count;
    };
    expect(await slices(await reshard("max_shard_size/max24", new ShardByTaskPolicy()))).toBeGreaterThan(0);
    expect(await slices(await reshard("max_shard_size/max24", new ShardByTaskPolicy(), { slices: "join" }))).toBe(0);
    expect(await slices(await reshard("max_shard_size/max24", new MaxShardSizePolicy({ maxShardSize: 1e6 })))).toBe(0);
  });

  it("tells a callback the shard and the object of each tensor, the object graph last", async () => {
    const seen: ShardableTensor[] = [];
    class Watch extends ShardingCallback {
      readonly description = "Watches.";
      call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
        seen.push(...tensors);
        const shard: TensorSliceDict = new Map();
        for (const { checkpointKey, sliceSpec, tensor } of tensors) addSlice(shard, checkpointKey, sliceSpec, tensor);
        return [shard];
      }
    }
    await reshard("default_two_devices/by_device", new Watch());
    expect(seen.map(({ device }) => device.at(-1))).toEqual([..."0001110"]);
    expect(seen.at(-1)).toMatchObject({ checkpointKey: "_CHECKPOINTABLE_OBJECT_GRAPH", trackable: undefined });
    for (const { checkpointKey, trackable } of seen.slice(0, -1)) {
      const { path, attributes } = trackable as StoredObject;
      expect(checkpointKey).toBe(`${path.join("/")}/.ATTRIBUTES/VARIABLE_VALUE`);
      expect(attributes[0]?.checkpointKey).toBe(checkpointKey);
    }
  });

  it("refuses its own source, an output that is there, and what has no shards", async () => {
    const place = { files: disk, path: join(FIXTURES, "names/ckpt-1") };
    const codeOf = (work: Promise<unknown>) =>
      work.then(
        () => undefined,
        (error: unknown) => isCairnError(error) && error.code,
      );
    expect(await codeOf(planReshard(place, place, new ShardByTaskPolicy()))).toBe("usage");
    const plan = await planReshard(
      place,
      { files: disk, path: join(FIXTURES, "keras_model/ckpt-1") },
      new ShardByTaskPolicy(),
    );
    expect(await codeOf(plan.write())).toBe("exists");
    await plan.close();
    const model = { files: disk, path: fileURLToPath(new URL("../fixtures/cpb/models/tiny", import.meta.url)) };
    expect(await codeOf(planReshard(model, { files: disk, path: "x" }, new ShardByTaskPolicy()))).toBe(
      "unsupported-operation",
    );
  });

  it.each([
    ["max24", "data-00007", new ShardByTaskPolicy()],
    ["max24", "data-00007", new MaxShardSizePolicy({ maxShardSize: 40 })],
    ["max1000", "data-00000", new MaxShardSizePolicy({ maxShardSize: 24 })],
    ["max1000", "data-00000", new BackwardPolicy()],
  ] as const)("writes nothing when a tensor of the source is damaged: %s", async (name, shard, callback) => {
    const folder = join(FIXTURES, "max_shard_size");
    const found = readdirSync(folder).filter((file) => file.startsWith(`${name}.`));
    const entries = found.map((file) => [`in/${file}`, new Uint8Array(readFileSync(join(folder, file)))] as const);
    const [, bytes] = entries.find(([file]) => file.includes(shard))!;
    bytes[bytes.length >> 2]! ^= 1;
    const files = new MemoryStore(entries);
    const plan = await planReshard({ files, path: `in/${name}` }, { files, path: "out/ckpt" }, callback);
    const error = await plan.write().catch((one: unknown) => one);
    await plan.close();
    expect(isCairnError(error, "tensor-checksum")).toBe(true);
    expect(await files.stat("out")).toBeUndefined();
  });
});
