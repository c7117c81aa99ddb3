import { describe, expect, it } from "vitest";
import type { MemoryStore } from "../../src/bytes/memory-store.js";
import { type ErrorCode, isCairnError } from "../../src/errors.js";
import { FORMATS } from "../../src/formats/registry.js";
import { type ConversionOptions, planConversion } from "../../src/ops/convert.js";
import { diff } from "../../src/ops/diff.js";
import { parseRename } from "../../src/ops/rename.js";
import { openTensors } from "../../src/ops/tensors.js";
import { MaxShardSizePolicy } from "../../src/sharding/index.js";
import { decodeNumbers } from "../../src/tensor/numbers.js";
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
    expect((await convert(storeOf(model), "a.safetensors", { to: "toy" })).to).toBe("toy");
    expect(await errorOf(convert(storeOf(model), "a.unknown"), "usage")).toContain("tells no format");
    expect(await errorOf(convert(storeOf(model), "a", { to: "onnx" }), "usage")).toContain('cannot write "onnx"');
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
  });

  it("changes floats and tells what that cost", async () => {
    const files = storeOf(model);
    const { warnings, losses } = await convert(files, "out.toy", { dtypes: [{ from: "float32", to: "float16" }] });
    expect(warnings).toEqual(["float32 → float16 rounds the numbers of 4 tensors"]);
    expect(losses).toEqual(['1 numbers of "encoder/bias" were too large and became infinite']);
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

  it("writes the ids of an embedding table as a tensor where the format has no ids", async () => {
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
});
