// Checkpoints of TF.js and of TensorFlow, each restored by the other; structures.py makes the same objects.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import * as layers from "@tensorflow/tfjs-layers";
import {
  Checkpoint,
  MaxShardSizePolicy,
  mergeCheckpoints,
  placeOn,
  TrackedNumber,
  useKerasLayout,
} from "cairn/checkpoint";
import { localFiles as files } from "cairn/node";

const { layers: l } = layers;
const recurrent = { recurrentInitializer: "glorotNormal", returnSequences: true };

const OPTIMIZERS = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.1, 0.9),
  nesterov: () => tf.train.momentum(0.1, 0.9, true),
  adam: () => tf.train.adam(0.05),
  adamax: () => tf.train.adamax(0.05),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.5, 0.9),
  rmsprop: () => tf.train.rmsprop(0.05, 0.9, 0.5),
  "rmsprop centered": () => tf.train.rmsprop(0.05, 0.9, 0.5, undefined, true),
};
/** What TF.js computes otherwise than Keras: Adadelta with the sums before the step, and where epsilon stands when centered. */
const OTHER_STEPS = ["adadelta", "rmsprop centered"];
const KERAS_OPTIMIZERS = Object.keys(OPTIMIZERS).filter((name) => name !== "momentum" && name !== "nesterov");

/** TF.js's lists of what optimizers keep, by the slot's name in TensorFlow. */
const SLOTS = {
  accumulations: "momentum",
  accumulatedFirstMoment: "m",
  accumulatedSecondMoment: "v",
  accumulatedWeightedInfNorm: "v",
  accumulatedMeanGrads: "mg",
  accumulatedMoments: "momentum",
  accumulatedMeanSquares: "rms",
};
const SLOTS_BY_NAME = {
  adagrad: { accumulatedGrads: "accumulator" },
  adadelta: { accumulatedGrads: "accum", accumulatedUpdates: "accum_update" },
};

class Net {
  w = tf.variable(tf.randomNormal([3, 4], 0, 1, "float32", 1));
  b = tf.variable(tf.zeros([4]));
  w2 = tf.variable(tf.randomNormal([4, 1], 0, 1, "float32", 2));

  get named() {
    return { w: this.w, b: this.b, w2: this.w2 };
  }

  checkpointChildren() {
    return Object.entries(this.named);
  }

  /** One step for each gradient, as train_net of structures.py has it. */
  train(optimizer, steps) {
    for (let step = 0; step < steps; step++) {
      tf.tidy(() =>
        optimizer.applyGradients(
          Object.values(this.named).map((variable, i) => ({
            name: variable.name,
            tensor: tf.fill(variable.shape, 0.1 * (step + 1) + i),
          })),
        ),
      );
    }
  }
}

/** What a net and its optimizer hold, by the names that values_of of structures.py gives. */
function valuesOf(kind, net, optimizer) {
  const values = {};
  const add = (name, variable) => {
    values[name] = [...variable.dataSync()];
  };
  for (const [name, variable] of Object.entries(net.named)) add(name, variable);
  for (const [property, slot] of Object.entries(SLOTS_BY_NAME[kind] ?? SLOTS)) {
    for (const [i, entry] of (optimizer[property] ?? []).entries())
      add(`${slot} of ${Object.keys(net.named)[i]}`, entry.variable);
  }
  if (optimizer.accBeta1) add("beta1_power", optimizer.accBeta1);
  if (optimizer.accBeta2) add("beta2_power", optimizer.accBeta2);
  return values;
}

const MODELS = {
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
    return layers.model({ inputs: input, outputs: l.dense({ units: 2 }).apply(l.dense({ units: 3 }).apply(input)) });
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
        l.bidirectional({ layer: l.lstm({ units: 2, ...recurrent }), mergeMode: "concat" }),
        l.timeDistributed({ layer: l.dense({ units: 2 }) }),
        l.simpleRNN({ units: 2, recurrentInitializer: "glorotNormal" }),
      ],
    }),
};

function compiledModel(kind) {
  const model = layers.sequential({
    layers: [l.dense({ units: 3, inputShape: [4], activation: "tanh" }), l.batchNormalization(), l.dense({ units: 1 })],
  });
  model.compile({ optimizer: OPTIMIZERS[kind](), loss: "meanSquaredError" });
  useKerasLayout(model.optimizer, model);
  return model;
}

const weightsOf = (model) => model.getWeights().map((weight) => [...weight.dataSync()]);
async function trainModel(model, x, epochs) {
  await model.fit(x, tf.ones([8, 1]), { epochs, batchSize: 32, shuffle: false, verbose: 0 });
}

/** The same in small shards, and as the parts that two tasks wrote, merged. */
async function shardedCases(cases, work) {
  const [net, optimizer, step] = [new Net(), tf.train.adam(0.05), new TrackedNumber(3)];
  net.train(optimizer, 3);
  const worker = "/job:worker/replica:0/task:1";
  placeOn(net.w, worker);
  const checkpoint = new Checkpoint({ net, optimizer, step }, { files });
  const shardingCallback = new MaxShardSizePolicy({ maxShardSize: 24 });
  const small = await checkpoint.save(join(work, "js small"), { shardingCallback });
  const parts = [join(work, "js part 0"), join(work, "js part 1")];
  await checkpoint.write(parts[0], { task: worker });
  await checkpoint.write(parts[1], { task: "/job:localhost" });
  const merged = join(work, "js merged");
  await mergeCheckpoints(files, parts, merged);
  const values = valuesOf("adam", net, optimizer);
  for (const path of [small, merged]) {
    cases.push({
      kind: "restores_slots",
      name: `TensorFlow restores ${path}`,
      optimizer: "adam",
      path,
      values,
      step: 3,
    });
  }
}

/** Checkpoints that TF.js wrote; TensorFlow restores them in restore_checkpoints.py. */
export async function checkpointCases(cases, work) {
  await tf.setBackend("cpu");
  for (const [kind, make] of Object.entries(OPTIMIZERS)) {
    const [net, optimizer, step] = [new Net(), make(), new TrackedNumber(3)];
    net.train(optimizer, 3);
    const path = await new Checkpoint({ net, optimizer, step }, { files }).save(join(work, `js slots ${kind}`));
    const values = valuesOf(kind, net, optimizer);
    cases.push({
      kind: "restores_slots",
      name: `TensorFlow restores ${kind} of TF.js`,
      optimizer: kind,
      path,
      values,
      step: 3,
    });
  }
  await shardedCases(cases, work);
  for (const [name, make] of Object.entries(MODELS)) {
    const model = make();
    const path = await new Checkpoint({ model }, { files }).write(join(work, `js model ${name}`));
    cases.push({
      kind: "restores_model",
      name: `Keras restores a model of TF.js: ${name}`,
      model: name,
      path,
      weights: weightsOf(model),
    });
  }
  for (const kind of KERAS_OPTIMIZERS) {
    const model = compiledModel(kind);
    const x = tf.tensor(
      Array.from({ length: 32 }, (_, i) => (i - 16) / 16),
      [8, 4],
    );
    // Where a gradient is zero, TF.js's centered RMSProp gives NaN: it is saved as it begins.
    if (kind !== "rmsprop centered") await trainModel(model, x, 3);
    const path = await new Checkpoint({ model }, { files }).save(join(work, `js keras ${kind}`));
    const weights = weightsOf(model);
    let next = null;
    if (!OTHER_STEPS.includes(kind)) {
      await trainModel(model, x, 1);
      next = weightsOf(model);
    }
    const name = `Keras restores a compiled model of TF.js: ${kind}`;
    cases.push({ kind: "restores_keras", name, optimizer: kind, path, weights, x: await x.array(), next });
  }
}

function compare(found, wanted, tolerance = 0) {
  const names = Object.keys(wanted);
  if (Object.keys(found).length !== names.length) return `${Object.keys(found)} for ${names}`;
  for (const name of names) {
    const isClose = (value, i) => Math.abs(value - Math.fround(wanted[name][i])) <= tolerance * (1 + Math.abs(value));
    if (found[name].length !== wanted[name].length || !found[name].every(isClose)) {
      return `${name}: ${found[name].slice(0, 4)} for ${wanted[name].slice(0, 4)}`;
    }
  }
  return null;
}

async function restoreSlots(kind, { path, values }) {
  const [net, optimizer, step] = [new Net(), OPTIMIZERS[kind](), new TrackedNumber(0)];
  net.train(optimizer, 1);
  (await new Checkpoint({ net, optimizer, step }, { files }).restore(path)).assertConsumed();
  return step.value === 3 ? compare(valuesOf(kind, net, optimizer), values) : `step ${step.value}`;
}

async function restoreModel(name, { path, weights }) {
  const model = MODELS[name]();
  (await new Checkpoint({ model }, { files }).restore(path)).assertConsumed();
  return compare(weightsOf(model), weights);
}

async function restoreKeras(kind, { path, weights, x, predictions, iterations, next }) {
  const model = compiledModel(kind);
  (await new Checkpoint({ model }, { files }).restore(path)).assertConsumed();
  if (model.optimizer.iterations !== iterations) return `${model.optimizer.iterations} iterations for ${iterations}`;
  const given = tf.tensor(x);
  const predicted = [[...model.predict(given).dataSync()]];
  const problem = compare(weightsOf(model), weights) ?? compare(predicted, [predictions], 1e-5);
  if (problem !== null) return problem;
  if (OTHER_STEPS.includes(kind)) return null;
  await trainModel(model, given, 1);
  return compare(weightsOf(model), next, 2e-4);
}

/** Restores checkpoints that TensorFlow wrote; gives one result a case. */
export async function restoreResults(python, here, work) {
  await tf.setBackend("cpu");
  const folder = join(work, "tensorflow");
  mkdirSync(folder, { recursive: true });
  const run = spawnSync(python, [join(here, "write_checkpoints.py"), folder], { encoding: "utf8" });
  if (run.status !== 0) return [{ name: "TensorFlow writes checkpoints", problem: run.stderr.slice(-1000) }];
  const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
  const results = [];
  for (const [group, restore] of Object.entries({ slots: restoreSlots, models: restoreModel, keras: restoreKeras })) {
    for (const [name, one] of Object.entries(expected[group])) {
      const problem = await restore(name, one).catch((error) => `${error.name}: ${error.message}`);
      results.push({ name: `TF.js restores ${group} of TensorFlow: ${name}`, problem });
    }
  }
  return results;
}
