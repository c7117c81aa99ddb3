// A small model for trainings that are disturbed: scores of words, of which a few are more than noise.
const WORDS = 60;
const COUNT = 400;

/** Numbers from 0 to 1 by a seed (mulberry32). */
function randomBy(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const random = randomBy(1);
const scores = Array.from({ length: WORDS }, () => random() - 0.5);
const records = Array.from({ length: COUNT + 80 }, () => {
  const words = [0, 1, 2].map(() => Math.floor(random() * WORDS));
  const weight = random();
  return { words, weight, score: words.reduce((sum, word) => sum + scores[word], 0) + weight };
});

async function read(start, end) {
  // Long enough a training to be killed in the middle of it.
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.CAIRN_TEST_READ_MS ?? 150)));
  const part = records.slice(start, end);
  return {
    inputs: {
      words: { values: part.flatMap(({ words }) => words.map((word) => word - 20)), rowShape: [3] },
      weight: { values: part.map(({ weight }) => weight), rowShape: [1] },
    },
    labels: part.map(({ score }) => score),
  };
}

export default {
  embeddings: [{ table: "words", dim: 4, initializer: "uniform", input: "words" }],
  model(tf) {
    const words = tf.input({ shape: [3, 4], name: "words" });
    const weight = tf.input({ shape: [1], name: "weight" });
    const flat = tf.layers.flatten({ name: "flat" }).apply(words);
    const all = tf.layers.concatenate({ name: "all" }).apply([flat, weight]);
    const score = tf.layers.dense({ units: 1, name: "score" }).apply(all);
    return tf.model({ inputs: [words, weight], outputs: score });
  },
  loss: ({ tf, labels, output }) => tf.losses.meanSquaredError(tf.reshape(labels, output.shape), output),
  optimizer: { type: "Adam", args: { learning_rate: 0.05 } },
  data: {
    training: { size: COUNT, read },
    evaluation: { size: 80, read: (start, end) => read(COUNT + start, COUNT + end) },
    prediction: { size: 5, read: async (start, end) => ({ inputs: (await read(start, end)).inputs }) },
  },
  metrics: ["mse", "mae"],
};
