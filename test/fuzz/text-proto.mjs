// A proto in text format.
import { readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["text-format"];

export async function fuzz(data) {
  await readEverything(storeOf({ "m/saved_model.pbtxt": new Uint8Array(data) }), "m");
  await readEverything(storeOf({ "graph.pbtxt": new Uint8Array(data) }), "graph.pbtxt");
}
