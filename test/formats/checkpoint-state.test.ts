import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import {
  formatCheckpointState,
  latestCheckpoint,
  parseCheckpointState,
  resolveCheckpointPath,
} from "../../src/formats/checkpoint/checkpoint-state.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { fixturePath, readFixture } from "../support/fixtures.js";

const FIXTURES = [
  "keras_model",
  "manager/hours",
  "manager/mgr",
  "manager/named",
  "v1_saver_partitioned/sharded",
  "v1_saver_partitioned/single",
].map((folder) => `checkpoints/${folder}/checkpoint`);
const read = (path: string): string => new TextDecoder().decode(readFixture(path));
const parse = (text: string) => parseCheckpointState(text, "checkpoint");
const bytes = (text: string) => new TextEncoder().encode(text);

describe("the checkpoint state file", () => {
  it.each(FIXTURES)("%s is written again as TensorFlow wrote it", (path) => {
    expect(formatCheckpointState(parse(read(path)))).toBe(read(path));
  });

  it("tells paths and times", () => {
    expect(parse(read("checkpoints/manager/named/checkpoint"))).toEqual({
      modelCheckpointPath: "model-250",
      allModelCheckpointPaths: ["model-7", "model-250"],
      allModelCheckpointTimestamps: [1795226658.8861148, 1795226658.9124177],
      lastPreservedTimestamp: 1795226657.8408844,
    });
  });

  it("understands every form of the text format: lists, quotes, comments, escapes, strings in parts", () => {
    const text = `# made by hand\nmodel_checkpoint_path: 'a"\\303\\274\\n' "b\\x41"; all_model_checkpoint_paths: ["x", 'y'],
      all_model_checkpoint_timestamps: [1, 2.5e3, .5f] last_preserved_timestamp: -inf unknown: 7`;
    expect(parse(text)).toEqual({
      modelCheckpointPath: 'a"ü\nbA',
      allModelCheckpointPaths: ["x", "y"],
      allModelCheckpointTimestamps: [1, 2500, 0.5],
      lastPreservedTimestamp: Number.NEGATIVE_INFINITY,
    });
  });

  it("gives doubles the shortest form with a point or an exponent", () => {
    const times = [1700012000, 1e20, 0, 1.5, 1e-7, 123456789012345680];
    const text = formatCheckpointState({ allModelCheckpointPaths: [], allModelCheckpointTimestamps: times });
    expect(text.match(/: .*/g)).toEqual([
      ": 1700012000.0",
      ": 1e+20",
      ": 0.0",
      ": 1.5",
      ": 1e-07",
      ": 1.2345678901234568e+17",
    ]);
  });

  it("gives back what was written, whatever the paths are", () => {
    const state = fc.record({
      modelCheckpointPath: fc.string({ unit: "binary" }),
      allModelCheckpointPaths: fc.array(fc.string({ unit: "binary" })),
      allModelCheckpointTimestamps: fc.array(fc.double({ noNaN: true }).map((time) => time + 0)),
      lastPreservedTimestamp: fc.option(fc.integer(), { nil: undefined }),
    });
    fc.assert(fc.property(state, (one) => void expect(parse(formatCheckpointState(one))).toEqual(one)));
  });

  it.each([
    ["model_checkpoint_path", 21, '":"'],
    ['model_checkpoint_path: "a', 25, "end of a string"],
    ["model_checkpoint_path: 7", 24, "a value of model_checkpoint_path"],
    ['last_preserved_timestamp: "x"', 29, "a value of"],
    ['model_checkpoint_path: "\\q"', 25, "an escape"],
    ["all_model_checkpoint_timestamps: 1..2", 37, "a value"],
    ["{}", 0, "a field"],
  ])("says where %j cannot be read", (text, offset, expected) => {
    let error: unknown;
    try {
      parse(text);
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ code: "invalid-text", file: "checkpoint", offset });
    expect(String((error as { expected: string }).expected)).toContain(expected.replace("end of", "the end of"));
  });

  it("never fails otherwise", () => {
    const original = read("checkpoints/manager/mgr/checkpoint");
    fc.assert(
      fc.property(fc.nat(original.length), fc.string({ maxLength: 3 }), (at, more) => {
        try {
          parse(original.slice(0, at) + more + original.slice(at + more.length));
        } catch (error) {
          expect(error).toMatchObject({ code: "invalid-text" });
        }
      }),
    );
  });
});

describe("the latest checkpoint", () => {
  it("is what the state file names, beside it or elsewhere", async () => {
    const folder = fixturePath("checkpoints/manager/mgr");
    expect(await latestCheckpoint(new LocalFiles(), folder)).toBe(`${folder}/ckpt-5`);
    expect(resolveCheckpointPath("ckpt-5", "dir")).toBe("dir/ckpt-5");
    expect(resolveCheckpointPath("/dir/ckpt-5", "other")).toBe("/dir/ckpt-5");
    expect(resolveCheckpointPath("s3://b/ckpt-5", "other")).toBe("s3://b/ckpt-5");
  });

  it("is none when it is not there, or the state file is not or cannot be read", async () => {
    const state = bytes('model_checkpoint_path: "ckpt-1"\n');
    expect(await latestCheckpoint(new MemoryStore([["d/checkpoint", state]]), "d")).toBeUndefined();
    expect(await latestCheckpoint(new MemoryStore([["d/ckpt-1.index", state]]), "d")).toBeUndefined();
    const bad = new MemoryStore([
      ["d/checkpoint", bytes("model_checkpoint_path")],
      ["d/ckpt-1.index", state],
    ]);
    expect(await latestCheckpoint(bad, "d")).toBeUndefined();
  });
});
