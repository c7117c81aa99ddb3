import { beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CHECKED_TENSOR_BYTES, checkPart } from "../../src/ops/check-part.js";
import { getTensor } from "../../src/ops/get.js";
import { openTensors } from "../../src/ops/tensors.js";
import { SavedModelSplitter } from "../../src/splitter/splitters.js";
import type { TensorSource } from "../../src/tensor/tensor-source.js";
import { readFixture } from "../support/fixtures.js";

/** Rows 1000 and 1001 of Const_2, which is float32 [4000, 8]. */
const REGION = "1000:1002,:";

describe("a part of a tensor in a chunk that is stored raw", () => {
  let good: Uint8Array;
  let start: number;
  beforeAll(async () => {
    const files = new MemoryStore();
    const model = readFixture("cpb/models/bigconst/saved_model.pb");
    await new SavedModelSplitter(model, { maxChunkSize: 20_000 }).write("m", { files, compression: "none" });
    const source = await files.open("m.cpb");
    good = new Uint8Array(await source.read(0, source.size));
    const { tensors } = await openTensors(files, "m.cpb");
    const { data } = await getTensor(tensors, "Const_2", "0:1,:");
    start = Buffer.from(good).indexOf(await data.read(0, data.size));
    await tensors.close();
  });

  async function withFlip<Result>(at: number, work: (tensors: TensorSource) => Promise<Result>): Promise<Result> {
    const bytes = good.slice();
    bytes[at] = (bytes[at] as number) ^ 1;
    const { tensors } = await openTensors(new MemoryStore([["m.cpb", bytes]]), "m.cpb");
    try {
      return await work(tensors);
    } finally {
      await tensors.close();
    }
  }

  it.each([
    ["inside the part", 1000 * 32 + 5],
    ["before it", 40],
    ["behind it", 2500 * 32],
  ])("is refused when a byte is wrong %s", async (_, offset) => {
    await withFlip(start + offset, async (tensors) => {
      const check = checkPart(tensors, await tensors.info("Const_2"));
      await expect(check).rejects.toMatchObject({ code: "chunk-data", file: "m.cpb" });
    });
  });

  it("is not checked by reading it alone: that reads only its bytes", async () => {
    await withFlip(start + 40, async (tensors) => {
      const { data } = await getTensor(tensors, "Const_2", REGION);
      expect((await data.read(0, data.size)).length).toBe(64);
    });
  });

  it("is good when another tensor is damaged", async () => {
    await withFlip(start + 40, async (tensors) => {
      expect(await checkPart(tensors, await tensors.info("Const_1"))).toBe(true);
    });
  });
});

describe("a part of a large tensor", () => {
  const reads: string[] = [];
  const info = { key: "w", dtype: "uint8", shape: [4], byteLength: CHECKED_TENSOR_BYTES + 1 } as const;
  const source: Pick<TensorSource, "data" | "verify"> = {
    data: async (key) => {
      reads.push(key);
      return (await new MemoryStore([["x", new Uint8Array(4)]]).open("x")) as never;
    },
    verify: async () => void reads.push("verify"),
  };

  it("is left alone, and said to be, unless it is asked for", async () => {
    expect(await checkPart(source as TensorSource, info)).toBe(false);
    expect(reads).toEqual([]);
    expect(await checkPart(source as TensorSource, info, { always: true })).toBe(true);
    expect(reads).toEqual(["w", "verify"]);
  });

  it("is checked from the very limit down", async () => {
    const { byteLength } = { byteLength: CHECKED_TENSOR_BYTES };
    expect(await checkPart(source as TensorSource, { ...info, byteLength })).toBe(true);
  });
});
