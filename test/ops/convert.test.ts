import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { type ErrorCode, isCairnError } from "../../src/errors.js";
import { FORMATS } from "../../src/formats/registry.js";
import { type ConversionOptions, planConversion } from "../../src/ops/convert.js";
import { diff } from "../../src/ops/diff.js";
import { parseRename } from "../../src/ops/rename.js";
import { listTensors, openTensors } from "../../src/ops/tensors.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import {
  addSlice,
  formatSliceSpec,
  MaxShardSizePolicy,
  type ShardableTensor,
  ShardingCallback,
  sliceTensor,
  type TensorSliceDict,
} from "../../src/sharding/index.js";
import { decodeNumbers } from "../../src/tensor/numbers.js";
import { fixturePath } from "../support/fixtures.js";
import { floats, type MemoryTensor, MemoryTensors, strings, tensorOf } from "../support/memory-tensors.js";
import { toyFormat } from "../support/toy-format.js";

type Tensors = Readonly<Record<string, MemoryTensor>>;

const formats = [toyFormat, ...FORMATS];

/** Puts tensors into a store under `in.toy`. */
function storeOf(tensors: Tensors): MemoryStore {
  return toyFormat.storeOf("in.toy", tensors);
}

async function convert(files: MemoryStore, out: string, options: ConversionOptions = {}, from = "in.toy") {
  const conversion = await planConversion({ files, path: from }, { files, path: out }, { formats, ...options });
  try {
    const losses = await conversion.write();
    return { ...conversion, losses };
  } finally {
    await conversion.close();
  }
}

async function keysOf(files: MemoryStore, path: string): Promise<string[]> {
  const { tensors } = await openTensors(files, path, formats);
  const keys: string[] = [];
  for await (const { key } of tensors.tensors()) keys.push(key);
  await tensors.close();
  return keys;
}

async function errorOf(work: Promise<unknown>, code: ErrorCode): Promise<string> {
  const error = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (!isCairnError(error, code)) throw error ?? new Error("no error");
  return error.message;
}

const model: Tensors = {
  "encoder/kernel": floats([2, 3], [1, 2, 3, 4, 5, 6]),
  "encoder/bias": floats([3], [0.5, -1, 70_000]),
  "decoder/kernel": floats([3, 1], [1, 2, 3]),
  steps: tensorOf("int64", [], new Uint8Array(8).fill(1)),
  empty: floats([0, 4], []),
};

describe("converting", () => {
  it.each(["out.safetensors", "out.toy"])("gives the same tensors as %s", async (out) => {
    const files = storeOf(model);
    const { tensorCount, byteLength } = await convert(files, out);
    expect({ tensorCount, byteLength }).toEqual({ tensorCount: 5, byteLength: 24 + 12 + 12 + 8 });
    const { tensors } = await openTensors(files, out, formats);
    expect(await diff(new MemoryTensors(model), tensors)).toEqual({
      added: [],
      removed: [],
      changed: [],
      sameCount: 5,
    });
    await tensors.close();
  });

  it("finds the format by the output's name, or by what it is told", async () => {
    expect((await convert(storeOf(model), "a.safetensors")).to).toBe("safetensors");
    expect((await convert(storeOf(model), "a.toy")).to).toBe("toy");
    expect((await convert(storeOf(model), "a.other", { to: "toy" })).to).toBe("toy");
    expect(await errorOf(convert(storeOf(model), "a.unknown"), "usage")).toContain("tells no format");
    expect(await errorOf(convert(storeOf(model), "a", { to: "onnx" }), "usage")).toContain('cannot write "onnx"');
  });

  it("refuses a name that promises another format, and the source as the output", async () => {
    expect(await errorOf(convert(storeOf(model), "a.safetensors", { to: "toy" }), "usage")).toContain(
      "named as safetensors and would be toy",
    );
    for (const path of ["in.toy", "./in.toy", "in.toy/"]) {
      expect(await errorOf(convert(storeOf(model), path, { to: "toy" }), "usage")).toContain("output is the source");
    }
  });

  it("gives tensors other names", async () => {
    const files = storeOf(model);
    const rename = ["encoder/*=enc.*", "/kernel$/=weight"].map(parseRename);
    await convert(files, "out.toy", { rename });
    expect(await keysOf(files, "out.toy")).toEqual(["decoder/weight", "empty", "enc.bias", "enc.weight", "steps"]);
  });

  it("refuses to give two tensors one name", async () => {
    const rename = [parseRename("*/kernel=kernel")];
    const message = await errorOf(convert(storeOf(model), "out.toy", { rename }), "invalid-plan");
    expect(message).toContain('"kernel"');
  });

  it("takes what a filter names", async () => {
    const files = storeOf(model);
    await convert(files, "out.toy", { filter: "encoder/*" });
    expect(await keysOf(files, "out.toy")).toEqual(["encoder/bias", "encoder/kernel"]);
    const message = await errorOf(convert(files, "none.toy", { filter: "encoder" }), "usage");
    expect(message).toContain('no tensor matches "encoder"');
  });

  it("changes floats and tells what that cost", async () => {
    const files = storeOf(model);
    const { warnings, losses } = await convert(files, "out.toy", { dtypes: [{ from: "float32", to: "float16" }] });
    expect(warnings).toEqual(["float32 → float16 rounds the numbers of 4 tensors"]);
    expect(losses).toEqual(['1 number of "encoder/bias" too large: infinite now']);
    const { tensors } = await openTensors(files, "out.toy", formats);
    expect((await tensors.info("encoder/bias")).dtype).toBe("float16");
    const data = await tensors.data("encoder/bias");
    const values = decodeNumbers("float16", await data.read(0, data.size)) ?? [];
    expect(Array.from(values)).toEqual([0.5, -1, Number.POSITIVE_INFINITY]);
    expect((await tensors.info("steps")).dtype).toBe("int64");
  });

  it("refuses a change of dtype that is none of floats", async () => {
    await errorOf(convert(storeOf(model), "out.toy", { dtypes: [{ from: "int64", to: "float32" }] }), "usage");
  });

  it("refuses what the format cannot hold, and says all of it", async () => {
    const files = storeOf({ ...model, words: strings([2], ["a", "b"]), more: strings([], ["c"]) });
    const message = await errorOf(convert(files, "out.safetensors"), "invalid-plan");
    expect(message).toMatch(/^safetensors cannot hold "more" \(.*\), "words" \(.*\)$/);
    expect(await files.stat("out.safetensors")).toBeUndefined();
    const refused: string[] = [];
    const onRefused = ({ key }: { readonly key: string }) => void refused.push(key);
    await errorOf(convert(files, "out.safetensors", { onRefused }), "invalid-plan");
    expect(refused).toEqual(["more", "words"]);
    const { skipped } = await convert(files, "out.safetensors", { skipUnsupported: true });
    expect(skipped.map(({ key }) => key)).toEqual(["more", "words"]);
    expect(await keysOf(files, "out.safetensors")).toHaveLength(5);
  });

  it("leaves the state of optimizers away when it is told to", async () => {
    const files = storeOf({ ...model, "encoder/kernel/m": { ...floats([2, 3], [0, 0, 0, 0, 0, 0]), role: "slot" } });
    expect((await convert(files, "with.toy")).tensorCount).toBe(6);
    const { tensorCount, skipped } = await convert(files, "without.toy", { dropSlots: true });
    expect(tensorCount).toBe(5);
    expect(skipped).toEqual([{ key: "encoder/kernel/m", reason: "state of an optimizer" }]);
  });

  it("carries what describes a format's own structure to that format alone", async () => {
    const files = storeOf({ ...model, graph: { ...strings([], ["objects"]), role: "structure" } });
    expect((await convert(files, "out.toy")).tensorCount).toBe(6);
    expect((await convert(files, "out.safetensors")).skipped.map(({ key }) => key)).toEqual(["graph"]);
  });

  it("takes the variables of a SavedModel to a checkpoint with their keys and objects", async () => {
    const files = new MemoryStore();
    const model = { files: new LocalFiles(), path: fixturePath("cpb/models/keras") };
    const conversion = await planConversion(model, { files, path: "ckpt" }, { to: "checkpoint" });
    await conversion.write();
    await conversion.close();
    const left = await openTensors(model.files, `${model.path}/variables`);
    const right = await openTensors(files, "ckpt");
    const listed = async ({ tensors }: typeof left) => {
      const found: unknown[] = [];
      for await (const { key, role, sha256 } of listTensors(tensors, { sha256: true }))
        found.push({ key, role, sha256 });
      await tensors.close();
      return found;
    };
    const before = await listed(left);
    expect(before.length).toBe(9);
    expect(await listed(right)).toEqual(before);
  });

  it("calls tensors by their names in other formats", async () => {
    const files = storeOf({ "w/.ATTRIBUTES/VARIABLE_VALUE": { ...floats([1], [1]), name: "w" } });
    await convert(files, "out.safetensors");
    expect(await keysOf(files, "out.safetensors")).toEqual(["w"]);
    await convert(files, "out.toy");
    expect(await keysOf(files, "out.toy")).toEqual(["w/.ATTRIBUTES/VARIABLE_VALUE"]);
  });

  it("saves what is good of a damaged source", async () => {
    const files = storeOf({ ...model, bad: { ...floats([1], [1]), facts: { damaged: true } } });
    await errorOf(convert(files, "out.toy"), "tensor-data");
    expect(await files.stat("out.toy")).toBeUndefined();
    const { skipped, tensorCount } = await convert(files, "out.toy", { skipDamaged: true });
    expect(tensorCount).toBe(5);
    expect(skipped).toEqual([{ key: "bad", reason: expect.stringContaining("damaged: ") }]);
  });

  it("arranges shards as the format does it, or as a policy says", async () => {
    const files = storeOf(model);
    const bySize = await convert(files, "model", { maxShardSize: 30, to: "safetensors" });
    expect(bySize.plan.shards.map(({ slices }) => slices.map(({ key }) => key))).toEqual([
      ["decoder/kernel", "empty", "encoder/bias"],
      ["encoder/kernel"],
      ["steps"],
    ]);
    expect(await keysOf(files, "model")).toHaveLength(5);
    const callback = new MaxShardSizePolicy({ maxShardSize: 16 });
    const cut = await convert(files, "out.toy", { callback });
    expect(cut.plan.description).toBe(callback.description);
    expect(cut.plan.shards.length).toBeGreaterThan(3);
  });

  describe("embedding tables", () => {
    const disk = new LocalFiles();
    const training = fixturePath("elasticdl/model_a/ps3");
    const toSafetensors = async (files: MemoryStore, options: ConversionOptions = {}) => {
      const conversion = await planConversion(
        { files: disk, path: training },
        { files, path: "m.safetensors" },
        options,
      );
      await conversion.write();
      await conversion.close();
    };
    const diffOf = async (files: MemoryStore, path: string) => {
      const [left, right] = [await openTensors(disk, training), await openTensors(files, path)];
      const report = await diff(left.tensors, right.tensors);
      const tables = async ({ tensors }: typeof left) => {
        const found = [];
        for await (const { key, embedding } of tensors.tensors()) {
          if (embedding !== undefined) found.push([key, embedding, await tensors.ids?.(key)]);
        }
        return found;
      };
      expect(await tables(right)).toEqual(await tables(left));
      expect((await tables(left)).length).toBeGreaterThan(2);
      await Promise.all([left.tensors.close(), right.tensors.close()]);
      return report;
    };

    it("have their ids as a tensor where the format has no ids", async () => {
      const table = {
        ...floats([2, 2], [1, 2, 3, 4]),
        ids: [7n, 2n ** 60n],
        embedding: { dim: 2, rows: 2, initializer: "zeros" },
      };
      const files = storeOf({ users: table });
      await convert(files, "out.safetensors");
      const { tensors } = await openTensors(files, "out.safetensors", formats);
      const data = await tensors.data("users.ids");
      const bytes = await data.read(0, data.size);
      expect(Array.from(new BigInt64Array(bytes.slice().buffer))).toEqual([7n, 2n ** 60n]);
      expect((await tensors.info("users")).shape).toEqual([2, 2]);
      await tensors.close();
    });

    it("come back with ids, rows, initializer and version from a format without ids", async () => {
      const files = new MemoryStore();
      await toSafetensors(files);
      await convert(files, "back", { to: "elasticdl" }, "m.safetensors");
      expect(await diffOf(files, "back")).toMatchObject({ added: [], removed: [], changed: [] });
      const [version] = await files.list("back");
      expect(version?.path).toBe("back/version_300");
    });

    it("come back under the names that they got, and stay tables in another dtype", async () => {
      const files = new MemoryStore();
      await toSafetensors(files, { filter: "user_emb*", rename: [parseRename("user_emb*=u")] });
      expect(await keysOf(files, "m.safetensors")).toEqual(["u", "u.ids"]);
      const dtypes = [{ from: "float32", to: "float64" }] as const;
      await convert(files, "back", { to: "elasticdl", dtypes }, "m.safetensors");
      const { tensors } = await openTensors(files, "back");
      expect(await tensors.info("u")).toMatchObject({ dtype: "float64", embedding: { initializer: "uniform" } });
      expect(await keysOf(files, "back")).toEqual(["u"]);
      await tensors.close();
    });

    it("are no tables where ids do not fit, and are refused where one comes twice", async () => {
      const ids = (...values: bigint[]) => new Uint8Array(BigInt64Array.from(values).buffer);
      const files = storeOf({
        fits: floats([2, 1], [1, 2]),
        "fits.ids": tensorOf("int64", [2], ids(9n, -3n)),
        short: floats([2, 1], [1, 2]),
        "short.ids": tensorOf("int64", [1], ids(9n)),
      });
      await convert(files, "out", { to: "elasticdl" });
      expect(await keysOf(files, "out")).toEqual(["fits", "short", "short.ids"]);
      const { tensors } = await openTensors(files, "out");
      expect(Array.from((await tensors.ids?.("fits")) ?? [])).toEqual([-3n, 9n]);
      await tensors.close();
      const twice = storeOf({ t: floats([2, 1], [1, 2]), "t.ids": tensorOf("int64", [2], ids(9n, 9n)) });
      expect(await errorOf(convert(twice, "out", { to: "elasticdl" }), "tensor-data")).toContain("an id twice");
    });
  });

  it("writes nothing of a source whose checksum only shows in the end", async () => {
    const files = new MemoryStore();
    const store = storeOf(model);
    await convert(store, "ckpt", { to: "checkpoint" });
    const source = await store.open("ckpt.data-00000-of-00001");
    const bytes = (await source.read(0, source.size)).slice();
    bytes[3] = (bytes[3] as number) ^ 1;
    const sink = await files.create("ckpt.data-00000-of-00001");
    await sink.write(bytes);
    await sink.close();
    const index = await store.open("ckpt.index");
    const indexSink = await files.create("ckpt.index");
    await indexSink.write(await index.read(0, index.size));
    await indexSink.close();
    const callback = new LastRowFirst();
    await errorOf(convert(files, "cut", { to: "checkpoint", callback }, "ckpt"), "tensor-checksum");
    expect(await files.stat("cut.index")).toBeUndefined();
    await errorOf(convert(files, "whole.safetensors", {}, "ckpt"), "tensor-checksum");
    expect(await files.stat("whole.safetensors")).toBeUndefined();
  });
});

/** Cuts what has rows, and writes the last row first: no tensor is read in order. */
class LastRowFirst extends ShardingCallback {
  readonly description = "Writes the last row first.";

  call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
    const shard: TensorSliceDict = new Map();
    for (const { checkpointKey, shape, tensor } of tensors) {
      const [rows = 0, ...inner] = shape;
      if (rows < 2) addSlice(shard, checkpointKey, "", tensor);
      for (let row = rows - 1; row >= 0 && rows > 1; row--) {
        const region = [{ start: row, end: row + 1 }, ...inner.map((size) => ({ start: 0, end: size }))];
        addSlice(shard, checkpointKey, formatSliceSpec(shape, region), sliceTensor(tensor, region));
      }
    }
    return [shard];
  }
}
