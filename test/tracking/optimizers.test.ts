import { beforeAll, describe, expect, it } from "vitest";
import { useKerasLayout } from "../../src/tracking/adapters.js";
import { MemoryCheckpoint } from "./memory-checkpoint.js";
import { layers, Net, OPTIMIZERS, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

/** TF.js's Momentum has no equal in Keras. */
const KERAS_OPTIMIZERS = Object.entries(OPTIMIZERS).filter(([name]) => name !== "momentum" && name !== "nesterov");

describe.each(KERAS_OPTIMIZERS)("an optimizer of TF.js in the layout of Keras 3: %s", (_, make) => {
  it("goes on bit for bit, restored before its first step or after some", async () => {
    const net = new Net(1);
    const optimizer = make();
    useKerasLayout(optimizer, net.variables);
    net.train(optimizer, 3);
    const saved = await MemoryCheckpoint.of({ net, optimizer });
    net.train(optimizer, 3, 3);
    for (const steps of [0, 2]) {
      const other = new Net(7);
      const fresh = make();
      useKerasLayout(fresh, other.variables);
      other.train(fresh, steps, 50);
      const status = await saved.restoreInto({ net: other, optimizer: fresh });
      status.assertConsumed();
      expect(fresh.iterations).toBe(3);
      other.train(fresh, 3, 3);
      expect(other.values()).toEqual(net.values());
      status.assertConsumed();
    }
  });

  it("is saved before its first step with the values that it begins with", async () => {
    const [net, other] = [new Net(1), new Net(7)];
    const [optimizer, fresh] = [make(), make()];
    useKerasLayout(optimizer, net.variables);
    useKerasLayout(fresh, other.variables);
    const saved = await MemoryCheckpoint.of({ net, optimizer });
    (await saved.restoreInto({ net: other, optimizer: fresh })).assertConsumed();
    net.train(optimizer, 2);
    other.train(fresh, 2);
    expect(other.values()).toEqual(net.values());
  });
});

describe("useKerasLayout", () => {
  it("refuses what Keras has not, and what was tracked before", async () => {
    expect(() => useKerasLayout(tf.train.momentum(0.1, 0.9), [])).toThrow(/Momentum/);
    const optimizer = tf.train.adam(0.1);
    await MemoryCheckpoint.of({ optimizer });
    expect(() => useKerasLayout(optimizer, [])).toThrow(/already/);
  });
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
