import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { sha256Of } from "../../src/codecs/sha256.js";
import { type CheckpointReader, openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { elementBytes } from "../../src/tensor/dtype.js";
import { compareKeys } from "../../src/tensor/key-order.js";
import { regionSource } from "../../src/tensor/region.js";
import type { TensorInfo } from "../../src/tensor/tensor-source.js";
import { checkpointPath, EXPECTED, type ExpectedTensor, keyOf, PREFIXES } from "../support/checkpoint-fixtures.js";
import { readExpected } from "../support/fixtures.js";

const files = new LocalFiles();
const listed = PREFIXES.filter((prefix) => EXPECTED[prefix]?.tensors !== undefined);
const open = (prefix: string): Promise<CheckpointReader> => openCheckpoint(checkpointPath(prefix), { files });

async function infosOf(reader: CheckpointReader): Promise<TensorInfo[]> {
  const infos: TensorInfo[] = [];
  for await (const info of reader.tensors()) infos.push(info);
  return infos;
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const tensorsOf = (prefix: string): ExpectedTensor[] => EXPECTED[prefix]!.tensors!;

describe("a checkpoint of TensorFlow", () => {
  it.each(listed)("%s has the tensors that TensorFlow says, in key order, with its bytes", async (prefix) => {
    const reader = await open(prefix);
    const infos = await infosOf(reader);
    const expected = tensorsOf(prefix)
      .map((tensor) => ({ key: keyOf(tensor), dtype: tensor.dtype, shape: tensor.shape }))
      .sort((a, b) => compareKeys(a.key, b.key));
    expect(
      infos.map(({ key, dtype, shape }) => ({ key, dtype, shape })).sort((a, b) => compareKeys(a.key, b.key)),
    ).toEqual(expected);
    for (const tensor of tensorsOf(prefix)) {
      expect([keyOf(tensor), await sha256Of(await reader.data(keyOf(tensor)))]).toEqual([keyOf(tensor), tensor.sha256]);
    }
    await reader.verify();
    await reader.close();
  });

  it.each(listed)("%s is stored where the index says", async (prefix) => {
    const reader = await open(prefix);
    const { header } = EXPECTED[prefix]!;
    expect(reader.header).toEqual({
      shardCount: header.num_shards,
      isBigEndian: header.endianness === 1,
      producer: header.producer,
      minConsumer: header.min_consumer,
    });
    for (const tensor of tensorsOf(prefix)) {
      const entry = await reader.entry(keyOf(tensor));
      if (tensor.slices === undefined) {
        const { shard, offset, size, crc32c } = tensor;
        expect(entry.stored).toEqual({ shard, offset, size, crc32c });
        continue;
      }
      const spec = (extents: [number, number][]) =>
        extents.map(([start, length]) => (length < 0 ? "-" : `${start},${length}`)).join(":");
      expect(entry.slices.map(({ extents }) => extents)).toEqual(tensor.slices.map(spec));
      for (const { extents, stored } of entry.slices) {
        const slice = EXPECTED[prefix]!.slice_entries!.find(
          (one) => one.of === tensor.key && spec(one.extents) === extents,
        )!;
        expect(stored).toEqual({ shard: slice.shard, offset: slice.offset, size: slice.size, crc32c: slice.crc32c });
      }
    }
    await reader.close();
  });

  it.each(listed)("%s gives the same when all is read at once", async (prefix) => {
    const reader = await open(prefix);
    const found = new Map<string, string>();
    for await (const { info, bytes } of reader.readAll()) {
      expect(found.has(info.key)).toBe(false);
      const width = elementBytes(info.dtype) / (info.dtype.startsWith("complex") ? 2 : 1);
      expect(bytes.byteOffset % Math.max(1, width)).toBe(0);
      found.set(info.key, sha256(bytes));
    }
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(tensorsOf(prefix).map((tensor) => [keyOf(tensor), tensor.sha256])),
    );
    await reader.close();
  });

  it("gives the same whatever the arrays are that its tensors share", async () => {
    for (const prefix of ["all_dtypes/all", "sliced_dtypes/m", "crafted/aligned64"]) {
      const reader = await open(prefix);
      for (const arenaBytes of [1, 100, 3000]) {
        const found = new Map<string, string>();
        for await (const { info, bytes } of reader.readAll({ arenaBytes })) found.set(info.key, sha256(bytes));
        expect(Object.fromEntries(found)).toEqual(
          Object.fromEntries(tensorsOf(prefix).map((tensor) => [keyOf(tensor), tensor.sha256])),
        );
      }
      await reader.close();
    }
  });

  it.each(listed)("%s gives every region as a cut of the whole", async (prefix) => {
    const reader = await open(prefix);
    for (const tensor of tensorsOf(prefix)) {
      const width = elementBytes((await reader.info(keyOf(tensor))).dtype);
      if (width === 0 || tensor.shape.length === 0) continue;
      const whole = await reader.data(keyOf(tensor));
      const region = tensor.shape.map((size, i) => ({
        start: Math.min(size, i === 0 ? 1 : 0),
        end: Math.max(Math.min(size, 1), size - 1),
      }));
      const expected = regionSource(whole, tensor.shape, width, region);
      const actual = await reader.data(keyOf(tensor), region);
      expect(actual.size).toBe(expected.size);
      expect(Buffer.from(await actual.read(0, actual.size))).toEqual(
        Buffer.from(await expected.read(0, expected.size)),
      );
    }
    await reader.close();
  });

  it("has 3,500 tensors and a thousand slices in three blocks of its index", async () => {
    const expected = readExpected<{ tensor_count: number; lines_sha256: string }>("checkpoints/many/many.digest.json");
    const reader = await open("many/many");
    expect(reader.index.table.blocks.length).toBe(3);
    const values = new Map<string, string>();
    for await (const { info, bytes } of reader.readAll()) values.set(info.key, sha256(bytes));
    const hash = createHash("sha256");
    let count = 0;
    for await (const { key, dtype, shape, stored, slices } of reader.entries()) {
      const extents = slices.map(({ extents }) =>
        extents.split(":").map((extent) => (extent === "-" ? [0, -1] : extent.split(",").map(Number))),
      );
      const place = stored
        ? `${stored.shard} ${stored.offset} ${stored.size} ${stored.crc32c}`
        : JSON.stringify(extents);
      hash.update(`${key} ${dtype} ${JSON.stringify(shape)} ${place} ${values.get(key)}\n`);
      count++;
    }
    expect(count).toBe(expected.tensor_count);
    expect(hash.digest("hex")).toBe(expected.lines_sha256);
    await reader.close();
  });
});
