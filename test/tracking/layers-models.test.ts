import { beforeAll, describe, expect, it } from "vitest";
import type { ObjectGraph } from "../../src/proto/object-graph.js";
import { MemoryCheckpoint } from "./memory-checkpoint.js";
import { layers, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

const { layers: l } = layers;
/** The default of recurrent layers needs operations that have to be registered first. */
const recurrent = { recurrentInitializer: "glorotNormal", returnSequences: true } as const;

/** Each kind of model, made anew. */
const MODELS: Readonly<Record<string, () => layers.LayersModel>> = {
  sequential: () =>
    layers.sequential({
      layers: [
        l.dense({ units: 3, inputShape: [4] }),
        l.batchNormalization(),
        l.dropout({ rate: 0.5 }),
        l.dense({ units: 2 }),
      ],
    }),
  functional: () => {
    const input = layers.input({ shape: [4] });
    const hidden = l.dense({ units: 3 }).apply(input) as layers.SymbolicTensor;
    return layers.model({ inputs: input, outputs: l.dense({ units: 2 }).apply(hidden) as layers.SymbolicTensor });
  },
  nested: () =>
    layers.sequential({
      layers: [layers.sequential({ layers: [l.dense({ units: 3, inputShape: [4] })] }), l.dense({ units: 1 })],
    }),
  convolutions: () =>
    layers.sequential({
      layers: [
        l.conv2d({ filters: 2, kernelSize: 3, inputShape: [12, 12, 1] }),
        l.depthwiseConv2d({ kernelSize: 2 }),
        l.separableConv2d({ filters: 2, kernelSize: 2 }),
        l.conv2dTranspose({ filters: 2, kernelSize: 2 }),
        l.prelu(),
        l.layerNormalization(),
        l.flatten(),
        l.dense({ units: 1, useBias: false }),
      ],
    }),
  recurrent: () =>
    layers.sequential({
      layers: [
        l.embedding({ inputDim: 5, outputDim: 3, inputLength: 6 }),
        l.lstm({ units: 2, ...recurrent }),
        l.gru({ units: 2, ...recurrent }),
        l.bidirectional({ layer: l.lstm({ units: 2, ...recurrent }) as never, mergeMode: "concat" }),
        l.timeDistributed({ layer: l.dense({ units: 2 }) }),
        l.simpleRNN({ units: 2, recurrentInitializer: "glorotNormal" }),
      ],
    }),
};

/** The id of the object that a path of local names leads to. */
function follow(graph: ObjectGraph, path: string): number | undefined {
  let id: number | undefined = 0;
  for (const name of path.split("/")) id = graph[id ?? -1]?.children.find((child) => child.name === name)?.nodeId;
  return id;
}

// Paths that tf.train.Checkpoint(model=…) of TensorFlow 2.18 has for the same models, with Keras 3 and with Keras 2.
const PATHS: Readonly<Record<string, readonly (readonly [keras3: string, keras2: string])[]>> = {
  sequential: [
    ["_functional/_operations/1/_kernel", "layer_with_weights-0/kernel"],
    ["_functional/_operations/1/bias", "layer-0/bias"],
    ["_functional/_operations/2/moving_variance", "layer_with_weights-1/moving_variance"],
    ["_functional/_operations/4/_kernel", "layer_with_weights-2/kernel"],
    ["_functional/_operations/4/bias", "layer-3/bias"],
  ],
  functional: [
    ["_operations/1/_kernel", "layer_with_weights-0/kernel"],
    ["_operations/2/bias", "layer-2/bias"],
  ],
  nested: [
    ["_functional/_operations/1/_functional/_operations/1/_kernel", "layer_with_weights-0/layer_with_weights-0/kernel"],
    ["_functional/_operations/2/bias", "layer_with_weights-1/bias"],
  ],
  convolutions: [
    ["_functional/_operations/1/_kernel", "layer_with_weights-0/kernel"],
    ["_functional/_operations/2/kernel", "layer_with_weights-1/depthwise_kernel"],
    ["_functional/_operations/3/pointwise_kernel", "layer_with_weights-2/pointwise_kernel"],
    ["_functional/_operations/4/kernel", "layer_with_weights-3/kernel"],
    ["_functional/_operations/5/alpha", "layer_with_weights-4/alpha"],
    ["_functional/_operations/6/gamma", "layer_with_weights-5/gamma"],
    ["_functional/_operations/8/_kernel", "layer_with_weights-6/kernel"],
  ],
  recurrent: [
    ["_functional/_operations/1/_embeddings", "layer_with_weights-0/embeddings"],
    ["_functional/_operations/2/cell/recurrent_kernel", "layer_with_weights-1/cell/recurrent_kernel"],
    ["_functional/_operations/3/cell/bias", "layer_with_weights-2/cell/bias"],
    ["_functional/_operations/4/forward_layer/cell/kernel", "layer_with_weights-3/forward_layer/cell/kernel"],
    ["_functional/_operations/4/backward_layer/cell/bias", "layer_with_weights-3/backward_layer/cell/bias"],
    ["_functional/_operations/5/layer/_kernel", "layer_with_weights-4/layer/kernel"],
    ["_functional/_operations/6/cell/kernel", "layer_with_weights-5/cell/kernel"],
  ],
};

describe.each(Object.entries(MODELS))("a LayersModel: %s", (name, make) => {
  it("comes back in a model of the same layers", async () => {
    const model = make();
    const saved = await MemoryCheckpoint.of({ model });
    const other = make();
    (await saved.restoreInto({ model: other })).assertConsumed();
    const values = (one: layers.LayersModel) => one.getWeights().map((weight) => [...weight.dataSync()]);
    expect(values(other)).toEqual(values(model));
    expect(saved.values.size).toBe(model.getWeights().length + 1);
  });

  it("has the names of both generations of Keras", async () => {
    const { graph } = await MemoryCheckpoint.of({ model: make() });
    for (const [keras3, keras2] of PATHS[name]!) {
      const id = follow(graph, `model/${keras3}`);
      expect(id, keras3).toBeDefined();
      expect(follow(graph, `model/${keras2}`), keras2).toBe(id);
      expect(graph[id!]?.attributes).toHaveLength(1);
    }
  });
});

describe("a layer whose weights are made later", () => {
  it("gets its values when they are there", async () => {
    const make = () => layers.sequential({ layers: [l.dense({ units: 2, inputShape: [3] })] });
    const addTo = (model: layers.Sequential) => model.add(l.dense({ units: 1 }));
    const model = make();
    addTo(model);
    const dense = l.dense({ units: 4 });
    dense.build([null, 3]);
    const saved = await MemoryCheckpoint.of({ model, dense });
    const [other, later] = [make(), l.dense({ units: 4 })];
    const status = await saved.restoreInto({ model: other, dense: later });
    expect(status.unmatchedKeys).toHaveLength(4);
    addTo(other);
    later.build([null, 3]);
    await status.again();
    status.assertConsumed();
    expect([...other.getWeights()[2]!.dataSync()]).toEqual([...model.getWeights()[2]!.dataSync()]);
    expect([...later.getWeights()[0]!.dataSync()]).toEqual([...dense.getWeights()[0]!.dataSync()]);
  });
});
