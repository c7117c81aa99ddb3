import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../../src/bytes/memory-store.js";
import { TfjsModel } from "../../../src/formats/tfjs/model.js";
import { planTfjs } from "../../../src/formats/tfjs/plan.js";
import { writeTfjs } from "../../../src/formats/tfjs/write.js";
import { HttpFiles } from "../../../src/platform/http/http-files.js";
import { memoryTensor } from "../../../src/tensor/memory-tensor.js";
import { cairnHandler } from "../../../src/tracking/io-handler/index.js";
import { TestServer } from "../../support/http-server.js";
import { randomBytes } from "../../support/odd-sources.js";
import { filesOf, savedFiles } from "../../support/tfjs.js";
import { layers, tf } from "../../tracking/tfjs-models.js";

const server = new TestServer();
beforeAll(async () => {
  await tf.setBackend("cpu");
  await server.start();
});
afterAll(() => server.stop());

function serve(files: MemoryStore): void {
  for (const [path, bytes] of filesOf(files)) server.serve(`/${path}`, bytes);
}

describe("a TF.js model on a web server", () => {
  it("is loaded by TF.js, from its file or its directory", async () => {
    const model = layers.sequential({ layers: [layers.layers.dense({ units: 3, inputShape: [4] })] });
    serve(await savedFiles(model, 20));
    const x = tf.ones([1, 4]);
    const wanted = [...(model.predict(x) as tf.Tensor).dataSync()];
    for (const path of ["/m/model.json", "/m"]) {
      const loaded = await layers.loadLayersModel(cairnHandler({ files: new HttpFiles(), path: server.url(path) }));
      expect([...(loaded.predict(x) as tf.Tensor).dataSync()]).toEqual(wanted);
    }
  });

  it("gives a part of one weight for little more than its bytes", async () => {
    const files = new MemoryStore();
    const tensor = (seed: number) => memoryTensor("int32", [100_000], randomBytes(400_000, seed));
    await writeTfjs(
      files,
      "big",
      planTfjs(
        [
          ["a", tensor(1)],
          ["b", tensor(2)],
          ["c", tensor(3)],
        ],
        500_000,
      ),
    );
    serve(files);
    const model = await TfjsModel.open(new HttpFiles(), server.url("/big/model.json"));
    server.take();
    const part = await model.data("b", [{ start: 0, end: 1000 }]);
    const bytes = await part.read(0, part.size);
    expect([...bytes]).toEqual([...randomBytes(400_000, 2).subarray(0, 4000)]);
    // Each of the three files is looked at, and one is read.
    const { requests, bytes: received } = server.take();
    expect(requests).toBeLessThanOrEqual(7);
    expect(received).toBeLessThan(300_000);
    await model.close();
  });
});
