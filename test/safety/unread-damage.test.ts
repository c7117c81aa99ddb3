import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { openSafetensors, saveSafetensors } from "../../src/formats/safetensors/public.js";
import { planConversion } from "../../src/ops/convert.js";
import { MaxShardSizePolicy } from "../../src/sharding/index.js";
import { planWith } from "./writers.js";

async function bytesOf(files: MemoryStore, path: string): Promise<Uint8Array> {
  const source = await files.open(path);
  return (await source.read(0, source.size)).slice();
}

describe("damage that nothing reads in order", () => {
  it("is found when tensors are cut on the way to another format, and nothing is written", async () => {
    const made = new MemoryStore();
    const size = 40_000;
    const { shards, ...plan } = planWith(1, 1);
    const [slice] = shards[0]!.slices;

    const data = async () => new MemorySource(new Uint8Array(size * 4));
    const tensor = { dtype: "float32", shape: [200, 200], byteLength: size * 4, data } as const;
    const region = [200, 200].map((end) => ({ start: 0, end }));
    await writeCheckpoint(made, "in/c", {
      ...plan,
      shards: [{ task: "", slices: [{ ...slice!, tensor, fullShape: [200, 200], region }] }],
    });
    const path = "in/c.data-00000-of-00001";
    const damaged = await bytesOf(made, path);
    damaged[100_001]! ^= 4;
    const files = new MemoryStore([
      ["in/c.index", await bytesOf(made, "in/c.index")],
      [path, damaged],
    ]);
    const callback = new MaxShardSizePolicy({ maxShardSize: 30_000 });
    const conversion = await planConversion(
      { files, path: "in/c" },
      { files, path: "out/c" },
      { to: "checkpoint", callback },
    );
    await expect(conversion.write()).rejects.toMatchObject({ code: "tensor-checksum" });
    await conversion.close();
    expect((await files.list("")).map((entry) => entry.path)).toEqual(["in"]);
  });

  it("is found when a safetensors file lacks one byte, before it is read", async () => {
    const made = new MemoryStore();
    const tensor = { dtype: "float32", shape: [4], data: new Uint8Array(16) } as const;
    await saveSafetensors("x.safetensors", [["a", tensor]], { files: made });
    const bytes = await bytesOf(made, "x.safetensors");
    const files = new MemoryStore([["x.safetensors", bytes.slice(0, -1)]]);
    const model = await openSafetensors("x.safetensors", { files });
    const wanted = { code: "truncated", expected: "16 bytes", actual: "15 bytes" };
    await expect(model.data("a")).rejects.toMatchObject(wanted);
    await model.close();
  });
});
