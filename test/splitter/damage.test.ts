import type { DescMessage } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { Merger } from "../../src/splitter/merger.js";
import { SavedModelSplitter } from "../../src/splitter/splitters.js";
import { readFixture } from "../support/fixtures.js";

const FILE = "damaged.cpb";

async function merge(bytes: Uint8Array, schema: DescMessage): Promise<Uint8Array> {
  const files = new MemoryStore([[FILE, bytes]]);
  const merged = await Merger.read(FILE, schema, { files, check: true });
  const source = await merged.toSource();
  const result = new Uint8Array(await source.read(0, source.size));
  await merged.verify();
  await merged.close();
  return result;
}

/** The right bytes, or a typed error that names the file; anything else fails the test. Tells which it was. */
async function outcome(bytes: Uint8Array, schema: DescMessage, right: Uint8Array): Promise<"right" | "error"> {
  try {
    const result = await merge(bytes, schema);
    expect(Buffer.compare(result, right)).toBe(0);
    return "right";
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
    expect(error.file).toBe(FILE);
    return "error";
  }
}

const writtenByCairn = async (): Promise<Uint8Array> => {
  const files = new MemoryStore();
  const model = readFixture("cpb/models/vocab/saved_model.pb");
  await new SavedModelSplitter(model, { maxChunkSize: 2000 }).write("x", { files, compression: "auto" });
  return (await files.open("x.cpb")).read(0, (await files.open("x.cpb")).size);
};

describe.each<[string, DescMessage, () => Promise<Uint8Array>]>([
  ["a split GraphDef", GraphDefSchema, async () => readFixture("cpb/graphdef/lots_of_nodes.cpb")],
  ["a nested tree", SavedModelSchema, async () => readFixture("cpb/trees/vocab_2/saved_model.cpb")],
  ["a file of cairn's own", SavedModelSchema, writtenByCairn],
])("%s", (_, schema, load) => {
  it("with any byte flipped merges to the right bytes or tells what is wrong", async () => {
    const original = await load();
    const right = await merge(original, schema);
    let errors = 0;
    for (let at = 0; at < original.length; at++) {
      const bytes = original.slice();
      bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
      if ((await outcome(bytes, schema, right)) === "error") errors++;
    }
    // Every byte of these files is under a hash.
    expect(errors).toBe(original.length);
  });

  it("cut anywhere tells what is wrong", async () => {
    const original = await load();
    const right = await merge(original, schema);
    for (let length = 0; length < original.length; length++) {
      expect(await outcome(original.subarray(0, length), schema, right)).toBe("error");
    }
  });
});
