import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { elasticdlFormat } from "../../src/formats/elasticdl/index.js";
import { recordMetrics } from "../../src/formats/elasticdl/metrics.js";
import { reshardVersion } from "../../src/formats/elasticdl/reshard.js";
import { OrderedRows } from "../../src/formats/elasticdl/sorted-rows.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { embeddingOf } from "../../src/ops/embedding-ids.js";
import { getRows, getTensor } from "../../src/ops/get.js";
import { inspect, outlineToJson } from "../../src/ops/inspect.js";
import { type ListedTensor, listTensors, openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { ModelSchema } from "../../src/proto/gen/elasticdl/elasticdl_pb.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import { wholeRegion } from "../../src/tensor/region.js";
import type { TensorInfo } from "../../src/tensor/tensor-source.js";
import { CountingSource } from "../support/counting-source.js";
import { expected, goExpected, sha } from "../support/elasticdl.js";
import { fixturePath } from "../support/fixtures.js";

const files = new LocalFiles();
let folder: string;
let root: string;
let count = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-elasticdl-"));
});
beforeEach(() => {
  root = join(folder, `run${count++}`);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const modelA = (servers: number): string => fixturePath(`elasticdl/model_a/ps${servers}/version-${servers}00`);

async function listed(path: string): Promise<ListedTensor[]> {
  const { tensors } = await openTensors(files, path);
  const list: ListedTensor[] = [];
  for await (const tensor of listTensors(tensors, { sha256: true })) list.push(tensor);
  await tensors.close();
  return list;
}

/** What expected.json says of model A, in the form of a list. */
const wanted = [
  ...Object.entries(expected.model_a.whole.dense).map(([key, { dtype, shape, sha256 }]) => ({
    key,
    dtype,
    shape,
    sha256,
  })),
  ...Object.entries(expected.model_a.whole.tables).map(([key, { dim, count: rows, rows_sha256 }]) => ({
    key,
    dtype: "float32",
    shape: [rows, dim],
    sha256: rows_sha256,
  })),
].sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));

const short = ({ key, dtype, shape, sha256 }: ListedTensor) => ({ key, dtype, shape, sha256 });

describe("the tensors of a training checkpoint", () => {
  it.each([1, 2, 3, 4, 5])(
    "saved by %d servers are those of the whole model, tables in the order of their ids",
    async (servers) => {
      const list = await listed(modelA(servers));
      expect(list.map(short)).toEqual(wanted);
      const table = list.find(({ key }) => key === "wide/embeddings:0");
      expect(table).toMatchObject({
        facts: { kind: "embedding", dim: 1, rows: 50, initializer: "zeros" },
        embedding: { dim: 1, rows: 50, initializer: "zeros" },
      });
    },
  );

  it("of a checkpoint directory are those of its newest complete version", async () => {
    const list = await listed(fixturePath("elasticdl/versions"));
    const { dense, tables } = expected.versions.whole_of_latest;
    expect(list.map(({ key, sha256 }) => [key, sha256])).toEqual([
      ["b:0", dense["b:0"]!.sha256],
      ["emb", tables.emb!.rows_sha256],
      ["k:0", dense["k:0"]!.sha256],
      ["w:0", dense["w:0"]!.sha256],
    ]);
  });

  it("of a single shard are those of the shard", async () => {
    const list = await listed(join(modelA(2), "variables-1-of-2.ckpt"));
    expect(list.filter(({ embedding }) => embedding === undefined).map(({ key }) => key)).toEqual(
      expected.model_a.repartition["2"]![1]!.dense,
    );
  });

  it("are read row by row through their ids", async () => {
    const { tensors } = await openTensors(files, modelA(3));
    const key = "user_embedding/embeddings:0";
    const { ids } = expected.model_a.whole.tables[key]!;
    expect(Array.from(await tensors.ids!(key), String)).toEqual(ids);
    const all = await tensors.data(key);
    const bytes = await all.read(0, all.size);
    const rowBytes = bytes.length / ids.length;
    const chosen = [ids.at(-1)!, ids[0]!, ids.at(-1)!];
    const rows = await getRows(tensors, key, chosen.join(", "));
    expect(rows.shape).toEqual([3, 8]);
    const got = await rows.data.read(0, rows.data.size);
    const row = (id: string) => [...bytes.subarray(ids.indexOf(id) * rowBytes, (ids.indexOf(id) + 1) * rowBytes)];
    expect([...got]).toEqual(chosen.flatMap(row));
    const part = await getTensor(tensors, key, "2:4,:");
    expect(await part.data.read(0, part.data.size)).toEqual(bytes.subarray(2 * rowBytes, 4 * rowBytes));
    await expect(getRows(tensors, key, "123456")).rejects.toMatchObject({ code: "no-such-id" });
    await expect(getRows(tensors, key, "9223372036854775808")).rejects.toMatchObject({ code: "usage" });
    await expect(getRows(tensors, "dense/bias:0", "1")).rejects.toMatchObject({ code: "usage" });
    await expect(tensors.ids!("dense/bias:0")).rejects.toMatchObject({ code: "no-such-id" });
    await expect(tensors.data("nope")).rejects.toMatchObject({ code: "no-such-key" });
    await tensors.close();
  });
});

describe("rows in another order", () => {
  it("are those rows, whatever is read of them", async () => {
    const rowBytes = fc.integer({ min: 1, max: 9 });
    const counts = fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(
        rowBytes,
        counts,
        fc.array(fc.nat(), { maxLength: 40 }),
        fc.nat(),
        async (width, sizes, picks, cut) => {
          const total = sizes.reduce((sum, size) => sum + size, 0);
          const bytes = Uint8Array.from({ length: total * width }, (_, i) => (i * 7) % 251);
          let at = 0;
          const parts = sizes.map((rowCount) => {
            const data = new MemorySource(bytes.subarray(at, at + rowCount * width));
            at += rowCount * width;
            return { rowCount, data };
          });
          const order = Uint32Array.from(total === 0 ? [] : picks.map((pick) => pick % total));
          const rows = new OrderedRows("rows", { rowBytes: width, parts }, order);
          const whole = [...order].flatMap((row) => [...bytes.subarray(row * width, (row + 1) * width)]);
          expect([...(await rows.read(0, rows.size))]).toEqual(whole);
          const from = rows.size === 0 ? 0 : cut % rows.size;
          expect([...(await rows.read(from, rows.size - from))]).toEqual(whole.slice(from));
        },
      ),
    );
  });

  it("of a large table are read in few reads of the source, and one row in one", async () => {
    const [rowCount, rowBytes] = [400_000, 100];
    const data = new CountingSource(new MemorySource(new Uint8Array(rowCount * rowBytes)));
    const order = new Uint32Array(rowCount).map((_, i) => (i * 7919) % rowCount);
    const rows = new OrderedRows("rows", { rowBytes, parts: [{ rowCount, data }] }, order);
    await rows.read(1000 * rowBytes, rowBytes);
    expect([data.reads, data.bytes]).toEqual([1, rowBytes]);
    data.reset();
    for (let at = 0; at < rows.size; at += 2 ** 20) await rows.read(at, Math.min(2 ** 20, rows.size - at));
    // 40 MB in two blocks, each a pass over the source in reads of 4 MiB.
    expect(data.reads).toBeLessThan(30);
    expect(data.bytes).toBeLessThan(2.1 * rowCount * rowBytes);
  });
});

describe("resharding", () => {
  it.each([
    [1, 3],
    [3, 1],
    [5, 8],
    [4, 4],
  ])("from %d to %d servers changes nothing but the places", async (from, to) => {
    const { path, shards } = await reshardVersion(files, modelA(from), root, { psNum: to });
    expect(path).toBe(join(root, `version_${from}00`));
    expect(readdirSync(path)).toEqual(Array.from({ length: to }, (_, i) => `variables-${i}-of-${to}.chkpt`));
    expect(shards.length).toBe(to);
    expect((await listed(path)).map(short)).toEqual(wanted);
    expect(await verify(files, path)).toMatchObject({ ok: true, findings: [] });
    expect(readdirSync(folder).filter((name) => name.startsWith(`run${count - 1}.`))).toEqual([]);
  });

  it("writes the names of either layout, and refuses to overwrite or to contradict", async () => {
    await reshardVersion(files, fixturePath("elasticdl/versions"), root, { psNum: 2, layout: "elasticdl" });
    expect(readdirSync(join(root, "version-20"))).toEqual(["variables-0-of-2.ckpt", "variables-1-of-2.ckpt"]);
    const again = (options: object) =>
      reshardVersion(files, fixturePath("elasticdl/versions"), root, { psNum: 2, layout: "elasticdl", ...options });
    await expect(again({})).rejects.toMatchObject({ code: "exists" });
    await again({ overwrite: true, psNum: 1 });
    expect(readdirSync(join(root, "version-20"))).toEqual(["variables-0-of-1.ckpt"]);
    await expect(reshardVersion(files, modelA(1), join(root, "version-5"), { psNum: 1 })).rejects.toMatchObject({
      code: "usage",
    });
    await expect(
      reshardVersion(files, join(root, "version-20"), join(root, "version-20"), { psNum: 1 }),
    ).rejects.toMatchObject({ code: "usage" });
    await expect(
      reshardVersion(files, fixturePath("elasticdl/versions/version-30"), root, { psNum: 1 }),
    ).rejects.toMatchObject({ code: "missing-shard" });
    await expect(reshardVersion(files, root, root, { psNum: 0 })).rejects.toMatchObject({ code: "usage" });
    await expect(reshardVersion(files, fixturePath("cpb"), root, { psNum: 1 })).rejects.toMatchObject({
      code: "not-found",
    });
  });

  it("leaves nothing behind when a checksum of the source is wrong", async () => {
    await reshardVersion(files, modelA(1), root, { psNum: 2 });
    const path = join(root, "version_100/variables-1-of-2.chkpt");
    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 4;
    writeFileSync(path, bytes);
    await expect(reshardVersion(files, root, join(root, "../out"), { psNum: 3 })).rejects.toMatchObject({
      code: "shard-checksum",
    });
    expect(readdirSync(folder)).not.toContain("out");
  });

  it("reads each row once, for however many servers", async () => {
    const store = new MemoryStore();
    const rowCount = 60_000;
    const part = {
      rowCount,
      slots: new Map(),
      data: () => new MemorySource(new Uint8Array(rowCount * 64)),
      async *idBatches() {
        yield BigInt64Array.from({ length: rowCount }, (_, i) => BigInt(i));
      },
    };
    const table = { name: "t", dim: 16, dtype: "float32", initializer: "", parts: [part], slots: [] } as const;
    await writeVersion(store, "in", { modelVersion: 1, dense: [], tables: [table], states: [] }, { psNum: 3 });
    const sources: CountingSource[] = [];
    const open = store.open.bind(store);
    store.open = async (path) => {
      const opened = await open(path);
      const counting = new CountingSource(opened);
      sources.push(counting);
      return Object.assign(counting, { close: () => opened.close() });
    };
    await reshardVersion(store, "in/version_1", "out", { psNum: 8 });
    const read = sources.reduce((sum, { bytes }) => sum + bytes, 0);
    const size = sources.slice(-3).reduce((sum, one) => sum + one.size, 0);
    // Ids and heads are read again, rows are not.
    expect(read).toBeLessThan(1.15 * size);
  });
});

describe("verifying", () => {
  const codes = async (path: string) =>
    (await verify(files, path)).findings.map(({ code, severity }) => `${severity} ${code}`);

  it("finds nothing in what ElasticDL wrote, but what is missing", async () => {
    for (const path of [
      "model_a/ps3/version-300",
      "edge/negative_and_empty/version-7",
      ...Object.keys(goExpected).map((name) => `go/${name}`),
    ]) {
      expect(await verify(files, fixturePath(`elasticdl/${path}`))).toMatchObject({ ok: true, findings: [] });
    }
    const report = await verify(files, fixturePath("elasticdl/versions"));
    expect(report.findings.map(({ code, message }) => [code, message])).toEqual([
      ["missing-shard", "shard 1 of 3 missing"],
      ["missing-shard", "shards 0, 2 of 3 missing"],
    ]);
    expect(report.good.length).toBe(9);
  });

  it("goes on after each finding and names table, file and offset", async () => {
    const { path } = await reshardVersion(files, modelA(1), root, { psNum: 2 });
    for (const name of readdirSync(path)) {
      const bytes = readFileSync(join(path, name));
      for (const at of [0.3, 0.6]) bytes[Math.floor(bytes.length * at)]! ^= 1;
      writeFileSync(join(path, name), bytes);
    }
    const { ok, findings, good } = await verify(files, path);
    expect(ok).toBe(false);
    expect(findings.length).toBeGreaterThanOrEqual(2);
    for (const finding of findings) {
      expect(finding).toMatchObject({
        code: "shard-checksum",
        key: "item_embedding/embeddings:0",
        offset: expect.any(Number),
      });
    }
    expect(good).toEqual([]);
  });

  it("tells shards of other servers, versions and counts, strays, and ids that stand twice", async () => {
    const shards = fixturePath("elasticdl/model_a/ps2/version-200");
    mkdirSync(join(root, "version-200"), { recursive: true });
    cpSync(join(shards, "variables-0-of-2.ckpt"), join(root, "version-200/variables-1-of-2.ckpt"));
    cpSync(join(shards, "variables-1-of-2.ckpt"), join(root, "version-200/variables-0-of-2.ckpt"));
    expect(new Set(await codes(root))).toEqual(new Set(["error wrong-partition", "error no-complete-version"]));
    cpSync(join(shards, "variables-0-of-2.ckpt"), join(root, "version-200/variables-0-of-2.ckpt"));
    expect(await codes(root)).toContain("error duplicate-id");
    cpSync(shards, join(root, "version-201"), { recursive: true });
    expect((await codes(join(root, "version-201"))).sort()).toEqual([
      "error version-mismatch",
      "error version-mismatch",
    ]);
    cpSync(shards, join(root, "version-200"), { recursive: true });
    writeFileSync(join(root, "version-200/variables-1-of-2.ckpt.tmp"), "x");
    writeFileSync(join(root, "README"), "x");
    rmSync(join(root, "version-201"), { recursive: true });
    expect(await codes(root)).toEqual(["warning stray-file", "warning stray-file"]);
    cpSync(join(shards, "variables-1-of-2.ckpt"), join(root, "version-200/variables-1-of-4.ckpt"));
    rmSync(join(root, "version-200/variables-1-of-2.ckpt"));
    expect(await codes(join(root, "version-200"))).toContain("error mixed-shards");
  });

  it("tells ids without rows, infos that differ, and tables without info", async () => {
    const rows = { dtype: 1, tensorShape: { dim: [{ size: 1n }, { size: 1n }] }, tensorContent: new Uint8Array(4) };
    const shard = (init: Parameters<typeof create<typeof ModelSchema>>[1]) =>
      toBinary(ModelSchema, create(ModelSchema, { version: 1, ...init }));
    const store = new MemoryStore([
      ["v/version-1/variables-0-of-2.ckpt", shard({ embeddingTables: { a: { concatTensors: rows, ids: [2n, 4n] } } })],
      ["v/version-1/variables-1-of-2.ckpt", shard({ embeddingTables: { a: { concatTensors: rows, ids: [1n] } } })],
    ]);
    const { findings } = await verify(store, "v/version-1");
    expect(findings.map(({ code, severity, message }) => [severity, code, message])).toEqual([
      ["error", "tensor-data", "2 ids for 1 row"],
      ["warning", "tensor-data", expect.stringMatching(/without info/)],
      ["warning", "tensor-data", expect.stringMatching(/without info/)],
    ]);
    const info = (dim: bigint, initializer: string) => ({
      embeddingTableInfos: [{ name: "a", dim, initializer, dtype: 1 }],
    });
    const other = new MemoryStore([
      ["v/version-1/variables-0-of-2.ckpt", shard(info(1n, "uniform"))],
      ["v/version-1/variables-1-of-2.ckpt", shard(info(1n, "zeros"))],
    ]);
    expect((await verify(other, "v")).findings).toMatchObject([{ severity: "warning", key: "a" }]);
  });
});

describe("looking into it", () => {
  it("shows versions, tables, metrics and state", async () => {
    cpSync(fixturePath("elasticdl/versions"), root, { recursive: true });
    await recordMetrics(files, root, { version: 10, metrics: { auc: 0.7 }, best: { metric: "auc", mode: "max" } });
    const { root: top, close, detection } = await inspect(files, root);
    expect(detection).toMatchObject({ format: "elasticdl", description: "training checkpoints" });
    const tree = await outlineToJson(top, 2);
    expect(tree.facts).toEqual({ latest: 20, best: 10, metric: "auc" });
    expect(tree.children!.map(({ label, detail }) => [label, detail])).toEqual([
      ["version-10", "complete, 3 shards, 276 B, auc 0.7"],
      ["version-20", "complete, 3 shards, 276 B"],
      ["version-30", "not complete: shard 1 of 3 missing, 2 shards, 160 B"],
      ["version-100", "not complete: shards 0, 2 of 3 missing, 1 shard, 116 B"],
    ]);
    expect(tree.children![0]!.children![0]).toMatchObject({
      label: "emb",
      kind: "embedding",
      detail: "embedding table, 4 rows of 2 × float32, initializer uniform",
      facts: { dim: 2, rows: 4, initializer: "uniform" },
    });
    await close();
  });

  it("knows a directory, a version, a shard and a file of an old name, and nothing else", async () => {
    const detect = async (path: string) => (await elasticdlFormat.detect(files, path))?.description;
    expect(await detect(fixturePath("elasticdl/versions"))).toBe("training checkpoints");
    expect(await detect(`${modelA(2)}/`)).toBe("training checkpoint");
    expect(await detect(join(modelA(2), "variables-0-of-2.ckpt"))).toBe("shard of a training checkpoint");
    for (const path of [
      "cpb",
      "cpb/models/tiny",
      "cpb/models/tiny/saved_model.pb",
      "nowhere",
      "elasticdl",
      "elasticdl/expected.json",
    ]) {
      expect(await detect(fixturePath(path)), path).toBeUndefined();
    }
    mkdirSync(join(root, "version-3"), { recursive: true });
    expect(await detect(root)).toBe("training checkpoints");
    writeFileSync(join(root, "version-3/saved_model.pb"), "x");
    expect(await detect(root)).toBeUndefined();
    const { path } = await reshardVersion(files, modelA(1), join(root, "x"), { psNum: 1 });
    cpSync(join(path, "variables-0-of-1.chkpt"), join(root, "renamed"));
    expect(await detect(join(root, "renamed"))).toBe("shard of a training checkpoint");
  });
});

describe("writing tensors", () => {
  it("takes variables, tables and slots from any source, for any number of servers", async () => {
    const { tensors } = await openTensors(files, modelA(2));
    const infos: TensorInfo[] = [];
    for await (const info of tensors.tensors()) infos.push(info);
    const slices = infos.map((info) => ({
      key: info.key,
      sliceSpec: "",
      fullShape: info.shape,
      region: wholeRegion(info.shape),
      tensor: {
        dtype: info.dtype,
        shape: info.shape,
        byteLength: info.byteLength,
        data: () => tensors.data(info.key),
        embedding: info.embedding && embeddingOf(tensors, info.key, info.embedding.initializer),
      },
    }));
    const key = "wide/embeddings:0";
    const wide = slices.find((slice) => slice.key === key)!;
    slices.push({ ...wide, key: `${key}/.OPTIMIZER_SLOT/m`, tensor: { ...wide.tensor, embedding: undefined } });
    const plan: ShardPlan = { description: "", warnings: [], shards: [{ task: "", slices }] };
    await elasticdlFormat.writeTensors!(files, root, plan, {
      training: { psNum: 3, layout: "elasticdl" },
      metadata: await tensors.metadata!(),
    });
    await tensors.close();
    const list = await listed(join(root, "version-200"));
    expect(list.filter(({ role }) => role === undefined).map(short)).toEqual(wanted);
    const slot = list.find(({ role }) => role === "slot");
    expect(slot).toMatchObject({
      key: `${key}/.OPTIMIZER_SLOT/m`,
      shape: [50, 1],
      sha256: expected.model_a.whole.tables[key]!.rows_sha256,
    });
    expect(await verify(files, root)).toMatchObject({ ok: true });
  });

  it("puts slices along the first dimension together and refuses others", async () => {
    const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
    const slice = (start: number, end: number, inner: readonly [number, number] = [0, 2]) => ({
      key: "w",
      sliceSpec: "cut",
      fullShape: [3, 2],
      region: [
        { start, end },
        { start: inner[0], end: inner[1] },
      ],
      tensor: {
        dtype: "float32" as const,
        shape: [end - start, 2],
        byteLength: 8 * (end - start),
        data: async () => new MemorySource(bytes.subarray(8 * start, 8 * end)),
      },
    });
    const write = (slices: ReturnType<typeof slice>[], path: string) =>
      elasticdlFormat.writeTensors!(files, path, {
        description: "",
        warnings: [],
        shards: slices.map((one) => ({ task: "", slices: [one] })),
      });
    await write([slice(0, 1), slice(1, 3)], join(root, "version-9"));
    expect((await listed(join(root, "version-9"))).map(({ key, sha256 }) => [key, sha256])).toEqual([
      ["w", sha(bytes)],
    ]);
    for (const slices of [[slice(0, 1)], [slice(1, 3), slice(0, 1)], [slice(0, 3, [0, 1])]]) {
      await expect(write(slices, join(root, "bad"))).rejects.toMatchObject({ code: "invalid-plan" });
    }
    expect(elasticdlFormat.refuses!({ key: "s", dtype: "string", shape: [] })).toMatch(/cannot hold string/);
    expect(elasticdlFormat.ownsName!("out/version_5")).toBe(true);
  });
});
