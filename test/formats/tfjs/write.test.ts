import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { tfjsFormat } from "../../../src/formats/tfjs/index.js";
import { TfjsModel } from "../../../src/formats/tfjs/model.js";
import { planTfjs } from "../../../src/formats/tfjs/plan.js";
import { writeTfjs } from "../../../src/formats/tfjs/write.js";
import { planConversion } from "../../../src/ops/convert.js";
import { verify } from "../../../src/ops/verify.js";
import { elementBytes } from "../../../src/tensor/dtype.js";
import type { LazyTensor } from "../../../src/tensor/lazy-tensor.js";
import { memoryTensor, stringTensor } from "../../../src/tensor/memory-tensor.js";
import { elementCount } from "../../../src/tensor/shape.js";
import { Checkpoint } from "../../../src/tracking/checkpoint.js";
import { expectBytes } from "../../support/bytes.js";
import { CrashingStore, countChanges } from "../../support/crashing-store.js";
import { randomBytes } from "../../support/odd-sources.js";
import { allBytes, readAll } from "../../support/safetensors.js";
import { filesOf, fromFiles, loadWithTfjs, savedFiles } from "../../support/tfjs.js";
import { layers, tf } from "../../tracking/tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

const anyTensor = fc.oneof(
  fc
    .tuple(
      fc.constantFrom("float32", "int32", "bool", "complex64"),
      fc.array(fc.constantFrom(0, 1, 2, 3, 5), { maxLength: 3 }),
      fc.nat(),
    )
    .map(([dtype, shape, seed]): LazyTensor => {
      const size = elementCount(shape) * elementBytes(dtype as LazyTensor["dtype"]);
      return memoryTensor(dtype as LazyTensor["dtype"], shape, randomBytes(size, seed));
    }),
  fc.array(fc.string({ unit: "grapheme", maxLength: 9 }), { maxLength: 5 }).map((words) => stringTensor(words)),
);
const anyTensors = fc.uniqueArray(
  fc.tuple(
    fc.string({ maxLength: 6 }).filter((key) => !key.startsWith("hex:")),
    anyTensor,
  ),
  {
    maxLength: 8,
    selector: ([key]) => key,
  },
);

describe("writing a TF.js model", () => {
  it("gives back any tensors and texts, over any cuts into files", async () => {
    await fc.assert(
      fc.asyncProperty(
        anyTensors,
        fc.integer({ min: 1, max: 90 }),
        fc.dictionary(
          fc.string({ maxLength: 4 }).filter((key) => key !== "__proto__"),
          fc.string({ maxLength: 4 }),
          { maxKeys: 2 },
        ),
        async (tensors, maxFileBytes, metadata) => {
          const files = new MemoryStore();
          await writeTfjs(files, "out", planTfjs(tensors, maxFileBytes), { metadata });
          const model = await TfjsModel.open(files, "out");
          const read = new Map((await readAll(model)).map((one) => [one.key, one]));
          expect(read.size).toBe(tensors.length);
          for (const [key, tensor] of tensors) {
            expect(read.get(key)).toMatchObject({ dtype: tensor.dtype, shape: tensor.shape });
            expectBytes((read.get(key)?.bytes ?? new Uint8Array()).slice(), await allBytes(await tensor.data()));
          }
          expect(await model.metadata()).toEqual(metadata);
          expect((await verify(files, "out")).findings).toEqual([]);
          for (const [path, bytes] of filesOf(files))
            if (path.endsWith(".bin")) expect(bytes.length).toBeLessThanOrEqual(maxFileBytes);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("writes what TF.js decodes to the same values", async () => {
    const words = ["", "größer", "x".repeat(70)];
    const tensors: [string, LazyTensor][] = [
      ["words", stringTensor(words)],
      ["ints", memoryTensor("int32", [2], new Uint8Array(Int32Array.of(-1, 2 ** 31 - 1).buffer))],
      ["flags", memoryTensor("bool", [3], Uint8Array.of(1, 0, 1))],
      ["waves", memoryTensor("complex64", [1], new Uint8Array(Float32Array.of(1, -2).buffer))],
      ["floats", memoryTensor("float32", [], new Uint8Array(Float32Array.of(0.5).buffer))],
    ];
    const files = new MemoryStore();
    await writeTfjs(files, "out/model.json", planTfjs(tensors, 40));
    const { weightData, weightSpecs } = fromFiles(files, "out");
    const decoded = tf.io.decodeWeights(
      weightData as ArrayBuffer[],
      weightSpecs as tf.io.WeightsManifestEntry[],
    ) as Record<string, tf.Tensor>;
    expect(await decoded.words?.data()).toEqual(words);
    expect([...((await decoded.ints?.data()) ?? [])]).toEqual([-1, 2 ** 31 - 1]);
    expect([...((await decoded.flags?.data()) ?? [])]).toEqual([1, 0, 1]);
    expect([...((await decoded.waves?.data()) ?? [])]).toEqual([1, -2]);
    expect(await decoded.floats?.array()).toBe(0.5);
  });

  it("names files as the converter does, of 4 MiB where nothing else is said", async () => {
    const files = new MemoryStore();
    await writeTfjs(files, "out", planTfjs([["w", memoryTensor("float32", [2 ** 21], new Uint8Array(2 ** 23))]]));
    expect([...filesOf(files)].map(([path, { length }]) => [path, path.endsWith(".bin") ? length : 0])).toEqual([
      ["out/group1-shard1of2.bin", 2 ** 22],
      ["out/group1-shard2of2.bin", 2 ** 22],
      ["out/model.json", 0],
    ]);
  });

  it("leaves the old model or the new one wherever the work breaks off", async () => {
    const plan = (value: number) => planTfjs([["w", memoryTensor("bool", [3], new Uint8Array(3).fill(value))]], 2);
    const write = (files: MemoryStore) => writeTfjs(files, "out", plan(1), { overwrite: true });
    const start = async () => {
      const files = new MemoryStore();
      await writeTfjs(files, "out", plan(0));
      return files;
    };
    const count = await countChanges(await start(), (store) => writeTfjs(store, "out", plan(1), { overwrite: true }));
    for (let i = 0; i <= count; i++) {
      const files = await start();
      await writeTfjs(new CrashingStore(files, i), "out", plan(1), { overwrite: true }).catch(() => {});
      // The next write puts back what had stepped aside.
      if ((await files.stat("out")) === undefined) await write(files);
      const [read] = await readAll(await TfjsModel.open(files, "out"));
      expect([...new Set(read?.bytes)].length).toBe(1);
    }
  });

  it("refuses to replace a model without being told to, and other dtypes", async () => {
    const files = new MemoryStore();
    const plan = planTfjs([["w", memoryTensor("bool", [1], Uint8Array.of(1))]]);
    await writeTfjs(files, "out", plan);
    await expect(writeTfjs(files, "out", plan)).rejects.toMatchObject({ code: "exists" });
    await writeTfjs(files, "model.json", plan);
    await expect(writeTfjs(files, "model.json", plan, { overwrite: true })).rejects.toMatchObject({ code: "usage" });
    const wide = planTfjs([["w", memoryTensor("int64", [1], new Uint8Array(8))]]);
    await expect(writeTfjs(files, "other", wide)).rejects.toMatchObject({ code: "invalid-plan" });
    expect(tfjsFormat.refuses?.({ key: "w", dtype: "int64", shape: [] })).toMatch(/no int64/);
  });
});

const small = () =>
  layers.sequential({
    layers: [
      layers.layers.dense({ units: 3, inputShape: [4], activation: "tanh", name: "first" }),
      layers.layers.batchNormalization({ name: "norm" }),
      layers.layers.dense({ units: 2, name: "second" }),
    ],
  });
const x = () => tf.randomNormal([5, 4], 0, 1, "float32", 3);
const predict = (model: layers.LayersModel) => [...(model.predict(x()) as tf.Tensor).dataSync()];

describe("converting", () => {
  it("gives a model that TF.js loads, by way of safetensors and a template", async () => {
    const model = small();
    const files = await savedFiles(model);
    await convert(files, "m", "model.safetensors");
    await convert(files, "model.safetensors", "out/model.json", { template: { files, path: "m" } });
    expect(predict(await loadWithTfjs(files, "out"))).toEqual(predict(model));
  });

  it("finds the weights of a layers model in a checkpoint of its structure", async () => {
    const model = small();
    const files = await savedFiles(model);
    await new Checkpoint({ net: model }, { files }).write("ckpt");
    const template = { files: await savedFiles(small()), path: "m" };
    await convert(files, "ckpt", "filled", { to: "tfjs", template });
    expect(predict(await loadWithTfjs(files, "filled"))).toEqual(predict(model));
  });

  it("names what a template lacks and what it has no place for", async () => {
    const files = await savedFiles(small());
    await convert(files, "m", "all.safetensors");
    await convert(files, "m", "some.safetensors", { filter: "first/*" });
    const template = { files, path: "m" };
    await expect(convert(files, "some.safetensors", "out", { to: "tfjs", template })).rejects.toMatchObject({
      code: "not-consumed",
      actual: "norm/gamma, norm/beta, second/kernel, second/bias, norm/moving_mean, norm/moving_variance",
    });
    const less = {
      files: await savedFiles(
        layers.sequential({ layers: [layers.layers.dense({ units: 3, inputShape: [4], name: "first" })] }),
      ),
      path: "m",
    };
    await expect(convert(files, "all.safetensors", "out", { to: "tfjs", template: less })).rejects.toMatchObject({
      code: "invalid-plan",
    });
    const { skipped } = await convert(files, "all.safetensors", "out", {
      to: "tfjs",
      template: less,
      skipUnsupported: true,
    });
    expect(skipped.map(({ key }) => key)).toContain("norm/gamma");
    await loadWithTfjs(files, "out");
    await expect(convert(files, "m", "x.safetensors", { template })).rejects.toMatchObject({ code: "usage" });
  });

  it("writes nothing of a source that is damaged", async () => {
    const files = await savedFiles(small());
    await new Checkpoint({ net: small() }, { files }).write("ckpt");
    const data = filesOf(files).get("ckpt.data-00000-of-00001") as Uint8Array;
    data[9] = (data[9] as number) ^ 1;
    await expect(convert(files, "ckpt", "out/model.json")).rejects.toMatchObject({ code: "tensor-checksum" });
    expect(await files.stat("out")).toBeUndefined();
  });

  it("keeps the state of the optimizer where the template has it", async () => {
    const model = small();
    model.compile({ optimizer: "adam", loss: "meanSquaredError" });
    await model.fit(x(), tf.ones([5, 2]), { epochs: 1, verbose: 0 });
    const files = await savedFiles(model, 100, { includeOptimizer: true });
    await convert(files, "m", "copy/model.json", { template: { files, path: "m" } });
    const roles = async (path: string) =>
      (await readAll(await TfjsModel.open(files, path))).map(({ key, role }) => [key, role]);
    expect(await roles("copy")).toEqual(await roles("m"));
    const { optimizer } = await loadWithTfjs(files, "copy");
    expect(optimizer.iterations).toBe(model.optimizer.iterations);
    expect(predict(await loadWithTfjs(files, "copy"))).toEqual(predict(model));
  });
});

async function convert(
  files: MemoryStore,
  from: string,
  to: string,
  options: Parameters<typeof planConversion>[2] = {},
) {
  const conversion = await planConversion({ files, path: from }, { files, path: to }, options);
  try {
    await conversion.write({});
    return conversion;
  } finally {
    await conversion.close();
  }
}
