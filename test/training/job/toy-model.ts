import type { Batch, LossArguments } from "../../../src/training/model/model-definition.js";
import type { Tf, TfTensor } from "../../../src/training/model/tfjs.js";

const WORDS = 12;

/** Made of the record's number alone. */
function record(i: number) {
  const words = [i % WORDS, (i * 7) % WORDS];
  return { words, weight: Math.sin(i), score: words.reduce((sum, word) => sum + Math.cos(word), 0) + Math.sin(i) };
}

function read(start: number, end: number): Batch & { labels: number[] } {
  const records = Array.from({ length: end - start }, (_, i) => record(start + i));
  return {
    inputs: {
      words: { values: records.flatMap(({ words }) => words), rowShape: [2] },
      weight: { values: records.map(({ weight }) => weight), rowShape: [1] },
    },
    labels: records.map(({ score }) => score),
  };
}

/** A small definition with an embedding table, whose data are made on the fly. */
export const TOY = {
  embeddings: [{ table: "words", dim: 2, input: "words" }],
  model(tf: Tf) {
    const words = tf.input({ shape: [2, 2], name: "words" });
    const weight = tf.input({ shape: [1], name: "weight" });
    const flat = tf.layers.flatten({ name: "flat" }).apply(words) as never;
    const all = tf.layers.concatenate({ name: "all" }).apply([flat, weight as never]);
    const score = tf.layers.dense({ units: 1, name: "score" }).apply(all) as never;
    return tf.model({ inputs: [words, weight], outputs: score });
  },
  loss({ tf, labels, output }: LossArguments): TfTensor {
    return tf.losses.meanSquaredError(tf.reshape(labels, output.shape as number[]), output);
  },
  optimizer: { type: "Adam", args: { learning_rate: 0.05 } },
  data: { training: { size: 40, read }, evaluation: { size: 10, read } },
  metrics: ["mse"],
};
