import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError, isCairnError } from "../../src/errors.js";
import { encodedIdsLength } from "../../src/formats/elasticdl/id-codec.js";
import type { ModelContents } from "../../src/formats/elasticdl/model-contents.js";
import type { RestoredShare } from "../../src/formats/elasticdl/restore.js";
import { ShardFile } from "../../src/formats/elasticdl/shard-file.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { ShardModelSchema } from "../../src/proto/gen/cairn/elasticdl_checkpoint_pb.js";
import { ModelSchema } from "../../src/proto/gen/elasticdl/elasticdl_pb.js";
import { ModelSchema as OlderModelSchema, TensorDtype } from "../../src/proto/gen/elasticdl/older_model_pb.js";
import { restoreFrom } from "../support/elasticdl.js";
import { readFixture } from "../support/fixtures.js";

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

function tensor(values: number[], shape: number[]) {
  return { dtype: "float32", shape, data: () => new MemorySource(floats(...values), "given") } as const;
}

function rowsOf(ids: bigint[], rows: number[], slots: Record<string, ReturnType<typeof tensor>> = {}) {
  return {
    rowCount: ids.length,
    data: () => new MemorySource(floats(...rows), "given"),
    slots: new Map(Object.entries(slots)),
    async *idBatches(limit: number) {
      for (let at = 0; at < ids.length; at += limit) yield BigInt64Array.from(ids.slice(at, at + limit));
    },
  };
}

/** A model with everything in it: slots, an empty table, a training state. */
const model: ModelContents = {
  modelVersion: 12,
  dense: [
    { name: "w", ...tensor([1, 2, 3, 4], [2, 2]), slots: new Map([["m", tensor([5, 6, 7, 8], [2, 2])]]) },
    { name: "b", ...tensor([9], []), slots: new Map() },
    { name: "none", ...tensor([], [0, 3]), slots: new Map() },
  ],
  tables: [
    {
      name: "emb",
      dim: 2,
      dtype: "float32",
      initializer: "uniform",
      parts: [
        rowsOf([3n, -7n, 2n ** 62n], [1, 2, 3, 4, 5, 6], {
          v: tensor([1, 2, 3, 4, 5, 6], [3, 2]),
          t: tensor([1, 2, 3], [3]),
        }),
        rowsOf([4n], [7, 8], { v: tensor([7, 8], [1, 2]), t: tensor([4], [1]) }),
      ],
      slots: [
        { name: "v", dtype: "float32", rowShape: [2] },
        { name: "t", dtype: "float32", rowShape: [] },
      ],
    },
    { name: "untouched", dim: 5, dtype: "float32", initializer: "zeros", parts: [], slots: [] },
  ],
  states: [
    { integers: new Map([["step", 12n]]), numbers: new Map([["lr", 0.1]]), texts: new Map([["data", '{"epoch":1}']]) },
  ],
};

async function written(psNum: number): Promise<{ files: MemoryStore; paths: string[] }> {
  const files = new MemoryStore();
  const { shards } = await writeVersion(files, "ckpt", model, { psNum });
  return { files, paths: shards.map(({ path }) => path) };
}

async function bytesOf(files: MemoryStore, path: string): Promise<Uint8Array> {
  const source = await files.open(path);
  return (await source.read(0, source.size)).slice();
}

/** All that a share holds, for comparison. */
function plain({ dense, tables, state, modelVersion }: RestoredShare) {
  return { dense, tables, state, modelVersion };
}

describe("shards that cairn writes", () => {
  it.each([1, 2, 3, 7])("over %d servers give all back, slots and state too", async (psNum) => {
    const { files, paths } = await written(psNum);
    const [whole] = await restoreFrom(files, paths, { psNum: 1 });
    expect([...whole!.dense.keys()].sort()).toEqual(["b", "none", "w"]);
    expect(whole!.dense.get("w")).toEqual({
      dtype: "float32",
      shape: [2, 2],
      data: floats(1, 2, 3, 4),
      slots: new Map([["m", { dtype: "float32", shape: [2, 2], data: floats(5, 6, 7, 8) }]]),
    });
    const table = whole!.tables.get("emb")!;
    const rowAt = (id: bigint) => {
      const row = table.ids.indexOf(id);
      const numbers = (data: Uint8Array, width: number) =>
        [...new Float32Array(data.slice().buffer)].slice(row * width, (row + 1) * width);
      return [numbers(table.data, 2), numbers(table.slots.get("v")!.data, 2), numbers(table.slots.get("t")!.data, 1)];
    };
    expect(rowAt(3n)).toEqual([[1, 2], [1, 2], [1]]);
    expect(rowAt(-7n)).toEqual([[3, 4], [3, 4], [2]]);
    expect(rowAt(2n ** 62n)).toEqual([[5, 6], [5, 6], [3]]);
    expect(rowAt(4n)).toEqual([[7, 8], [7, 8], [4]]);
    expect(whole!.tables.get("untouched")).toMatchObject({ dim: 5, shape: [0, 5], initializer: "zeros" });
    expect(whole!.state).toEqual(model.states[0]);
    expect(whole!.modelVersion).toBe(12);
  });

  it("stay the same when they are repartitioned there and back", async () => {
    const { files, paths } = await written(3);
    const before = await restoreFrom(files, paths, { psNum: 5 });
    const { VersionContents } = await import("../../src/formats/elasticdl/version-contents.js");
    const contents = await VersionContents.open(files, paths);
    const again = await writeVersion(files, "other", contents, { psNum: 5, verify: () => contents.verify() });
    const after = await restoreFrom(
      files,
      again.shards.map(({ path }) => path),
      { psNum: 5 },
    );
    expect(after.map(plain)).toEqual(before.map(plain));
  });

  it("read as the released Model, which skips what is cairn's", async () => {
    const { files, paths } = await written(1);
    const read = fromBinary(ModelSchema, await bytesOf(files, paths[0]!));
    expect(read.version).toBe(12);
    expect(Object.keys(read.denseParameters).sort()).toEqual(["b", "none", "w"]);
    expect(read.embeddingTables.emb!.ids).toEqual([3n, -7n, 2n ** 62n, 4n]);
    expect(read.embeddingTables.emb!.concatTensors!.tensorContent).toEqual(floats(1, 2, 3, 4, 5, 6, 7, 8));
    // The form of empty tables that both of ElasticDL's readers take.
    expect(read.embeddingTables.untouched!.concatTensors).toMatchObject({
      dtype: 1,
      tensorShape: { dim: [{ size: 0n }, { size: 5n }] },
    });
    expect(read.embeddingTableInfos.map(({ name, dim }) => [name, dim])).toEqual([
      ["emb", 2n],
      ["untouched", 5n],
    ]);
    // Nothing else is in the file: serialised again it has the same length.
    const all = fromBinary(ShardModelSchema, await bytesOf(files, paths[0]!));
    expect(all.$unknown).toBeUndefined();
    expect(toBinary(ShardModelSchema, all).length).toBe((await bytesOf(files, paths[0]!)).length);
  });

  it("keep the last of rows with one id, and say so nowhere else", async () => {
    const files = new MemoryStore();
    const table = { ...model.tables[0]!, slots: [], parts: [rowsOf([1n, 2n, 1n], [1, 1, 2, 2, 3, 3])] };
    const { shards } = await writeVersion(files, "x", { ...model, tables: [table] });
    const [whole] = await restoreFrom(files, [shards[0]!.path], { psNum: 1 });
    expect([...whole!.tables.get("emb")!.ids]).toEqual([2n, 1n]);
    expect(whole!.tables.get("emb")!.data).toEqual(floats(2, 2, 3, 3));
  });

  it("come back the same for any model, any servers, any source order", async () => {
    const ids = fc.uniqueArray(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(ids, fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 }), async (list, from, to) => {
        const parts = [
          rowsOf(
            list,
            list.flatMap((id) => [Number(id % 1000n), 1]),
          ),
        ];
        const table = { name: "t", dim: 2, dtype: "float32", initializer: "", parts, slots: [] } as const;
        const files = new MemoryStore();
        const { shards } = await writeVersion(
          files,
          "x",
          { modelVersion: 1, dense: [], tables: [table], states: [] },
          { psNum: from },
        );
        const shares = await restoreFrom(
          files,
          shards.map(({ path }) => path),
          { psNum: to },
        );
        const found = new Map<bigint, number>();
        for (const { tables } of shares) {
          const { ids: got, data } = tables.get("t")!;
          const numbers = new Float32Array(data.slice().buffer);
          for (const [i, id] of got.entries()) found.set(id, numbers[2 * i]!);
        }
        expect(found).toEqual(new Map(list.map((id) => [id, Math.fround(Number(id % 1000n))])));
      }),
      { numRuns: 60 },
    );
  });

  it("are refused at 2 GiB, with the number of servers that would do", async () => {
    const row = 2 ** 20;
    const big = { ...model.dense[0]!, slots: new Map(), shape: [600, row] };
    const failing = (dense: ModelContents["dense"]) =>
      writeVersion(new MemoryStore(), "x", { ...model, dense, tables: [] });
    await expect(failing([big])).rejects.toMatchObject({ code: "limit", hint: expect.stringMatching(/^No number/) });
    const many = Array.from({ length: 4 }, (_, i) => ({ ...big, name: `v${i}`, shape: [200, row] }));
    const error = await failing(many).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "limit", hint: expect.stringMatching(/^--num-ps \d+ makes/) });
    const enough = Number(/\d+/.exec((error as CairnError).hint!)![0]);
    const { stringToId } = await import("../../src/formats/elasticdl/partition.js");
    const loads = new Map<number, number>();
    for (const { name } of many) loads.set(stringToId(name, enough), (loads.get(stringToId(name, enough)) ?? 0) + 1);
    expect(Math.max(...loads.values())).toBeLessThanOrEqual(2);
  });
});

/** A source of a kind of its own, whose slices are of that kind too. */
class OwnSource implements ByteSource {
  readonly name = "own";
  readonly size: number;
  private readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.size = bytes.length;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    return this.bytes.slice(offset, offset + length);
  }

  async readPieces(offset: number, length: number): Promise<Uint8Array[]> {
    return [this.bytes.slice(offset, offset + Math.min(length, 1000))];
  }

  slice(offset: number, length: number): ByteSource {
    return new OwnSource(this.bytes.slice(offset, offset + length));
  }

  async close(): Promise<void> {}
}

it.each(["small", "large"])("shards are read from any kind of source, %s ones", async (size) => {
  const rows = size === "small" ? 5 : 3000;
  const ids = Array.from({ length: rows }, (_, i) => BigInt(i));
  const parts = [
    rowsOf(
      ids,
      ids.flatMap((id) => [Number(id), 1]),
    ),
  ];
  const table = { name: "t", dim: 2, dtype: "float32", initializer: "", parts, slots: [] } as const;
  const dense = [{ name: "d", ...tensor(ids.map(Number), [rows]), slots: new Map() }];
  const files = new MemoryStore();
  const { shards } = await writeVersion(files, "x", { modelVersion: 1, dense, tables: [table], states: [] });
  const bytes = await bytesOf(files, shards[0]!.path);
  files.open = async () => new OwnSource(bytes);
  const [whole] = await restoreFrom(files, [shards[0]!.path], { psNum: 1 });
  expect([...whole!.tables.get("t")!.ids]).toEqual(ids);
  expect(whole!.tables.get("t")!.data).toEqual(floats(...ids.flatMap((id) => [Number(id), 1])));
  expect(whole!.dense.get("d")!.data).toEqual(floats(...ids.map(Number)));
});

describe("damage of shards", () => {
  /** Opens a shard and reads all of it, as restoring does. */
  async function readAll(bytes: Uint8Array, name = "variables-0-of-1.chkpt") {
    const files = new MemoryStore([[name, bytes]]);
    return plain((await restoreFrom(files, [name], { psNum: 1 }))[0]!);
  }

  it("is told for each flipped bit of what cairn wrote, and no name is listed wrongly before", async () => {
    const { files, paths } = await written(1);
    const good = await bytesOf(files, paths[0]!);
    for (let at = 0; at < good.length; at++) {
      for (const bit of [(at * 5) % 8]) {
        const bad = good.slice();
        bad[at]! ^= 1 << bit;
        await expect(readAll(bad), `byte ${at}, bit ${bit}`).rejects.toBeInstanceOf(CairnError);
      }
    }
  });

  it("is told for each length that what cairn wrote is cut to, also at the borders of fields", async () => {
    const { files, paths } = await written(1);
    const good = await bytesOf(files, paths[0]!);
    for (let length = 0; length < good.length; length++) {
      await expect(readAll(good.slice(0, length)), `${length} bytes`).rejects.toBeInstanceOf(CairnError);
    }
    await expect(readAll(Uint8Array.from([...good, 0x08, 0x01]))).rejects.toBeInstanceOf(CairnError);
  });

  it("names the tensor, the file and the offset", async () => {
    const { files, paths } = await written(1);
    const bad = await bytesOf(files, paths[0]!);
    const at = Buffer.from(bad).indexOf(Buffer.from(floats(1, 2, 3, 4)));
    bad[at]! ^= 1;
    await expect(readAll(bad)).rejects.toMatchObject({
      code: "shard-checksum",
      message: expect.stringMatching(/^variables-0-of-1\.chkpt@0x[0-9a-f]+: checksum of "w": expected 0x/),
    });
  });

  it.each([
    "edge/negative_and_empty/version-7/variables-0-of-2.ckpt",
    "go/adam_ps1/version-2/variables-0-of-1.ckpt",
    "versions/version-20/variables-1-of-3.ckpt",
  ])("in %s, which has no checksums, gives an error or what the bytes say", async (path) => {
    const good = readFixture(`elasticdl/${path}`);
    let errors = 0;
    const attempt = async (bytes: Uint8Array) => {
      try {
        await readAll(bytes, "variables-0-of-1.ckpt");
      } catch (error) {
        expect(error).toBeInstanceOf(CairnError);
        errors++;
      }
    };
    for (let at = 0; at < good.length; at++) {
      const bad = good.slice();
      bad[at]! ^= 1 << (at % 8);
      await attempt(bad);
      await attempt(good.slice(0, at));
    }
    expect(errors).toBeGreaterThan(good.length / 2);
  });

  it("an empty file is no empty model", async () => {
    await expect(readAll(new Uint8Array(0))).rejects.toMatchObject({ code: "truncated" });
  });

  const released = (init: Parameters<typeof create<typeof ModelSchema>>[1]) =>
    toBinary(ModelSchema, create(ModelSchema, init));
  const rows = (count: number, dim: number) => ({
    dtype: 1,
    tensorShape: { dim: [{ size: BigInt(count) }, { size: BigInt(dim) }] },
    tensorContent: new Uint8Array(count * dim * 4),
  });
  it.each([
    ["more ids than rows", { embeddingTables: { e: { concatTensors: rows(1, 2), ids: [1n, 2n] } } }, "tensor-data"],
    ["more rows than ids", { embeddingTables: { e: { concatTensors: rows(2, 2), ids: [300n] } } }, "tensor-data"],
    [
      "rows of another width than the info says",
      {
        embeddingTableInfos: [{ name: "e", dim: 3n }],
        embeddingTables: { e: { concatTensors: rows(1, 2), ids: [1n] } },
      },
      "tensor-data",
    ],
    [
      "rows in three dimensions",
      {
        embeddingTables: {
          e: {
            concatTensors: {
              dtype: 1,
              tensorShape: { dim: [{ size: 1n }, { size: 1n }, { size: 1n }] },
              tensorContent: new Uint8Array(4),
            },
            ids: [1n],
          },
        },
      },
      "tensor-data",
    ],
    [
      "values in float_val",
      { denseParameters: { d: { dtype: 1, tensorShape: { dim: [{ size: 1n }] }, floatVal: [1] } } },
      "tensor-data",
    ],
    ["a negative size", { denseParameters: { d: { dtype: 1, tensorShape: { dim: [{ size: -1n }] } } } }, "tensor-data"],
    [
      "a huge size",
      { denseParameters: { d: { dtype: 1, tensorShape: { dim: [{ size: 2n ** 60n }, { size: 0n }] } } } },
      "tensor-data",
    ],
    ["strings", { denseParameters: { d: { dtype: 7 } } }, "unsupported-dtype"],
    ["no dtype", { denseParameters: { d: {} } }, "unsupported-dtype"],
    ["an unknown dtype", { denseParameters: { d: { dtype: 77 as 1 } } }, "unsupported-dtype"],
  ] as const)("%s is an error", async (_name, init, code) => {
    await expect(readAll(released(init as never), "variables-0-of-1.ckpt")).rejects.toSatisfy((error) =>
      isCairnError(error, code),
    );
  });

  it("a name of a thousand dimensions and one of a million letters are refused", async () => {
    const deep = {
      d: {
        dtype: 1,
        tensorShape: { dim: Array.from({ length: 1000 }, () => ({ size: 1n })) },
        tensorContent: new Uint8Array(4),
      },
    };
    await expect(readAll(released({ denseParameters: deep }), "variables-0-of-1.ckpt")).rejects.toMatchObject({
      code: "limit",
    });
    const long = { ["x".repeat(2 ** 20 + 1)]: { dtype: 1 as const, tensorContent: new Uint8Array(4) } };
    await expect(readAll(released({ denseParameters: long }), "variables-0-of-1.ckpt")).rejects.toMatchObject({
      code: "invalid-wire",
    });
  });
});

describe("forms of the Model", () => {
  const name = "variables-0-of-1.chkpt";
  const open = async (bytes: Uint8Array, path = name) => ShardFile.open(new MemoryStore([[path, bytes]]), path);
  const older = toBinary(
    OlderModelSchema,
    create(OlderModelSchema, {
      version: 9,
      param: [
        { name: "w", dim: [2], content: floats(1, 2), dtype: TensorDtype.DT_FLOAT32 },
        { name: "s", dim: [], content: Uint8Array.of(3), dtype: TensorDtype.DT_INT8 },
        { name: "emb", dim: [2, 1], content: floats(5, 6), indices: [7, -3], dtype: TensorDtype.DT_FLOAT32 },
        { name: "emb", dim: [1, 1], content: floats(8), indices: [9], dtype: TensorDtype.DT_FLOAT32 },
        { name: "bare", dim: [0, 4], dtype: TensorDtype.DT_FLOAT32 },
      ],
      embeddingTableInfo: [
        { name: "emb", dim: 1n, initializer: "uniform" },
        { name: "bare", dim: 4n, initializer: "zeros" },
      ],
    }),
  );

  it("the older one of the design is read, with its own dtypes and ids of 32 bits", async () => {
    const [whole] = await restoreFrom(new MemoryStore([[name, older]]), [name], { psNum: 1 });
    expect(whole!.modelVersion).toBe(9);
    expect(whole!.dense.get("w")).toMatchObject({ dtype: "float32", shape: [2], data: floats(1, 2) });
    expect(whole!.dense.get("s")).toMatchObject({ dtype: "int8", shape: [], data: Uint8Array.of(3) });
    expect([...whole!.tables.get("emb")!.ids]).toEqual([7n, -3n, 9n]);
    expect(whole!.tables.get("emb")!.data).toEqual(floats(5, 6, 8));
    expect(whole!.tables.get("bare")).toMatchObject({ shape: [0, 4], initializer: "zeros" });
    const wholeModel = await open(older, "model_v9.chkpt");
    expect(wholeModel.name).toEqual({ psId: 0, psNum: 1 });
    expect([...wholeModel.catalog.dense.keys()]).toEqual(["w", "s"]);
  });

  it("the released one is known under the older name", async () => {
    const bytes = readFixture("elasticdl/model_a/ps2/version-200/variables-0-of-2.ckpt");
    const shard = await open(bytes);
    expect(shard.catalog.tables.size).toBe(4);
    expect(shard.catalog.dense.size).toBe(8);
    for (const path of [
      "go/sgd_ps3/version-2/variables-2-of-3.ckpt",
      "edge/negative_and_empty/version-7/variables-1-of-2.ckpt",
    ]) {
      expect((await open(readFixture(`elasticdl/${path}`))).catalog.infos.size).toBeGreaterThan(0);
    }
  });

  it("one that may be either is refused, unless its name tells", async () => {
    const either = toBinary(
      ModelSchema,
      create(ModelSchema, { version: 1, embeddingTableInfos: [{ name: "a", initializer: "b" }] }),
    );
    await expect(open(either)).rejects.toMatchObject({ code: "ambiguous-message" });
    expect((await open(either, "variables-0-of-1.ckpt")).catalog.infos.get("a")).toMatchObject({ initializer: "b" });
    // One that holds only its version reads the same in both.
    expect((await open(Uint8Array.of(8, 5))).catalog.modelVersion).toBe(5);
  });

  it("fields in any order, single ids, unknown fields and messages in parts are what any parser takes", async () => {
    const part1 = toBinary(
      ModelSchema,
      create(ModelSchema, { denseParameters: { a: { dtype: 1, tensorContent: floats(1) } } }),
    );
    const part2 = toBinary(
      ModelSchema,
      create(ModelSchema, { version: 3, denseParameters: { a: { dtype: 1, tensorContent: floats(2) } } }),
    );
    // A table {key "t", value {concat [2, 1], ids 5 and 300 as single varints}}, then an unknown field 99.
    const rows = [0x08, 1, 0x12, 8, 0x12, 2, 0x08, 2, 0x12, 2, 0x08, 1, 0x22, 8, ...floats(3, 4)];
    const slices = [0x10, 5, 0x0a, rows.length, ...rows, 0x10, 0xac, 0x02];
    const entry = [0x12, slices.length, ...slices, 0x0a, 1, 0x74];
    const bytes = Uint8Array.from([0x9a, 0x06, 1, 7, ...part1, 0x22, entry.length, ...entry, ...part2]);
    const [whole] = await restoreFrom(new MemoryStore([["variables-0-of-1.ckpt", bytes]]), ["variables-0-of-1.ckpt"], {
      psNum: 1,
    });
    expect(whole!.modelVersion).toBe(3);
    expect(whole!.dense.get("a")!.data).toEqual(floats(2));
    expect([...whole!.tables.get("t")!.ids]).toEqual([5n, 300n]);
    expect(whole!.tables.get("t")!.data).toEqual(floats(3, 4));
    expect(encodedIdsLength(whole!.tables.get("t")!.ids)).toBe(3);
  });
});
