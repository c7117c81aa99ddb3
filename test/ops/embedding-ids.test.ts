import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { embeddingFrom } from "../../src/ops/embedding-ids.js";
import { CountingSource } from "../support/counting-source.js";
import { MemoryTensors, tensorOf } from "../support/memory-tensors.js";

class CountedTensors extends MemoryTensors {
  readonly sources: CountingSource[] = [];

  override async data(key: string) {
    const source = new CountingSource(await super.data(key));
    this.sources.push(source);
    return source;
  }
}

async function idsOf(values: readonly bigint[], limit: number) {
  const bytes = new Uint8Array(BigInt64Array.from(values).buffer);
  const tensors = new CountedTensors({ "t.ids": tensorOf("int64", [values.length], bytes) });
  const embedding = embeddingFrom(tensors, await tensors.info("t.ids"), undefined);
  const batches: bigint[][] = [];
  for await (const ids of embedding.idBatches(limit)) batches.push(Array.from(ids));
  return { batches, tensors };
}

describe("ids beside a table", () => {
  it("come in batches, in the order of the rows", async () => {
    expect((await idsOf([-5n, 1n, 2n ** 60n], 2)).batches).toEqual([[-5n, 1n], [2n ** 60n]]);
    expect((await idsOf([7n, 1n, 3n], 2)).batches).toEqual([[7n, 1n], [3n]]);
    expect((await idsOf([], 2)).batches).toEqual([]);
  });

  it("are read in batches while they are looked at too, when they ascend", async () => {
    const { tensors } = await idsOf(
      Array.from({ length: 200_000 }, (_, i) => BigInt(i)),
      100_000,
    );
    expect(tensors.sources.map(({ reads, bytes }) => [reads, bytes])).toEqual([
      [4, 1_600_000],
      [2, 1_600_000],
    ]);
  });

  it("are refused when one comes twice, side by side or not", async () => {
    for (const values of [
      [1n, 1n],
      [4n, 2n, 4n],
    ]) {
      await expect(idsOf(values, 2)).rejects.toSatisfy((error) => isCairnError(error, "tensor-data"));
    }
  });
});
