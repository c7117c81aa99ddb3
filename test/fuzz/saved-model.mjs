// A SavedModel proto.
import { readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["cpb/models/tiny", "cpb/models/frozen", "cpb/models/floatval", "cpb/models/vocab"];

export async function fuzz(data) {
  await readEverything(storeOf({ "m/saved_model.pb": new Uint8Array(data) }), "m");
  await readEverything(storeOf({ "graph.pb": new Uint8Array(data) }), "graph.pb");
}
