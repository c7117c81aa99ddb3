import { describe, expect, it } from "vitest";
import type { FileStore } from "../../../src/bytes/file-store.js";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { safetensorsFormat } from "../../../src/formats/safetensors/index.js";
import { openSafetensors } from "../../../src/formats/safetensors/public.js";
import { verify } from "../../../src/ops/verify.js";
import { elementBytes } from "../../../src/tensor/dtype.js";
import { expectBytes } from "../../support/bytes.js";
import { CountingSource } from "../../support/counting-source.js";
import { readFixture } from "../../support/fixtures.js";

import { allBytes, at, expected, fileOf, local, readAll } from "../../support/safetensors.js";

describe("reading", () => {
  it("reads one tensor with its file's header and its own bytes", async () => {
    const sources: CountingSource[] = [];
    const files: FileStore = Object.assign(Object.create(local), {
      open: async (path: string) => {
        const source = await local.open(path);
        const counting = new CountingSource(source);
        sources.push(counting);
        return Object.assign(counting, { close: () => source.close() });
      },
    });
    const model = await openSafetensors(at("sharded"), { files });
    const data = await model.data("layer.1.weight", [
      { start: 2, end: 4 },
      { start: 0, end: 16 },
    ]);
    expect((await allBytes(data)).length).toBe(128);
    // The index, and of one shard: the length of the header, the header, the two rows.
    expect(sources.map(({ reads: count, name }) => [name.split("/").at(-1), count])).toEqual([
      ["model.safetensors.index.json", 1],
      ["model-00002-of-00003.safetensors", 3],
    ]);
    expect(sources[1]?.bytes).toBe(8 + 176 + 128);
    await model.close();
  });

  it("gives any region as the same elements of the whole", async () => {
    const model = await openSafetensors(at("all_dtypes.safetensors"), { files: local });
    for await (const { key, dtype, shape } of model.tensors()) {
      const width = elementBytes(dtype);
      const whole = await allBytes(await model.data(key));
      const region = [
        { start: 1, end: 2 },
        { start: 0, end: 2 },
        { start: 2, end: 4 },
      ];
      const part = await allBytes(await model.data(key, region));
      const [, rows = 0, columns = 0] = shape;
      const row = (i: number, j: number) =>
        whole.subarray(((i * rows + j) * columns + 2) * width, ((i * rows + j) * columns + 4) * width);
      expectBytes(part, new Uint8Array([...row(1, 0), ...row(1, 1)]));
    }
    const packed = model.data("as_float4_e2m1fn_x2", [
      { start: 0, end: 1 },
      { start: 0, end: 1 },
      { start: 1, end: 2 },
    ]);
    await expect(packed).rejects.toMatchObject({ code: "unsupported-operation" });
    await model.close();
  });

  it("names a key that is not there, and a region that is not", async () => {
    const model = await openSafetensors(at("sharded"), { files: local });
    await expect(model.info("nope")).rejects.toMatchObject({ code: "no-such-key" });
    await model.close();
  });

  it("gives what the other files hold when one is damaged or missing, and then the error", async () => {
    const files = new MemoryStore();
    for (const name of [
      "model-00001-of-00003.safetensors",
      "model-00003-of-00003.safetensors",
      "model.safetensors.index.json",
    ]) {
      const sink = await files.create(`m/${name}`);
      await sink.write(readFixture(`safetensors/sharded/${name}`));
      await sink.close();
    }
    const model = await openSafetensors("m", { files });
    const keys: string[] = [];
    const listing = async () => {
      for await (const { key } of model.tensors()) keys.push(key);
    };
    await expect(listing()).rejects.toMatchObject({ code: "not-found", file: "m/model-00002-of-00003.safetensors" });
    expect(keys).toEqual(["layer.0.bias", "layer.0.weight", "layer.2.bias", "layer.2.weight", "steps"]);
    expectBytes(await allBytes(await model.data("steps")), Uint8Array.of(12, 0, 0, 0, 0, 0, 0, 0));
  });

  it("takes shards without an index when all are there", async () => {
    const files = new MemoryStore();
    for (const i of [1, 2, 3]) {
      const sink = await files.create(`m/model-0000${i}-of-00003.safetensors`);
      await sink.write(readFixture(`safetensors/sharded/model-0000${i}-of-00003.safetensors`));
      await sink.close();
    }
    expect(await safetensorsFormat.detect(files, "m")).toMatchObject({ description: "safetensors model in 3 files" });
    expect((await readAll(await openSafetensors("m", { files }))).length).toBe(7);
    await files.remove("m/model-00002-of-00003.safetensors");
    expect(await safetensorsFormat.detect(files, "m")).toBeUndefined();
  });

  it("knows a file by its bytes, whatever its name, and no foreign one", async () => {
    const files = new MemoryStore([
      ["weights.bin", readFixture("safetensors/model.safetensors")],
      ["x.cpb", readFixture("cpb/graphdef/lots_of_nodes.cpb")],
      ["x.pb", readFixture("cpb/models/tiny/saved_model.pb")],
      ["short", Uint8Array.of(1, 2)],
      ["sharded/config.json", Uint8Array.of(0x7b, 0x7d)],
    ]);
    expect(await safetensorsFormat.detect(files, "weights.bin")).toMatchObject({ description: "safetensors file" });
    for (const path of ["x.cpb", "x.pb", "short", "sharded", "missing"]) {
      expect(await safetensorsFormat.detect(files, path)).toBeUndefined();
    }
  });

  it("shows files, tensors and where they lie", async () => {
    const outline = await safetensorsFormat.outline({ ...(await detected("sharded")), format: "safetensors" });
    expect(outline.root.detail).toBe("safetensors, 7 tensors in 3 files, 433 elements, 1.70 KiB, float32 int64");
    const [metadata, first] = (await outline.root.children?.()) ?? [];
    expect(metadata?.facts).toEqual({ format: "pt" });
    const [tensor] = (await first?.children?.()) ?? [];
    expect(tensor).toMatchObject({ label: "layer.0.bias", detail: "float32 [16], 64 B" });
    expect(tensor?.range).toMatchObject({ start: 184, end: 248 });
    await outline.close();
  });
});

async function detected(name: string) {
  const detection = await safetensorsFormat.detect(local, at(name));
  if (detection === undefined) throw new Error("not detected");
  return detection;
}

describe("an index", () => {
  const shard = fileOf('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1);
  const store = (index: string) =>
    new MemoryStore([
      ["m/s.safetensors", shard],
      ["secret.safetensors", shard],
      ["m/model.safetensors.index.json", new TextEncoder().encode(index)],
    ]);

  it.each([
    "../secret.safetensors",
    "/secret.safetensors",
    "x/../../secret.safetensors",
    "..\\secret.safetensors",
    "file:///secret.safetensors",
    "",
    ".",
    "a//b",
    "s.safetensors?x",
    "\\u0000",
  ])("does not lead to %s", async (name) => {
    const files = store(`{"weight_map":{"a":"${name.replaceAll("\\s", "\\\\s")}"}}`);
    await expect(openSafetensors("m", { files })).rejects.toMatchObject({ code: "weight-map" });
  });

  it.each([
    ['{"weight_map":{"a":"s.safetensors","a":"s.safetensors"}}', "invalid-json"],
    ['{"metadata":{}}', "invalid-json"],
    ['{"weight_map":{"a":1}}', "invalid-json"],
    ["[]", "invalid-json"],
    ['{"weight_map":{}}x', "invalid-json"],
    [`{"weight_map":{${Array.from({ length: 10_001 }, (_, i) => `"${i}":"${i}"`)}}}`, "limit"],
  ])("is refused: %.60s", async (text, code) => {
    await expect(openSafetensors("m", { files: store(text) })).rejects.toMatchObject({ code });
  });

  it("is held against its files by verify, which goes on after each finding", async () => {
    const index = '{"metadata":{"total_size":5},"weight_map":{"b":"s.safetensors","c":"gone.safetensors"}}';
    const files = store(index);
    const sink = await files.create("m/other.safetensors");
    await sink.write(shard);
    await sink.close();
    const { findings, ok } = await verify(files, "m");
    expect(ok).toBe(false);
    expect(findings.map(({ severity, code, file, key }) => [severity, code, file, key])).toEqual([
      ["warning", "weight-map", "m/s.safetensors", "a"],
      ["error", "weight-map", "m/s.safetensors", "b"],
      ["error", "not-found", "m/gone.safetensors", undefined],
      ["warning", "weight-map", "m", undefined],
      ["warning", "orphan-file", "m/other.safetensors", undefined],
    ]);
  });
});

describe("verify", () => {
  it("finds nothing in files of the reference library but space before a header", async () => {
    for (const name of [...Object.keys(expected.files), "sharded"]) {
      const { ok, findings, good } = await verify(local, at(name));
      expect(ok).toBe(true);
      expect(findings.map(({ code }) => code)).toEqual(name === "leading_space.safetensors" ? ["invalid-json"] : []);
      expect(good.length).toBe(name === "sharded" ? 3 : 1);
    }
  });

  it("tells which tensors of a cut file are still good", async () => {
    const files = new MemoryStore([["x.safetensors", readFixture("safetensors/model.safetensors").subarray(0, -600)]]);
    const { findings, good } = await verify(files, "x.safetensors");
    expect(findings.map(({ code, key }) => [code, key])).toEqual([
      ["truncated", "layer.1.weight"],
      ["truncated", "layer.2.bias"],
      ["truncated", "layer.2.weight"],
    ]);
    expect(good.map(({ what }) => what)).toEqual(
      ["steps", "layer.0.bias", "layer.0.weight", "layer.1.bias"].map((key) => `place of ${key}`),
    );
  });
});
