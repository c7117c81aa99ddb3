// Requests that a parameter server takes from strangers, and answers that a worker takes from one.
import * as decode from "../../dist/training/decode-messages.js";
import { parseInitializer } from "../../dist/training/initializers.js";
import { parseOptimizer } from "../../dist/training/optimizers.js";
import { allowed } from "./read-everything.mjs";

export const seeds = ["elasticdl"];
export const only = /\.ckpt$/;

export async function fuzz(data) {
  const bytes = new Uint8Array(data);
  for (const one of Object.values(decode)) await allowed(() => one(bytes));
  const text = new TextDecoder().decode(bytes.subarray(0, 200));
  await allowed(() => parseInitializer(text, 4));
  await allowed(() => parseOptimizer("Adam", text));
  await allowed(() => parseOptimizer("SGD", text));
}
