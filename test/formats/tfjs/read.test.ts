import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { CairnError } from "../../../src/errors.js";
import { tfjsFormat } from "../../../src/formats/tfjs/index.js";
import { TfjsModel } from "../../../src/formats/tfjs/model.js";
import { inspect } from "../../../src/ops/inspect.js";
import { verify } from "../../../src/ops/verify.js";
import { expectBytes } from "../../support/bytes.js";
import { randomBytes } from "../../support/odd-sources.js";
import { allBytes, readAll } from "../../support/safetensors.js";
import { filesOf, manifestFiles, readOrError, savedFiles } from "../../support/tfjs.js";
import { layers, tf } from "../../tracking/tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const smallModel = () =>
  layers.sequential({
    name: "small",
    layers: [
      layers.layers.dense({ units: 3, inputShape: [4], name: "first" }),
      layers.layers.dense({ units: 2, name: "second" }),
    ],
  });

/** Weights of every dtype as TF.js encodes them. */
async function everyDType() {
  const tensors = {
    floats: tf.tensor2d([1.5, -2, 3, Number.NaN, 0, -0], [2, 3]),
    ints: tf.tensor1d([1, -2, 2 ** 31 - 1], "int32"),
    flags: tf.tensor1d([true, false, true], "bool"),
    words: tf.tensor2d(["a", "", "größer", "x".repeat(300)], [2, 2], "string"),
    waves: tf.complex([1, 2], [3, -4]),
    scalar: tf.scalar(7),
    none: tf.zeros([0, 3]),
  };
  const { data, specs } = await tf.io.encodeWeights(tensors);
  return { tensors, data: new Uint8Array(data as ArrayBuffer), specs };
}

describe("reading a TF.js model", () => {
  it("reads every dtype that TF.js writes, over any cuts into files", async () => {
    const { tensors, data, specs } = await everyDType();
    for (const maxFileBytes of [1, 7, 64, 10_000]) {
      const model = await TfjsModel.open(manifestFiles(specs, data, { maxFileBytes }), "m");
      const read = new Map((await readAll(model)).map((one) => [one.key, one]));
      expect([...read.keys()]).toEqual(Object.keys(tensors).sort());
      for (const [key, tensor] of Object.entries(tensors)) {
        expect(read.get(key)).toMatchObject({ dtype: tensor.dtype, shape: tensor.shape });
      }
      const bytes = (key: string) => (read.get(key)?.bytes ?? new Uint8Array()).slice();
      expect([...new Float32Array(bytes("floats").buffer)]).toEqual([1.5, -2, 3, Number.NaN, 0, -0]);
      expect([...new Int32Array(bytes("ints").buffer)]).toEqual([1, -2, 2 ** 31 - 1]);
      expect([...bytes("flags")]).toEqual([1, 0, 1]);
      expect([...new Float32Array(bytes("waves").buffer)]).toEqual([1, 3, 2, -4]);
      expect(bytes("words").length).toBe(8 * 4 + 1 + 8 + 300);
      expect(read.get("words")?.byteLength).toBe(309);
      expect(bytes("none").length).toBe(0);
    }
  });

  it("reads regions, of strings too", async () => {
    const { data, specs } = await everyDType();
    const model = await TfjsModel.open(manifestFiles(specs, data, { maxFileBytes: 11 }), "m");
    const row = [
      { start: 1, end: 2 },
      { start: 0, end: 1 },
    ];
    expect([...new Float32Array((await allBytes(await model.data("floats", row))).slice().buffer)]).toEqual([
      Number.NaN,
    ]);
    const word = new TextEncoder().encode("größer");
    expectBytes(
      await allBytes(await model.data("words", row)),
      new Uint8Array([word.length, 0, 0, 0, 0, 0, 0, 0, ...word]),
    );
  });

  it("decodes quantized weights as TF.js does", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("uint8", "uint16", "float16"),
        fc.constantFrom("float32", "int32"),
        fc.double({ min: -1e5, max: 1e5, noNaN: true }),
        fc.double({ min: -10, max: 10, noNaN: true }),
        fc.integer({ min: 1, max: 70 }),
        fc.nat(),
        async (stored, wanted, min, scale, count, seed) => {
          const dtype = stored === "float16" ? "float32" : wanted;
          const quantization = stored === "float16" ? { dtype: stored } : { dtype: stored, min, scale };
          const data = randomBytes(count * (stored === "uint8" ? 1 : 2), seed);
          const specs = [{ name: "w", shape: [count], dtype, quantization }] as tf.io.WeightsManifestEntry[];
          const model = await TfjsModel.open(manifestFiles(specs, data, { maxFileBytes: 33 }), "m");
          const [read] = await readAll(model);
          const decoded = tf.io.decodeWeights(data.slice().buffer, specs).w as tf.Tensor;
          const values = read?.dtype === "int32" ? Int32Array : Float32Array;
          expect(read).toMatchObject({ dtype, byteLength: count * 4, facts: { storedAs: stored } });
          expect([...new values((read?.bytes ?? new Uint8Array()).slice().buffer)]).toEqual([...decoded.dataSync()]);
          const source = await model.data("w");
          expectBytes(await source.read(3, source.size - 3), (read?.bytes ?? new Uint8Array()).subarray(3));
        },
      ),
      { numRuns: 150 },
    );
  });

  it("takes the state of an optimizer for slots, and texts for metadata", async () => {
    const model = smallModel();
    model.compile({ optimizer: "adam", loss: "meanSquaredError" });
    await model.fit(tf.ones([4, 4]), tf.ones([4, 2]), { epochs: 1, verbose: 0 });
    model.setUserDefinedMetadata({ author: "ada", size: { of: 3 } });
    const source = await TfjsModel.open(await savedFiles(model, 50, { includeOptimizer: true }), "m/model.json");
    const roles = (await readAll(source)).map(({ key, role }) => [key, role] as const);
    expect(roles.filter(([, role]) => role === undefined).map(([key]) => key)).toEqual([
      "first/bias",
      "first/kernel",
      "second/bias",
      "second/kernel",
    ]);
    expect(roles.filter(([, role]) => role === "slot").length).toBeGreaterThan(4);
    expect(await source.metadata()).toEqual({ author: "ada", size: '{"of":3}' });
  });

  it("reads several groups, and a manifest that stands alone", async () => {
    const group = (name: string, path: string) => ({ paths: [path], weights: [{ name, shape: [2], dtype: "bool" }] });
    const manifest = [group("a", "a.bin"), group("b", "deeper/b.bin")];
    const files = new MemoryStore([
      ["m/weights_manifest.json", text(manifest)],
      ["m/a.bin", Uint8Array.of(0, 1)],
      ["m/deeper/b.bin", Uint8Array.of(1, 1)],
    ]);
    const model = await TfjsModel.open(files, "m/weights_manifest.json");
    expect((await readAll(model)).map(({ key, bytes, facts }) => [key, [...bytes], facts])).toEqual([
      ["a", [0, 1], { group: 1 }],
      ["b", [1, 1], { group: 2 }],
    ]);
  });
});

describe("detection", () => {
  it("knows a model.json, its directory, and no other JSON", async () => {
    const files = new MemoryStore([
      ["m/model.json", text({ weightsManifest: [] })],
      ["other/model.json", text({ model: "something else" })],
      ["package.json", text({ name: "x", paths: [] })],
      ["list.json", text([{ paths: ["a"] }])],
      ["m.bin", text({ weightsManifest: [] })],
    ]);
    const detected = async (path: string) => (await tfjsFormat.detect(files, path))?.format;
    expect(await detected("m")).toBe("tfjs");
    expect(await detected("m/model.json")).toBe("tfjs");
    for (const path of ["other", "other/model.json", "package.json", "list.json", "m.bin", "nothing"]) {
      expect(await detected(path)).toBeUndefined();
    }
  });
});

describe("the outline", () => {
  it("shows layers, weights and the bytes of each", async () => {
    const { root, close } = await inspect(await savedFiles(smallModel(), 50), "m");
    expect(root.detail).toBe("TF.js layers model, Sequential, 4 weights in 2 files, 23 elements");
    const [model, group] = (await root.children?.()) ?? [];
    expect((await model?.children?.())?.map(({ label, detail }) => [label, detail])).toEqual([
      ["first", "Dense"],
      ["second", "Dense"],
    ]);
    const weights = (await group?.children?.()) ?? [];
    expect(weights.map(({ label }) => label)).toEqual(["first/kernel", "first/bias", "second/kernel", "second/bias"]);
    expect(weights[0]?.range).toEqual({ file: "m/group1-shard1of2.bin", start: 0, end: 48 });
    expect(weights[1]?.facts?.ranges).toEqual([
      { file: "m/group1-shard1of2.bin", start: 48, end: 50 },
      { file: "m/group1-shard2of2.bin", start: 0, end: 10 },
    ]);
    await close();
  });

  it("shows ops and signature of a graph model", async () => {
    const fields = {
      format: "graph-model",
      modelTopology: {
        node: [
          { name: "a", op: "Const" },
          { name: "b", op: "Add" },
          { name: "c", op: "Add" },
        ],
      },
      signature: {
        inputs: { x: { name: "x:0", dtype: "DT_FLOAT", tensorShape: { dim: [{ size: "-1" }, { size: "4" }] } } },
      },
    };
    const { root, close } = await inspect(manifestFiles([], new Uint8Array(), { fields }), "m");
    const [graph, signature] = (await root.children?.()) ?? [];
    expect(graph).toMatchObject({ detail: "3 nodes, 2 ops", facts: { ops: { Add: 2, Const: 1 } } });
    expect(await signature?.children?.()).toMatchObject([{ label: "in x", detail: "float [?, 4]" }]);
    await close();
  });
});

describe("verify", () => {
  const findings = async (change: (files: Map<string, Uint8Array>) => void) => {
    const files = await savedFiles(smallModel(), 50);
    change(filesOf(files));
    const { findings: found, good } = await verify(files, "m");
    return { codes: found.map(({ code, file }) => [code, file]), good: good.map(({ what }) => what) };
  };

  it("says that values have no checksum", async () => {
    const { codes, good } = await findings(() => {});
    expect(codes).toEqual([]);
    expect(good).toEqual(["m/model.json: places of 4 weights of group 1; values have no checksum"]);
  });

  it("tells of a missing file, and which weights are there", async () => {
    const { codes, good } = await findings((files) => files.delete("m/group1-shard2of2.bin"));
    expect(codes).toEqual([["not-found", "m/group1-shard2of2.bin"]]);
    expect(good).toEqual(["place of first/kernel"]);
  });

  it("tells of files that are too short or too long, and of others", async () => {
    const file = "m/group1-shard2of2.bin";
    expect((await findings((files) => files.set(file, new Uint8Array(41)))).codes).toEqual([["truncated", file]]);
    expect((await findings((files) => files.set(file, new Uint8Array(43)))).codes).toEqual([["weight-map", file]]);
    const orphan = "m/group1-shard3of3.bin";
    expect((await findings((files) => files.set(orphan, new Uint8Array()))).codes).toEqual([["orphan-file", orphan]]);
  });
});

describe("damaged and hostile manifests", () => {
  const weight = { name: "w", shape: [2], dtype: "float32" };
  const manifest = (change: object, paths: unknown = ["w.bin"]) =>
    new MemoryStore([
      ["m/model.json", text({ weightsManifest: [{ paths, weights: [{ ...weight, ...change }] }] })],
      ["m/w.bin", new Uint8Array(8)],
    ]);
  const codeOf = async (files: MemoryStore) => {
    const result = await readOrError(files);
    return result instanceof CairnError ? result.code : result.length;
  };

  it.each([
    ["../w.bin", "weight-map"],
    ["/etc/passwd", "weight-map"],
    ["a/../../w.bin", "weight-map"],
    ["..\\w.bin", "weight-map"],
    ["https://elsewhere/w.bin", "weight-map"],
    ["%2e%2e/w.bin", "weight-map"],
    ["w.bin\u0000", "weight-map"],
    ["", "weight-map"],
    [7, "invalid-json"],
  ])("refuses the path %j", async (path, code) => {
    expect(await codeOf(manifest({}, [path]))).toBe(code);
  });

  it.each([
    [{ shape: [-1] }, "tensor-data"],
    [{ shape: [1.5] }, "tensor-data"],
    [{ shape: ["2"] }, "invalid-json"],
    [{ shape: 2 }, "invalid-json"],
    [{ shape: [2 ** 31, 2 ** 31] }, "limit"],
    [{ shape: [2 ** 26, 2 ** 26] }, "limit"],
    [{ shape: new Array(300).fill(1) }, "limit"],
    [{ shape: [2 ** 40] }, "truncated"],
    [{ shape: [2 ** 40], dtype: "string" }, "limit"],
    [{ dtype: "string" }, 1],
    [{ dtype: "string", shape: [3] }, "truncated"],
    [{ dtype: "int64" }, "unsupported-dtype"],
    [{ dtype: undefined }, "unsupported-dtype"],
    [{ name: 1 }, "invalid-json"],
    [{ quantization: { dtype: "uint8" } }, "invalid-json"],
    [{ quantization: { dtype: "uint8", scale: "1", min: 0 } }, "invalid-json"],
    [{ quantization: { dtype: "int8", scale: 1, min: 0 } }, "unsupported-dtype"],
    [{ dtype: "int32", quantization: { dtype: "float16" } }, "unsupported-dtype"],
    [{ dtype: "bool", quantization: { dtype: "uint8", scale: 1, min: 0 } }, "unsupported-dtype"],
    [{}, 1],
  ])("gives a typed error for a weight with %j", async (change, code) => {
    expect(await codeOf(manifest(change))).toBe(code);
  });

  it("refuses a weight or a file that is named twice", async () => {
    expect(await codeOf(manifest({}, ["w.bin", "w.bin"]))).toBe("weight-map");
    const twice = { weightsManifest: [{ paths: ["w.bin"], weights: [weight, weight] }] };
    expect(await codeOf(new MemoryStore([["m/model.json", text(twice)]]))).toBe("weight-map");
  });

  it("gives the right weights or a typed error for every flipped byte and every cut", async () => {
    const { data, specs } = await everyDType();
    const good = filesOf(manifestFiles(specs, data.subarray(0, 460), { maxFileBytes: 300 }));
    for (const [path, bytes] of good) {
      for (let at = 0; at < bytes.length; at++) {
        const flipped = bytes.slice();
        flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
        await readOrError(new MemoryStore([...good, [path, flipped]]), "m/model.json");
        const cut = await readOrError(new MemoryStore([...good, [path, bytes.slice(0, at)]]), "m/model.json");
        expect(cut).toBeInstanceOf(CairnError);
      }
    }
  });
});
