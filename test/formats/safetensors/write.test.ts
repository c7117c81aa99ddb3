import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { FileStore } from "../../../src/bytes/file-store.js";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { CairnError } from "../../../src/errors.js";
import { safetensorsFormat } from "../../../src/formats/safetensors/index.js";
import {
  openSafetensors,
  planSafetensors,
  type SavedTensor,
  saveSafetensors,
} from "../../../src/formats/safetensors/public.js";
import { verify } from "../../../src/ops/verify.js";
import type { PlannedSlice } from "../../../src/sharding/shard-plan.js";
import { type DType, elementBytes } from "../../../src/tensor/dtype.js";
import { elementCount } from "../../../src/tensor/shape.js";
import { expectBytes } from "../../support/bytes.js";
import { CrashingStore, countChanges } from "../../support/crashing-store.js";
import { randomBytes } from "../../support/odd-sources.js";

import { readAll } from "../../support/safetensors.js";

const DTYPES: DType[] = [
  "bool",
  "uint8",
  "float4_e2m1fn",
  "float6_e2m3fn",
  "float8_e4m3fn",
  "bfloat16",
  "int32",
  "complex64",
  "float64",
  "uint64",
];

const savedTensors = fc.uniqueArray(
  fc.tuple(
    fc
      .oneof(fc.string({ maxLength: 5 }), fc.string({ unit: "grapheme", maxLength: 3 }))
      .filter((key) => key !== "__metadata__" && !key.startsWith("hex:")),
    fc.constantFrom(...DTYPES),
    fc.array(fc.constantFrom(0, 1, 2, 3, 4, 8), { maxLength: 3 }),
    fc.nat(),
  ),
  { maxLength: 9, selector: ([key]) => key },
);

function savedOf([key, dtype, shape, seed]: [string, DType, number[], number]): [
  string,
  SavedTensor & { data: Uint8Array },
] {
  // Packed types end at a byte.
  const whole = Number.isInteger(elementCount(shape) * elementBytes(dtype)) ? shape : [...shape, 4];
  return [key, { dtype, shape: whole, data: randomBytes(elementCount(whole) * elementBytes(dtype), seed) }];
}

describe("writing", () => {
  it("gives back any tensors and metadata, in one file and in several", async () => {
    await fc.assert(
      fc.asyncProperty(
        savedTensors.map((all) => all.map(savedOf)),
        fc.dictionary(fc.string({ maxLength: 4 }), fc.string({ unit: "grapheme", maxLength: 4 }), { maxKeys: 3 }),
        fc.integer({ min: 1, max: 200 }),
        async (tensors, metadata, maxShardSize) => {
          const files = new MemoryStore();
          await saveSafetensors("one.safetensors", tensors, { files, metadata });
          await saveSafetensors("many", tensors, { files, metadata, maxShardSize });
          for (const path of ["one.safetensors", "many"]) {
            const model = await openSafetensors(path, { files });
            const found = new Map((await readAll(model)).map((one) => [one.key, one]));
            expect(found.size).toBe(tensors.length);
            for (const [key, { dtype, shape, data }] of tensors) {
              expect(found.get(key)).toMatchObject({ dtype, shape });
              expectBytes(new Uint8Array(found.get(key)?.bytes ?? []), data);
            }
            expect(await model.metadata()).toEqual({ format: "pt", ...metadata });
            expect((await verify(files, path)).findings).toEqual([]);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it("puts no more into a file than it may, but a tensor that is larger", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(30), { maxLength: 12 }), fc.integer({ min: 1, max: 40 }), (sizes, limit) => {
        const lazy = (byteLength: number) => ({
          dtype: "uint8" as const,
          shape: [byteLength],
          byteLength,
          data: async () => expect.fail(),
        });
        const plan = planSafetensors(
          sizes.map((size, i) => [`t${i}`, lazy(size)] as const),
          limit,
        );
        for (const { slices } of plan.shards) {
          const size = slices.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
          expect(slices.length > 0 && (size <= limit || slices.length === 1)).toBe(true);
        }
        const keys = plan.shards.flatMap(({ slices }) => slices.map(({ key }) => key));
        expect(keys.sort()).toEqual(sizes.map((_, i) => `t${i}`).sort());
        expect(plan.warnings.length).toBe(sizes.filter((size) => size > limit).length);
      }),
    );
  });

  it("orders by alignment and then by name, so that every tensor is aligned", async () => {
    const files = new MemoryStore();
    const tensors = (["bool", "float64", "int16", "uint8", "float32"] as const).map(
      (dtype, i) => [`t${i}`, { dtype, shape: [3], data: new Uint8Array(3 * elementBytes(dtype)) }] as const,
    );
    await saveSafetensors("x.safetensors", tensors, { files });
    for (const { key, dtype, facts } of await readAll(await openSafetensors("x.safetensors", { files }))) {
      expect([key, Number(facts?.offset) % elementBytes(dtype)]).toEqual([key, 0]);
    }
  });

  const one = (data: Uint8Array = Uint8Array.of(1, 2)): [string, SavedTensor][] => [
    ["a", { dtype: "uint8", shape: [2], data }],
  ];

  it.each<[string, [string, SavedTensor][], string]>([
    ["strings", [["a", { dtype: "string", shape: [], data: new Uint8Array(8) }]], "unsupported-dtype"],
    ["complex128", [["a", { dtype: "complex128", shape: [], data: new Uint8Array(16) }]], "unsupported-dtype"],
    [
      "a key that is not UTF-8",
      [["hex:ff", { dtype: "uint8", shape: [0], data: new Uint8Array(0) }]],
      "unsupported-operation",
    ],
    [
      "a key with half of a surrogate pair",
      [["\ud800", { dtype: "uint8", shape: [0], data: new Uint8Array(0) }]],
      "unsupported-operation",
    ],
    [
      "the key of the metadata",
      [["__metadata__", { dtype: "uint8", shape: [0], data: new Uint8Array(0) }]],
      "unsupported-operation",
    ],
    [
      "packed elements that end in a byte",
      [["a", { dtype: "float4_e2m1fn", shape: [3], data: new Uint8Array(2) }]],
      "unsupported-operation",
    ],
    ["data that does not fit", one(new Uint8Array(3)), "tensor-data"],
    ["a key twice", [...one(), ...one()], "invalid-plan"],
  ])("refuses %s and leaves nothing", async (_, tensors, code) => {
    const files = new MemoryStore();
    for (const path of ["x.safetensors", "dir"]) {
      await expect(saveSafetensors(path, tensors, { files })).rejects.toMatchObject({ code });
    }
    expect(await files.list(".")).toEqual([]);
  });

  it("refuses a tensor that is cut, and several shards for one file", async () => {
    const files = new MemoryStore();
    const tensor = { dtype: "uint8" as const, shape: [1], byteLength: 1, data: async () => expect.fail() };
    const slice: PlannedSlice = {
      key: "a",
      sliceSpec: "2 0,1",
      fullShape: [2],
      region: [{ start: 0, end: 1 }],
      tensor,
    };
    const plan = { description: "", shards: [{ task: "", slices: [slice] }], warnings: [] };
    const write = (path: string, shards = plan.shards) =>
      safetensorsFormat.writeTensors?.(files, path, { ...plan, shards });
    await expect(write("x.safetensors")).rejects.toMatchObject({ code: "invalid-plan" });
    const whole = (key: string) => ({ task: "", slices: [{ ...slice, key, fullShape: [1] }] });
    await expect(write("x.safetensors", [whole("a"), whole("b")])).rejects.toMatchObject({ code: "invalid-plan" });
  });

  it("replaces a model only when asked, keeps the other files, and leaves none of the old ones", async () => {
    const files = new MemoryStore([
      ["m/config.json", Uint8Array.of(1)],
      ["m/sub/x", Uint8Array.of(2)],
    ]);
    const many = Array.from(
      { length: 4 },
      (_, i) => [`t${i}`, { dtype: "uint8", shape: [2], data: Uint8Array.of(i, i) }] as [string, SavedTensor],
    );
    await saveSafetensors("m", many, { files, maxShardSize: 2 });
    await expect(saveSafetensors("m", one(), { files })).rejects.toMatchObject({ code: "exists" });
    await saveSafetensors("m", one(), { files, overwrite: true });
    expect((await files.list("m")).map(({ path }) => path)).toEqual(["m/config.json", "m/model.safetensors", "m/sub"]);
    await expect(saveSafetensors("m/model.safetensors", one(), { files })).rejects.toMatchObject({ code: "exists" });
  });

  it("leaves the old model or the new one, wherever it is broken off", async () => {
    const two = (value: number) =>
      ["a", "b"].map(
        (key) => [key, { dtype: "uint8", shape: [1], data: Uint8Array.of(value) }] as [string, SavedTensor],
      );
    const old = async () => {
      const files = new MemoryStore();
      await saveSafetensors("m", two(1), { files, maxShardSize: 1 });
      return files;
    };
    const replace = (files: FileStore) => saveSafetensors("m", two(2), { files, maxShardSize: 1, overwrite: true });
    const changes = await countChanges(await old(), replace);
    expect(changes).toBeGreaterThan(4);
    for (let at = 0; at < changes; at++) {
      const files = await old();
      await replace(new CrashingStore(files, at)).catch(() => {});
      // Between the two renames the old one stands aside; who opens it puts it back.
      const values = (await readAll(await openSafetensors("m", { files }))).map(({ bytes }) => bytes[0]);
      expect([
        [1, 1],
        [2, 2],
      ]).toContainEqual(values);
      await replace(files);
      expect((await readAll(await openSafetensors("m", { files }))).map(({ bytes }) => bytes[0])).toEqual([2, 2]);
    }
  });

  it("writes the index last, and takes back its files when that fails", async () => {
    const files = new MemoryStore();
    const tensors = [
      ["a", { dtype: "uint8", shape: [1], data: Uint8Array.of(1) }],
      ["b", { dtype: "uint8", shape: [2], data: new Uint8Array(9) }],
    ] as [string, SavedTensor][];
    await expect(saveSafetensors("m", tensors, { files, maxShardSize: 1 })).rejects.toMatchObject({
      code: "tensor-data",
    });
    expect(await files.list(".")).toEqual([]);
    const aborted = AbortSignal.abort(new CairnError("interrupted", "stop"));
    await expect(saveSafetensors("m", one(), { files, signal: aborted })).rejects.toMatchObject({
      code: "interrupted",
    });
    expect(await files.list(".")).toEqual([]);
  });
});
