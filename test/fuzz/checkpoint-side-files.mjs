// What stands beside a checkpoint: the state file, the description of its sharding, the journal of a replacement, and the
// object graph.
import { openCheckpoint } from "../../dist/formats/checkpoint/public.js";
import { decodeObjectGraph, shortestPaths } from "../../dist/proto/object-graph.js";
import { allowed, joinParts, partsOf, readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["checkpoints/manager"];
export const only = /\/checkpoint$/;
const text = (value) => new TextEncoder().encode(value);

/** Of a state file as seed: with the others beside it. */
export function seedFrom(file) {
  const journal = '{"cairnSwap":1,"moves":[{"from":".x.index.cairn-0123456789abcdef.new","to":"x.index"}]}\n';
  const sidecar = '{"cairn":"0.1.0","description":"d","shards":[{"task":"","bytes":1,"tensors":1,"slices":1}]}\n';
  return joinParts([file, text(journal), text(sidecar), Uint8Array.of(10, 4, 10, 2, 8, 1)]);
}

export async function fuzz(data) {
  const [state, journal, sidecar, graph] = partsOf(data, 4);
  const files = storeOf({
    "d/checkpoint": state,
    "d/.x.cairn-swap.json": journal,
    "d/x.cairn.json": sidecar,
    "d/x.index": new Uint8Array(48),
  });
  await readEverything(files, "d");
  await allowed(() => openCheckpoint("d/x", { files }));
  await allowed(() => {
    const nodes = decodeObjectGraph(graph, "x");
    const path = shortestPaths(nodes);
    for (let id = 0; id < Math.min(nodes.length, 100); id++) path(id);
  });
}
