// A small classifier of flowers by four measures of theirs, made by a seed: two dense layers, no embedding tables.
import { makeFlowers } from "./flowers.mjs";

const flowers = makeFlowers({ count: 1500, seed: 1 });
const TRAINING = 1200;

/** The flowers from `start` to `end` as columns: measures, and the number of the kind. */
function read(start, end) {
  const part = flowers.slice(start, end);
  return {
    inputs: { measures: { values: part.flatMap(({ measures }) => measures), rowShape: [4] } },
    labels: part.map(({ kind }) => kind),
  };
}

export default {
  name: "classifier",
  model(tf) {
    const measures = tf.input({ shape: [4], name: "measures" });
    const hidden = tf.layers.dense({ units: 16, activation: "relu", name: "hidden" }).apply(measures);
    const kinds = tf.layers.dense({ units: 3, activation: "softmax", name: "kinds" }).apply(hidden);
    return tf.model({ inputs: measures, outputs: kinds });
  },
  loss({ tf, labels, output }) {
    const wanted = tf.oneHot(tf.cast(labels, "int32"), 3);
    return tf.neg(tf.mean(tf.sum(tf.mul(wanted, tf.log(tf.add(output, 1e-7))), -1)));
  },
  optimizer: { type: "Adam", args: { learning_rate: 0.01 } },
  data: {
    training: { size: TRAINING, read },
    evaluation: { size: flowers.length - TRAINING, read: (start, end) => read(TRAINING + start, TRAINING + end) },
    prediction: { size: 10, read: (start, end) => ({ inputs: read(TRAINING + start, TRAINING + end).inputs }) },
  },
  metrics: ["accuracy"],
};
