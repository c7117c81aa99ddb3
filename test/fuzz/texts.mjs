// Small languages that people write: slice specs, renames, globs, paths into messages.

import { parseRename, renamed } from "../../dist/ops/rename.js";
import { globMatcher } from "../../dist/ops/tensors.js";
import { parseMessagePath } from "../../dist/proto/index.js";
import { parseSliceSpec } from "../../dist/tensor/slice-spec.js";
import { allowed } from "./read-everything.mjs";

export const seeds = [];
export const texts = [
  "4 4 0,2:-",
  "/(a+)b/=$1",
  "dense/*=layer_?",
  'meta_graphs[0].graph_def.node[1].attr["value"]',
  "*a*b?c",
];

export async function fuzz(data) {
  const text = new TextDecoder().decode(new Uint8Array(data).subarray(0, 300));
  await allowed(() => parseSliceSpec(text));
  // An expression of the user's own may take its time: only rules without one are run.
  if (!text.startsWith("/")) await allowed(() => renamed("dense/kernel/of/a/layer", [parseRename(text)]));
  await allowed(() => globMatcher(text)("dense/kernel/of/a/layer"));
  await allowed(() => parseMessagePath(text));
}
