import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { LocalStore } from "../../../src/training/job/local-store.js";
import { toTable } from "../../../src/training/model/columns.js";
import {
  checkDefinition,
  loadModelDefinition,
  type ModelDefinition,
} from "../../../src/training/model/model-definition.js";
import type { Tf } from "../../../src/training/model/tfjs.js";
import { TrainableModel } from "../../../src/training/model/trainable-model.js";
import { TOY } from "./toy-model.js";

const folder = mkdtempSync(join(tmpdir(), "cairn-definition-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const embedding = { table: "t", dim: 2, input: "words" };

describe("a model definition", () => {
  it.each([
    [undefined, /the default export: expected an object/],
    [{ ...TOY, model: 3 }, /"model": expected a function/],
    [{ ...TOY, loss: undefined }, /"loss": expected a function/],
    [{ ...TOY, feed: "x" }, /"feed": expected a function/],
    [{ ...TOY, data: undefined }, /"data": expected an object/],
    [{ ...TOY, data: { training: { size: 3 } } }, /"data.training"/],
    [{ ...TOY, embeddings: [{ ...embedding, dim: 0 }] }, /"dim" of embedding "t"/],
    [{ ...TOY, embeddings: [{ ...embedding, initializer: "nothing" }] }, /nothing/],
    [{ ...TOY, embeddings: [embedding, embedding] }, /two embeddings for input "words"/],
    [{ ...TOY, embeddings: [embedding, { ...embedding, input: "b", dim: 3 }] }, /declared in two ways/],
    [{ ...TOY, optimizer: { type: "Magic" } }, /no such optimizer/],
    [{ ...TOY, metrics: ["magic"] }, /metric "magic"/],
  ])("%# is refused with its reason", (value, message) => {
    expect(() => checkDefinition(value)).toThrow(message);
  });

  it("is loaded from a module, and told with its file when it is none", async () => {
    const path = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const good = path(
      "good.mjs",
      "export default { model() {}, loss() {}, data: { training: { size: 1, read() {} } } };",
    );
    expect((await loadModelDefinition(good)).data.training?.size).toBe(1);
    await expect(loadModelDefinition(path("bad.mjs", "export default 3;"))).rejects.toMatchObject({
      code: "usage",
      file: join(folder, "bad.mjs"),
    });
    await expect(loadModelDefinition(path("broken.mjs", "export default {"))).rejects.toMatchObject({ code: "usage" });
    await expect(loadModelDefinition(join(folder, "none.mjs"))).rejects.toMatchObject({ code: "not-found" });
  });

  it("has columns of as many numbers as its records take", () => {
    expect(toTable("c", [1, 2, 3], 3)).toEqual({ values: [1, 2, 3], shape: [3] });
    expect(toTable("c", { values: new Float32Array(6), rowShape: [2] }, 3).shape).toEqual([3, 2]);
    expect(() => toTable("c", { values: [1, 2], rowShape: [2] }, 3)).toThrow(
      /"c" for 3 records of shape \[2\]: expected 6, got 2/,
    );
  });
});

const build = (changes: Partial<ModelDefinition>) => TrainableModel.build(checkDefinition({ ...TOY, ...changes }), 7);

describe("a model of TF.js", () => {
  it("begins with the same weights by the same seed, under Keras's names", async () => {
    const weights = async (seed: number) => {
      const { initialDense } = await TrainableModel.build(checkDefinition(TOY), seed);
      return Array.from(initialDense, ([name, { shape, content }]) => [name, shape, [...content]]);
    };
    expect(await weights(3)).toEqual(await weights(3));
    expect(await weights(4)).not.toEqual(await weights(3));
    expect((await weights(3)).map(([name, shape]) => [name, shape])).toEqual([
      ["score/kernel:0", [5, 1]],
      ["score/bias:0", [1]],
    ]);
  });

  it("is refused with weights that gradients do not change, or an embedding for an input that is none", async () => {
    const model = (tf: Tf) => tf.sequential({ layers: [tf.layers.batchNormalization({ inputShape: [2] })] });
    await expect(build({ model, embeddings: [] })).rejects.toThrow(/is not trained/);
    await expect(build({ embeddings: [{ table: "t", dim: 2, input: "nothing" }] })).rejects.toThrow(/input "nothing"/);
    await expect(build({ model: (() => 3) as never })).rejects.toThrow(/a model of TF.js layers/);
  });

  it("says when the loss is no number", async () => {
    const model = await build({ loss: ({ tf, output }) => tf.mean(tf.div(output, 0)) });
    const store = await LocalStore.open({ optimizer: { type: "SGD", args: "" } });
    await store.prepare(model.tableInfos);
    const batch = model.check(TOY.data.training.read(0, 4), 4);
    await expect(model.gradients(batch, store)).rejects.toMatchObject({ code: "not-finite" });
  });

  it("says when the checkpoint is of another model", async () => {
    const model = await build({});
    const tensor = { dtype: 1, shape: [2], content: new Uint8Array(8) };
    expect(() => model.setDense(new Map([["score/bias:0", tensor]]))).toThrow(/expected float32 \[1\]/);
    expect(() => model.requireDense(new Map())).toThrow(/no variable "score\/kernel:0"/);
  });
});
