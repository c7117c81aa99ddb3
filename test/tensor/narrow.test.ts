import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { planSafetensors } from "../../src/formats/safetensors/public.js";
import { writeSafetensors } from "../../src/formats/safetensors/write.js";
import { planConversion } from "../../src/ops/convert.js";
import { openTensors } from "../../src/ops/tensors.js";
import { numberTensor } from "../../src/tensor/memory-tensor.js";
import { narrowTensor } from "../../src/tensor/narrow.js";
import { sliceTensor } from "../../src/tensor/sliced-tensor.js";
import { allBytes, readAll } from "../support/safetensors.js";

describe("int64 as int32", () => {
  it("keeps every number that fits, from any offset", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer(), { minLength: 1, maxLength: 50 }), fc.nat(), async (numbers, seed) => {
        const narrowed = await narrowTensor(numberTensor(BigInt64Array.from(numbers, BigInt))).data();
        const expected = new Uint8Array(Int32Array.from(numbers).buffer);
        expect([...(await allBytes(narrowed))]).toEqual([...expected]);
        const at = seed % expected.length;
        expect([...(await narrowed.read(at, expected.length - at))]).toEqual([...expected.subarray(at)]);
      }),
    );
  });

  it("takes a slice of a tensor", async () => {
    const slice = sliceTensor(numberTensor(BigInt64Array.of(1n, 2n, 3n)), [{ start: 1, end: 3 }]);
    const data = await allBytes(await narrowTensor(slice).data());
    expect([...new Int32Array(data.slice().buffer)]).toEqual([2, 3]);
  });

  it.each([2n ** 31n, -(2n ** 31n) - 1n, 2n ** 62n])("refuses %s", async (number) => {
    const data = await narrowTensor(numberTensor(BigInt64Array.of(1n, number))).data();
    await expect(data.read(0, 8)).rejects.toMatchObject({ code: "unsupported-dtype", actual: number });
  });

  it("happens in a conversion only when it is asked for", async () => {
    const files = new MemoryStore();
    const plan = planSafetensors([["ids", numberTensor(BigInt64Array.of(7n, -8n))]]);
    await writeSafetensors(files, "ids.safetensors", plan);
    const source = { files, path: "ids.safetensors" };
    const target = { files, path: "m/model.json" };
    await expect(planConversion(source, target)).rejects.toMatchObject({ code: "invalid-plan" });
    const conversion = await planConversion(source, target, { dtypes: [{ from: "int64", to: "int32" }] });
    await conversion.write();
    await conversion.close();
    const { tensors } = await openTensors(files, "m");
    const [read] = await readAll(tensors);
    expect([read?.dtype, ...new Int32Array((read?.bytes ?? new Uint8Array()).slice().buffer)]).toEqual([
      "int32",
      7,
      -8,
    ]);
  });
});
