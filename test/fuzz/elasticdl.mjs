// A shard of a training checkpoint, alone and as the only one of a version; and the record of its metrics.
import { parseMetrics } from "../../dist/formats/elasticdl/metrics.js";
import { allowed, readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["elasticdl"];
export const only = /\.ckpt$/;

export async function fuzz(data) {
  const bytes = new Uint8Array(data);
  await readEverything(storeOf({ "ckpt/version-1/variables-0-of-1.ckpt": bytes }), "ckpt");
  await readEverything(storeOf({ "model_v1.chkpt": bytes }), "model_v1.chkpt");
  await allowed(() => parseMetrics(new TextDecoder().decode(bytes), "x"));
}
