// A .safetensors file, and the same bytes as the index of a model in several files.
import { readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["safetensors"];
export const only = /\.(safetensors|index\.json)$/;

export async function fuzz(data) {
  const bytes = new Uint8Array(data);
  await readEverything(storeOf({ "x.safetensors": bytes }), "x.safetensors");
  await readEverything(storeOf({ "m/model.safetensors.index.json": bytes }), "m");
}
