import { beforeAll, describe, expect, it } from "vitest";
import { MemoryCheckpoint } from "./memory-checkpoint.js";
import { layers, Net, OPTIMIZERS, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

describe.each(Object.entries(OPTIMIZERS))("an optimizer of TF.js: %s", (_, make) => {
  it("goes on bit for bit when it is restored before its first step", async () => {
    const net = new Net(1);
    const optimizer = make();
    net.train(optimizer, 3);
    const saved = await MemoryCheckpoint.of({ net, optimizer });
    net.train(optimizer, 3, 3);

    const other = new Net(7);
    const fresh = make();
    const status = await saved.restoreInto({ net: other, optimizer: fresh });
    status.assertConsumed();
    expect(fresh.iterations).toBe(3);
    other.train(fresh, 3, 3);
    expect(other.values()).toEqual(net.values());
    status.assertConsumed();
    expect(Object.hasOwn(fresh, "applyGradients")).toBe(false);
  });

  it("goes on bit for bit when it is restored after steps of its own", async () => {
    const net = new Net(1);
    const optimizer = make();
    net.train(optimizer, 3);
    const saved = await MemoryCheckpoint.of({ net, optimizer });
    net.train(optimizer, 3, 3);

    const other = new Net(7);
    const used = make();
    other.train(used, 2, 50);
    (await saved.restoreInto({ net: other, optimizer: used })).assertConsumed();
    other.train(used, 3, 3);
    expect(other.values()).toEqual(net.values());
  });

  it("is saved again without a step in between as it was", async () => {
    const net = new Net(1);
    const optimizer = make();
    net.train(optimizer, 2);
    const saved = await MemoryCheckpoint.of({ net, optimizer });
    const other = new Net(7);
    const fresh = make();
    (await saved.restoreInto({ net: other, optimizer: fresh })).assertConsumed();
    const again = await MemoryCheckpoint.of({ net: other, optimizer: fresh });
    const bytes = ({ values }: MemoryCheckpoint) =>
      [...values].filter(([key]) => !key.startsWith("_")).map(([key, value]) => [key, [...value.bytes]]);
    expect(bytes(again)).toEqual(bytes(saved));
  });

  it("goes on bit for bit with a compiled LayersModel", async () => {
    const build = () => {
      const model = layers.sequential({
        layers: [
          layers.layers.dense({ units: 3, inputShape: [4], activation: "tanh" }),
          layers.layers.batchNormalization(),
          layers.layers.dense({ units: 1 }),
        ],
      });
      model.compile({ optimizer: make(), loss: "meanSquaredError" });
      return model;
    };
    const train = async (model: layers.Sequential) => {
      const x = tf.randomNormal([8, 4], 0, 1, "float32", 5);
      await model.fit(x, tf.ones([8, 1]), { epochs: 2, shuffle: false, verbose: 0 });
    };
    const model = build();
    await train(model);
    const saved = await MemoryCheckpoint.of({ model });
    await train(model);
    const other = build();
    (await saved.restoreInto({ model: other })).assertConsumed();
    await train(other);
    const values = (one: layers.Sequential) => one.getWeights().map((weight) => [...weight.dataSync()]);
    expect(values(other)).toEqual(values(model));
  });
});
