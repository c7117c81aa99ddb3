// The index of a checkpoint as it is, before a data file of zeros.
import { readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["checkpoints"];
export const only = /\.index$/;

export async function fuzz(data) {
  const files = storeOf({ "d/x.index": new Uint8Array(data), "d/x.data-00000-of-00001": new Uint8Array(4096) });
  await readEverything(files, "d/x");
}
