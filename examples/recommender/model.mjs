// Matrix factorization: how much a user will like an item, learned from ratings. Users and items are rows of embedding
// tables on the parameter servers; a small dense layer corrects for the rest.
import { makeRatings } from "./ratings.mjs";

const USERS = 100;
const ITEMS = 60;
const ratings = makeRatings({ users: USERS, items: ITEMS, count: 10_000, seed: 1 });
const TRAINING = 9_000;

/** The ratings from `start` to `end` as columns. */
function read(start, end) {
  const part = ratings.slice(start, end);
  return {
    inputs: { user: part.map(({ user }) => user), item: part.map(({ item }) => item) },
    labels: part.map(({ rating }) => rating),
  };
}

export default {
  name: "recommender",
  embeddings: [
    { table: "users", dim: 8, initializer: "uniform(-0.5, 0.5)", input: "user" },
    { table: "items", dim: 8, initializer: "uniform(-0.5, 0.5)", input: "item" },
  ],
  model(tf) {
    const user = tf.input({ shape: [8], name: "user" });
    const item = tf.input({ shape: [8], name: "item" });
    const match = tf.layers.dot({ axes: 1, name: "match" }).apply([user, item]);
    const both = tf.layers.concatenate({ name: "both" }).apply([user, item, match]);
    const rating = tf.layers.dense({ units: 1, name: "rating" }).apply(both);
    return tf.model({ inputs: [user, item], outputs: rating });
  },
  loss: ({ tf, labels, output }) => tf.losses.meanSquaredError(tf.reshape(labels, output.shape), output),
  optimizer: { type: "Adam", args: { learning_rate: 0.03 } },
  data: {
    training: { size: TRAINING, read },
    evaluation: { size: ratings.length - TRAINING, read: (start, end) => read(TRAINING + start, TRAINING + end) },
    prediction: { size: 20, read: (start, end) => ({ inputs: read(TRAINING + start, TRAINING + end).inputs }) },
  },
  metrics: ["rmse", "mae"],
};
