import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { findDTypeOfCode } from "../../../src/formats/safetensors/dtypes.js";
import { openSafetensors, type SavedTensor, saveSafetensors } from "../../../src/formats/safetensors/public.js";
import { verify } from "../../../src/ops/verify.js";
import { expectBytes, sha256 } from "../../support/bytes.js";
import { readFixture } from "../../support/fixtures.js";

import { allBytes, at, expected, fileOf, local, readAll, reads } from "../../support/safetensors.js";

describe("files of the reference library", () => {
  it.each(Object.entries(expected.files))("%s gives the same tensors and metadata", async (name, file) => {
    expect(sha256(readFixture(`safetensors/${name}`))).toBe(file.sha256);
    const model = await openSafetensors(at(name), { files: local });
    const tensors = await readAll(model);
    // "hex:" begins a key in hex, so a name that looks like one stands in hex itself.
    const keyOf = (one: string) => (one.startsWith("hex:") ? `hex:${Buffer.from(one).toString("hex")}` : one);
    const found = tensors.map(({ key, dtype, shape, bytes }) => [key, dtype, shape, sha256(bytes)]);
    const right = Object.entries(file.tensors).map(([one, { dtype, shape, sha256: hash }]) => [
      keyOf(one),
      findDTypeOfCode(dtype),
      shape,
      hash,
    ]);
    const byKey = (a: unknown[], b: unknown[]) => Buffer.compare(Buffer.from(String(a[0])), Buffer.from(String(b[0])));
    expect(found).toEqual(right.sort(byKey));
    expect(await model.metadata()).toEqual(file.metadata ?? {});
    await model.close();
  });

  it("is written again byte for byte", async () => {
    for (const name of ["model", "all_dtypes"]) {
      const model = await openSafetensors(at(`${name}.safetensors`), { files: local });
      const tensors: [string, SavedTensor][] = [];
      for await (const { key, dtype, shape } of model.tensors()) {
        tensors.push([key, { dtype, shape, data: await model.data(key) }]);
      }
      const files = new MemoryStore();
      await saveSafetensors("out.safetensors", tensors, { files, metadata: await model.metadata() });
      const written = await allBytes(await files.open("out.safetensors"));
      expectBytes(written, readFixture(`safetensors/${name}.safetensors`));
      await model.close();
    }
  });

  it("comes out as huggingface_hub splits it", async () => {
    const files = new MemoryStore();
    const model = await openSafetensors(at("model.safetensors"), { files: local });
    const order = [
      "layer.0.weight",
      "layer.0.bias",
      "layer.1.weight",
      "layer.1.bias",
      "layer.2.weight",
      "layer.2.bias",
      "steps",
    ];
    const tensors: [string, SavedTensor][] = [];
    for (const key of order) {
      const { dtype, shape } = await model.info(key);
      tensors.push([key, { dtype, shape, data: await model.data(key) }]);
    }
    await saveSafetensors("out", tensors, { files, maxShardSize: 800 });
    await model.close();
    for (const name of ["model-00001-of-00003", "model-00002-of-00003", "model-00003-of-00003"]) {
      const written = await allBytes(await files.open(`out/${name}.safetensors`));
      expectBytes(written, readFixture(`safetensors/sharded/${name}.safetensors`));
    }
    const index = JSON.parse(
      new TextDecoder().decode(await allBytes(await files.open("out/model.safetensors.index.json"))),
    );
    expect(index).toEqual(
      JSON.parse(new TextDecoder().decode(readFixture("safetensors/sharded/model.safetensors.index.json"))),
    );
  });
});

describe("what the reference library refuses and reads", () => {
  /** Read by the library though the specification forbids it or nobody writes it; cairn refuses these. */
  const REFUSED = [
    /^\{"a":\["U8"/,
    /^\{"a":(\{.*\}),"a":\1\}$/,
    /"a":"1","a":"2"/,
    /18446744073709551615\],"data_offsets":\[0,0\]/,
  ];

  it.each(expected.verdicts.map(({ header, fitting }) => [header, fitting] as const))("%s", async (header, fitting) => {
    const found: number[] = [];
    for (let size = 0; size < 17; size++) if (await reads(fileOf(header, size))) found.push(size);
    expect(found).toEqual(REFUSED.some((one) => one.test(header)) ? [] : fitting);
  });

  it.each(Object.entries(expected.flips))(
    "%s with any bit flipped is read exactly when the library reads it",
    async (name, masks) => {
      const original = readFixture(`safetensors/${name}`);
      const wrong: string[] = [];
      for (const [at, mask] of Buffer.from(masks, "hex").entries()) {
        for (let bit = 0; bit < 8; bit++) {
          const bytes = original.slice();
          bytes[at] = (bytes[at] as number) ^ (1 << bit);
          if ((await reads(bytes)) !== ((mask & (1 << bit)) !== 0)) wrong.push(`bit ${bit} of byte ${at}`);
        }
      }
      expect(wrong).toEqual([]);
    },
  );

  it("a file cut anywhere, or with a byte more", async () => {
    for (const name of ["any_order", "six_bits", "model"]) {
      const original = readFixture(`safetensors/${name}.safetensors`);
      for (let length = 0; length < original.length; length++)
        expect(await reads(original.subarray(0, length))).toBe(false);
      expect(await reads(original)).toBe(true);
      expect(await reads(new Uint8Array([...original, 0]))).toBe(false);
    }
  });

  it.each<[string, Uint8Array, string]>([
    ["a header length of 2^64 - 1", new Uint8Array(16).fill(0xff), "limit"],
    ["a header of 100,000,001 bytes", Uint8Array.of(1, 0xe1, 0xf5, 5, 0, 0, 0, 0, 0x7b, 0x7d), "limit"],
    ["a header that passes the end", Uint8Array.of(3, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7d), "truncated"],
    [
      "ten tensors in one place",
      fileOf(
        `{${Array.from({ length: 10 }, (_, i) => `"w${i}":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}`)}}`,
        16,
      ),
      "tensor-offsets",
    ],
    [
      "bytes behind the last tensor",
      fileOf('{"a":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}', 50),
      "tensor-offsets",
    ],
    [
      "a shape whose size overflows",
      fileOf('{"a":{"dtype":"I32","shape":[4294967296,4294967296],"data_offsets":[0,16]}}', 16),
      "limit",
    ],
    [
      "a key that stands twice",
      fileOf(
        '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        0,
      ),
      "invalid-json",
    ],
    ["nesting without end", fileOf(`{"a":{"x":${"[".repeat(100_000)}`, 0), "limit"],
    ["an unknown dtype", fileOf('{"a":{"dtype":"I4","shape":[1],"data_offsets":[0,1]}}', 1), "unsupported-dtype"],
    ["a header that is not UTF-8", Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0, 0xff), "invalid-json"],
  ])("tells %s apart", async (_, bytes, code) => {
    const files = new MemoryStore([["x.safetensors", bytes]]);
    await expect(readAll(await openSafetensors("x.safetensors", { files }))).rejects.toMatchObject({
      code,
      file: "x.safetensors",
    });
    const report = await verify(files, "x.safetensors");
    expect(report).toMatchObject({ ok: false, format: "safetensors" });
    expect(report.findings[0]?.code).toBe(code);
  });
});
