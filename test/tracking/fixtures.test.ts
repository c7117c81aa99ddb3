import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { CairnError, CorruptionError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { decodeObjectGraph, encodeObjectGraph, type ObjectGraph, shortestPaths } from "../../src/proto/object-graph.js";
import { useKerasLayout } from "../../src/tracking/adapters.js";
import { LoadStatus } from "../../src/tracking/load-status.js";
import { OBJECT_GRAPH_KEY } from "../../src/tracking/object-path.js";
import { Restoration } from "../../src/tracking/restoration.js";
import { CheckpointRoot } from "../../src/tracking/root.js";
import { TrackedNumber } from "../../src/tracking/scalars.js";
import { decodeStrings } from "../../src/tracking/snapshot.js";
import { openTensors, readGraph } from "../../src/tracking/storage.js";
import { MemoryCheckpoint } from "./memory-checkpoint.js";
import { layers, tf } from "./tfjs-models.js";

const FIXTURES = fileURLToPath(new URL("../fixtures/checkpoints", import.meta.url));
const expected = JSON.parse(readFileSync(join(FIXTURES, "expected.json"), "utf8")) as Record<
  string,
  { object_graph: object | null }
>;
const files = new LocalFiles();

beforeAll(async () => {
  await tf.setBackend("cpu");
});

async function graphBytes(prefix: string): Promise<Uint8Array> {
  const reader = await openCheckpoint(join(FIXTURES, prefix), { files });
  try {
    const data = await reader.data(OBJECT_GRAPH_KEY);
    return decodeStrings(await data.read(0, data.size), prefix)[0]!.slice();
  } finally {
    await reader.close();
  }
}

async function restore(prefix: string, objects: object): Promise<LoadStatus> {
  const tensors = await openTensors(files, join(FIXTURES, prefix));
  const root = new CheckpointRoot(objects);
  root.counter;
  const restoration = new Restoration(await readGraph(tensors), tensors);
  await restoration.update(root);
  await tensors.close();
  return new LoadStatus(restoration, root);
}

async function stored(prefix: string, key: string): Promise<number[]> {
  const reader = await openCheckpoint(join(FIXTURES, prefix), { files });
  const data = await reader.data(`${key}/.ATTRIBUTES/VARIABLE_VALUE`);
  const values = [...new Float32Array((await data.read(0, data.size)).slice().buffer)];
  await reader.close();
  return values;
}

const values = (variable: tf.Tensor) => [...variable.dataSync()];
const withoutNames = (graph: ObjectGraph) =>
  graph.map((node) => ({ ...node, attributes: node.attributes.map((attribute) => ({ ...attribute, fullName: "" })) }));

describe("object graphs that TensorFlow wrote", () => {
  const prefixes = Object.keys(expected).filter((prefix) => expected[prefix]!.object_graph);

  it.each(prefixes)("come back byte for byte: %s", async (prefix) => {
    const bytes = await graphBytes(prefix);
    expect(encodeObjectGraph(decodeObjectGraph(bytes, prefix))).toEqual(bytes);
  });

  it("give an error or a graph when a byte of theirs is flipped or the rest is cut", async () => {
    const bytes = await graphBytes("module_adam_v1opt/ckpt-1");
    const check = (damaged: Uint8Array) => {
      try {
        decodeObjectGraph(damaged, "damaged");
      } catch (error) {
        expect(error).toBeInstanceOf(CairnError);
      }
    };
    for (let i = 0; i < bytes.length; i++) {
      const damaged = bytes.slice();
      damaged[i]! ^= 0x15;
      check(damaged);
      check(bytes.subarray(0, i));
    }
  });
});

describe("object graphs of hostile files", () => {
  const node = { attributes: [], slots: [] };

  it("may be a chain of any length", () => {
    const length = 100_000;
    const chain = Array.from({ length }, (_, id) => ({
      ...node,
      children: id + 1 < length ? [{ name: "n", nodeId: id + 1 }] : [],
    }));
    const graph = decodeObjectGraph(encodeObjectGraph(chain), "chain");
    expect(shortestPaths(graph)(length - 1)).toHaveLength(length - 1);
    const [next] = graph[0]!.children;
    expect(new Restoration(graph, undefined as never).graph[next!.nodeId]).toEqual(graph[1]);
  });

  it.each([
    ["a child", [{ ...node, children: [{ name: "a", nodeId: 7 }] }]],
    ["a child before all", [{ ...node, children: [{ name: "a", nodeId: -1 }] }]],
    ["a slot", [{ ...node, children: [], slots: [{ variableId: 0, slotName: "m", nodeId: 1 }] }]],
    ["the root", []],
  ])("name %s that is not there", (_, graph) => {
    expect(() => decodeObjectGraph(encodeObjectGraph(graph), "hostile")).toThrow(CorruptionError);
  });

  it("go in circles", async () => {
    const graph = decodeObjectGraph(encodeObjectGraph([{ ...node, children: [{ name: "a", nodeId: 0 }] }]), "circle");
    const root = new CheckpointRoot({ a: { a: {} } });
    const restoration = new Restoration(graph, { verify: async () => {} } as never);
    await restoration.update(root);
    expect([...restoration.bound.keys()]).toEqual([0]);
  });
});

/** The structure of module_adam_v1opt and module_keras_adam, all zeros. */
function makeModule() {
  const dense = (inputs: number, outputs: number) => ({
    w: tf.variable(tf.zeros([inputs, outputs])),
    b: tf.variable(tf.zeros([outputs])),
  });
  const model = {
    layers: [dense(7, 11), dense(11, 5)],
    table: { emb: tf.variable(tf.zeros([9, 4])), step: new TrackedNumber() },
  };
  const [first, second] = model.layers as [ReturnType<typeof dense>, ReturnType<typeof dense>];
  return { model, first, second, all: [model.table.emb, first.w, first.b, second.w, second.b] };
}

describe("what TensorFlow saved of an optimizer of tf.compat.v1.train", () => {
  const prefix = "module_adam_v1opt/ckpt-1";

  it("comes back in TF.js, slots too", async () => {
    const { model, first, all } = makeModule();
    const optimizer = tf.train.adam(0.01);
    const status = await restore(prefix, { model, optimizer });
    status.assertConsumed();
    expect(values(first.w)).toEqual(await stored(prefix, "model/layers/0/w"));
    expect(values(first.w).some((value) => value !== 0)).toBe(true);
    optimizer.applyGradients(all.map((variable) => ({ name: variable.name, tensor: tf.zeros(variable.shape) })));
    const kept = (optimizer as unknown as { accumulatedFirstMoment: { variable: tf.Variable }[] })
      .accumulatedFirstMoment;
    const m = await stored(prefix, "model/layers/0/w/.OPTIMIZER_SLOT/optimizer/m");
    const decayed = values(kept[1]!.variable);
    for (const [i, value] of m.entries()) expect(decayed[i]).toBeCloseTo(value * 0.9, 6);
    status.assertConsumed();
  });

  it("has the numbers of objects and slots that TF.js gives them", async () => {
    const { model, all } = makeModule();
    const optimizer = tf.train.adam(0.01);
    optimizer.applyGradients(all.map((variable) => ({ name: variable.name, tensor: tf.ones(variable.shape) })));
    const { graph } = await MemoryCheckpoint.of({ model, optimizer, save_counter: new TrackedNumber() });
    expect(withoutNames(graph)).toEqual(withoutNames(decodeObjectGraph(await graphBytes(prefix), prefix)));
  });
});

describe("what TensorFlow saved of Keras 3", () => {
  it("comes back from an optimizer beside a module", async () => {
    const prefix = "module_keras_adam/ckpt-1";
    const { model, first, second } = makeModule();
    const optimizer = tf.train.adam(0.5);
    useKerasLayout(optimizer, [model.table.emb, first.b, first.w, second.b, second.w]);
    (await restore(prefix, { model, optimizer })).assertConsumed();
    expect(values(second.w)).toEqual(await stored(prefix, "optimizer/_trainable_variables/4"));
    const reader = await openCheckpoint(join(FIXTURES, prefix), { files });
    const steps = await (await reader.data("optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE")).read(0, 8);
    await reader.close();
    expect(optimizer.iterations).toBe(steps[0]);
    expect((optimizer as unknown as { learningRate: number }).learningRate).not.toBe(0.5);
  });

  it("comes back from a compiled sequential model", async () => {
    const prefix = "keras_model/ckpt-1";
    const { layers: l } = layers;
    const net = layers.sequential({
      layers: [l.dense({ units: 8, inputShape: [6] }), l.batchNormalization(), l.dense({ units: 3 })],
    });
    (await restore(prefix, { net })).assertExistingObjectsMatched();
    net.compile({ optimizer: tf.train.sgd(0.5), loss: "meanSquaredError" });
    useKerasLayout(net.optimizer, net);
    (await restore(prefix, { net })).assertConsumed();
    expect(values(net.getWeights()[0]!)).toEqual(await stored(prefix, "net/optimizer/_trainable_variables/0"));
    const [movingMean] = net.layers[1]!.getWeights().slice(2);
    expect(values(movingMean!)).toEqual(await stored(prefix, "net/_functional/_operations/2/moving_mean"));
  });
});

describe("objects that have a saver of their own", () => {
  it("are said not to be restored", async () => {
    const hidden = tf.variable(tf.zeros([2]));
    const status = await restore("registered_saver/ckpt", { a: { hidden }, b: tf.variable(tf.zeros([])) });
    expect(() => status.assertConsumed()).toThrow(/saver of their own.*a/);
  });
});

describe("names that TensorFlow escapes", () => {
  it("lead to their objects", async () => {
    const scalar = () => tf.variable(tf.zeros([]));
    const graph = decodeObjectGraph(await graphBytes("names/ckpt-1"), "names/ckpt-1");
    const names = graph[graph[0]!.children.find(({ name }) => name === "d")!.nodeId]!.children.map(({ name }) => name);
    const d = Object.fromEntries(names.map((name) => [name, name === "a" ? { b: scalar() } : scalar()]));
    const alias = scalar();
    const list = [alias, [scalar(), scalar()], [scalar()]];
    (await restore("names/ckpt-1", { d, l: list, alias, other: list })).assertConsumed();
    for (const [name, escaped] of [
      ["a/b", "a.Sb"],
      ["a.b", "a..b"],
      [".S", "..S"],
      ["..", "...."],
    ] as const) {
      expect(values(d[name] as tf.Variable)).toEqual(await stored("names/ckpt-1", `d/${escaped}`));
    }
  });
});
