// A split model: its file as it is, and merged.

import { SavedModelSchema } from "../../dist/proto/tensorflow.js";
import { Merger } from "../../dist/splitter/index.js";
import { allowed, readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["cpb/handmade", "cpb/cpb", "cpb/trees", "cpb/graphdef"];

export async function fuzz(data) {
  const files = storeOf({ "x.cpb": new Uint8Array(data) });
  await readEverything(files, "x.cpb");
  await allowed(async () => {
    const merged = await Merger.read("x.cpb", SavedModelSchema, { files, check: true });
    const source = await merged.toSource();
    await source.read(0, Math.min(source.size, 1 << 20));
    await merged.close();
  });
}
