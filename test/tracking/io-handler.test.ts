import { beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { TfjsModel } from "../../src/formats/tfjs/model.js";
import { planConversion } from "../../src/ops/convert.js";
import { openTensors } from "../../src/ops/tensors.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { Checkpoint } from "../../src/tracking/checkpoint.js";
import {
  cairnHandler,
  cairnSaveHandler,
  type TfModelArtifacts,
  type WeightReport,
} from "../../src/tracking/io-handler/index.js";
import { fixturePath } from "../support/fixtures.js";
import { MemoryTensors } from "../support/memory-tensors.js";
import { readAll } from "../support/safetensors.js";
import { fromFiles, savedFiles } from "../support/tfjs.js";
import { layers, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

const { layers: l } = layers;
/** The default of recurrent layers needs operations that have to be registered first. */
const recurrent = { recurrentInitializer: "glorotNormal", returnSequences: true } as const;
const dense = (name?: string) =>
  layers.sequential({
    layers: [l.dense({ units: 3, inputShape: [4], ...(name === undefined ? {} : { name }) }), l.dense({ units: 2 })],
  });

/** Each kind of model, made anew, and what it is given. */
const MODELS: Readonly<Record<string, readonly [() => layers.LayersModel, number[]]>> = {
  sequential: [
    () =>
      layers.sequential({
        layers: [
          l.dense({ units: 3, inputShape: [4] }),
          l.batchNormalization(),
          l.dropout({ rate: 0.5 }),
          l.dense({ units: 2 }),
        ],
      }),
    [5, 4],
  ],
  functional: [
    () => {
      const input = layers.input({ shape: [4] });
      const hidden = l.dense({ units: 3 }).apply(input) as layers.SymbolicTensor;
      return layers.model({ inputs: input, outputs: l.dense({ units: 2 }).apply(hidden) as layers.SymbolicTensor });
    },
    [5, 4],
  ],
  nested: [() => layers.sequential({ layers: [dense(), l.dense({ units: 1 })] }), [5, 4]],
  convolutions: [
    () =>
      layers.sequential({
        layers: [
          l.conv2d({ filters: 2, kernelSize: 3, inputShape: [8, 8, 1] }),
          l.depthwiseConv2d({ kernelSize: 2 }),
          l.separableConv2d({ filters: 2, kernelSize: 2 }),
          l.prelu(),
          l.layerNormalization(),
          l.flatten(),
          l.dense({ units: 1, useBias: false }),
        ],
      }),
    [2, 8, 8, 1],
  ],
  recurrent: [
    () =>
      layers.sequential({
        layers: [
          l.lstm({ units: 2, inputShape: [6, 3], ...recurrent }),
          l.gru({ units: 2, ...recurrent }),
          l.bidirectional({ layer: l.lstm({ units: 2, ...recurrent }) as never, mergeMode: "concat" }),
          l.timeDistributed({ layer: l.dense({ units: 2 }) }),
          l.rnn({
            cell: [
              l.gruCell({ units: 3, ...recurrent } as never),
              l.lstmCell({ units: 2, ...recurrent } as never),
            ] as never,
          }),
        ],
      }),
    [2, 6, 3],
  ],
};

const predict = (model: layers.LayersModel, shape: number[]) => [
  ...(model.predict(tf.randomNormal(shape, 0, 1, "float32", 3)) as tf.Tensor).dataSync(),
];

/** What TF.js gives to a save handler. */
async function artifactsOf(model: layers.LayersModel): Promise<tf.io.ModelArtifacts> {
  return fromFiles(await savedFiles(model), "m");
}

async function convert(files: MemoryStore, from: string, to: string, id?: string) {
  const conversion = await planConversion(
    { files, path: from },
    { files, path: to },
    { to: id, skipUnsupported: true },
  );
  await conversion.write({});
  await conversion.close();
}

describe("cairnHandler", () => {
  it.each(Object.entries(MODELS))("loads a %s model from a checkpoint of its structure", async (_, [make, shape]) => {
    const model = make();
    const files = new MemoryStore();
    await new Checkpoint({ net: model }, { files }).write("ckpt");
    const topology = { files: await savedFiles(make()), path: "m" };
    let report: WeightReport | undefined;
    const handler = cairnHandler({ files, path: "ckpt" }, { topology, onReport: (told) => (report = told) });
    const loaded = await layers.loadLayersModel(handler);
    expect(predict(loaded, shape)).toEqual(predict(model, shape));
    expect(report?.missing).toEqual([]);
    expect(report?.extra).toEqual([]);
    expect(report?.matched.length).toBe(model.weights.length);
  });

  it.each(["tfjs", "safetensors", "checkpoint", "elasticdl"])(
    "loads the weights that were converted to %s",
    async (format) => {
      const model = dense("first");
      const files = await savedFiles(model);
      await convert(files, "m", "out/model", format);
      const loaded = await layers.loadLayersModel(
        cairnHandler({ files, path: "out/model" }, { topology: (await artifactsOf(model)) as TfModelArtifacts }),
      );
      expect(predict(loaded, [5, 4])).toEqual(predict(model, [5, 4]));
    },
  );

  it("loads a model of TF.js as it is, with the state of its optimizer", async () => {
    const model = dense();
    model.compile({ optimizer: "adam", loss: "meanSquaredError" });
    await model.fit(tf.ones([4, 4]), tf.ones([4, 2]), { epochs: 1, verbose: 0 });
    const files = await savedFiles(model, 64, { includeOptimizer: true });
    const loaded = await layers.loadLayersModel(cairnHandler({ files, path: "m" }));
    expect(predict(loaded, [5, 4])).toEqual(predict(model, [5, 4]));
    const steps = [model, loaded].map((one) => one.optimizer.iterations);
    expect(steps[1]).toBe(steps[0]);
  });

  it("finds the weights of a Keras 3 model along the object graph", async () => {
    const files = new LocalFiles();
    const path = fixturePath("checkpoints/keras_model/ckpt-1");
    const model = layers.sequential({
      layers: [l.dense({ units: 8, inputShape: [6] }), l.batchNormalization(), l.dense({ units: 3 })],
    });
    const loaded = await layers.loadLayersModel(
      cairnHandler({ files, path }, { topology: (await artifactsOf(model)) as TfModelArtifacts }),
    );
    const reader = await openCheckpoint(path, { files });
    const data = await reader.data("net/optimizer/_trainable_variables/4/.ATTRIBUTES/VARIABLE_VALUE");
    const expected = new Float32Array((await data.read(0, data.size)).slice().buffer);
    expect([...(loaded.layers[2]?.getWeights()[0]?.dataSync() ?? [])]).toEqual([...expected]);
    await reader.close();
  });

  it("gives weights other names, widens floats, and takes tensors that are open", async () => {
    const topology = (await artifactsOf(dense("first"))) as TfModelArtifacts;
    const halves = (shape: number[], bits: number) => ({
      dtype: "float16" as const,
      shape,
      bytes: new Uint8Array(Uint16Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => bits).buffer),
    });
    const specs = topology.weightSpecs ?? [];
    const source = new MemoryTensors(
      Object.fromEntries(specs.map(({ name, shape }) => [`net.${name.replace("/", ".")}`, halves(shape, 0x3800)])),
    );
    const loaded = await layers.loadLayersModel(cairnHandler(source, { topology, rename: ["net.*.*=*/*"] }));
    expect([...new Set(loaded.weights.flatMap((weight) => [...weight.read().dataSync()]))]).toEqual([0.5]);
  });

  it("names weights without a tensor, and tensors that are no weight", async () => {
    const files = await savedFiles(dense("first"));
    const topology = { files: await savedFiles(dense("other")), path: "m" };
    const handler = cairnHandler({ files, path: "m" }, { topology });
    await expect(handler.load()).rejects.toMatchObject({
      code: "not-consumed",
      actual: expect.stringContaining("other/kernel"),
    });
    let report: WeightReport | undefined;
    const loose = cairnHandler({ files, path: "m" }, { topology, strict: false, onReport: (told) => (report = told) });
    await layers.loadLayersModel(loose, { strict: false });
    expect(report?.missing).toContain("other/kernel");
    expect(report?.extra).toContain("first/kernel");
  });

  it("refuses tensors of another shape, and tensors without a model", async () => {
    const files = await savedFiles(dense("first"));
    const larger = layers.sequential({ layers: [l.dense({ units: 9, inputShape: [4], name: "first" })] });
    const topology = { files: await savedFiles(larger), path: "m" };
    await expect(cairnHandler({ files, path: "m" }, { topology }).load()).rejects.toMatchObject({
      code: "tensor-mismatch",
    });
    await convert(files, "m", "m.safetensors");
    await expect(cairnHandler({ files, path: "m.safetensors" }).load()).rejects.toMatchObject({ code: "usage" });
  });
});

describe("cairnSaveHandler", () => {
  it("saves a model that TF.js loads again", async () => {
    const model = dense();
    model.setUserDefinedMetadata({ author: "ada" });
    const files = new MemoryStore();
    const result = await model.save(cairnSaveHandler({ files, path: "out/model.json" }, { maxShardSize: 30 }));
    await model.save(cairnSaveHandler({ files, path: "model.json" }));
    expect(result.modelArtifactsInfo.weightDataBytes).toBe(4 * (12 + 3 + 6 + 2));
    const loaded = await layers.loadLayersModel(tf.io.fromMemory(fromFiles(files, "out")) as tf.io.IOHandler);
    expect(predict(loaded, [5, 4])).toEqual(predict(model, [5, 4]));
    expect(loaded.getUserDefinedMetadata()).toEqual({ author: "ada" });
  });

  it.each([
    ["model.safetensors", undefined],
    ["ckpt", "checkpoint"],
  ])("saves the weights as %s", async (path, to) => {
    const model = dense("first");
    const files = new MemoryStore();
    await model.save(cairnSaveHandler({ files, path }, { to, rename: ["first/*=renamed/*"] }));
    const { tensors } = await openTensors(files, path);
    const read = await readAll(tensors);
    expect(read.map(({ key }) => key)).toContain("renamed/kernel");
    const kernel = read.find(({ key }) => key === "renamed/kernel")?.bytes.slice();
    expect([...new Float32Array(kernel?.buffer ?? new ArrayBuffer(0))]).toEqual([
      ...(model.weights[0]?.read().dataSync() ?? []),
    ]);
    await expect(model.save(cairnSaveHandler({ files, path }, { to }))).rejects.toMatchObject({ code: "exists" });
    await model.save(cairnSaveHandler({ files, path }, { to, overwrite: true }));
  });

  it("keeps the state of the optimizer apart", async () => {
    const model = dense();
    model.compile({ optimizer: "adam", loss: "meanSquaredError" });
    await model.fit(tf.ones([4, 4]), tf.ones([4, 2]), { epochs: 1, verbose: 0 });
    const files = new MemoryStore();
    await model.save(cairnSaveHandler({ files, path: "out/model.json" }), { includeOptimizer: true });
    const roles = (await readAll(await TfjsModel.open(files, "out"))).map(({ role }) => role);
    expect(roles.filter((role) => role === undefined).length).toBe(model.weights.length);
    const loaded = await layers.loadLayersModel(cairnHandler({ files, path: "out" }));
    expect(loaded.optimizer.iterations).toBe(model.optimizer.iterations);
  });
});
