import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { mergeModel } from "../../src/formats/saved-model/merge-model.js";
import { ModelFile } from "../../src/formats/saved-model/model-file.js";
import { openSavedModel } from "../../src/formats/saved-model/opened-model.js";
import { saveSavedModel } from "../../src/formats/saved-model/save.js";
import { splitModel } from "../../src/formats/saved-model/split-model.js";
import { getTensor } from "../../src/ops/get.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { decodeElements } from "../../src/tensor/values.js";
import { expectBytes } from "../support/bytes.js";
import { fixturePath, readExpected, readFixture } from "../support/fixtures.js";

const files = new LocalFiles();
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-test-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const at = (name: string): string => join(folder, name);
const model = (name: string): string => fixturePath(`cpb/models/${name}`);

interface Expected {
  models: Record<string, { nodes: number; functions?: number; function_nodes?: number; signatures?: string[] }>;
}
const expected = readExpected<Expected>("cpb/expected.json");

describe("a SavedModel of TensorFlow", () => {
  it.each(Object.entries(expected.models))(
    "%s has the nodes, functions and signatures that TensorFlow counts",
    async (name, one) => {
      const opened = await openSavedModel(model(name), { files });
      const summary = await opened.summary();
      expect(summary.nodeCount).toBe(one.nodes);
      if (one.functions !== undefined) {
        expect(summary.functionCount).toBe(one.functions);
        expect(summary.functionNodeCount).toBe(one.function_nodes);
        const [metaGraph] = await opened.metaGraphs();
        expect((await metaGraph!.signatures()).map((signature) => signature.name)).toEqual(one.signatures);
        expect(await metaGraph!.tags()).toEqual(["serve"]);
        expect(await metaGraph!.tensorflowVersion()).toBe("2.18.1");
      }
      await opened.close();
    },
  );

  it("tells dtypes, shapes and tensors of its signatures", async () => {
    const opened = await openSavedModel(model("bigconst"), { files });
    const [metaGraph] = await opened.metaGraphs();
    const serving = (await metaGraph!.signatures()).find((signature) => signature.name === "serving_default");
    expect(serving).toEqual({
      name: "serving_default",
      methodName: "tensorflow/serving/predict",
      inputs: [{ name: "ids", tensor: "serving_default_ids:0", dtype: "int32", shape: [-1] }],
      outputs: [
        { name: "emb", tensor: "PartitionedCall:0", dtype: "float32", shape: [-1, 8] },
        { name: "h", tensor: "PartitionedCall:1", dtype: "float32", shape: [-1] },
        { name: "n", tensor: "PartitionedCall:2", dtype: "int64", shape: [-1, 4] },
        { name: "t", tensor: "PartitionedCall:3", dtype: "string", shape: [-1] },
      ],
    });
    await opened.close();
  });

  it("names its assets", async () => {
    const opened = await openSavedModel(model("vocab"), { files });
    const [metaGraph] = await opened.metaGraphs();
    expect(await metaGraph!.assets()).toMatchObject([{ filename: "vocab.txt" }]);
    await opened.close();
  });

  it.each(["bigconst", "frozen", "floatval", "manyfns"])(
    "%s gives the same constants from .pb and from .cpb",
    async (name) => {
      const split = at(`constants-${name}`);
      const plan = await splitModel(model(name), split, { source: files, target: files, maxChunkSize: 700 });
      await plan.write({ compression: "auto" });
      await plan.close();
      const [plain, chunked] = await Promise.all([model(name), split].map((path) => openSavedModel(path, { files })));
      const keys: string[] = [];
      for await (const info of plain!.constants().tensors()) {
        keys.push(info.key);
        expect(await chunked!.constants().info(info.key)).toEqual(info);
        const [a, b] = await Promise.all([plain!, chunked!].map(async (one) => getTensor(one.constants(), info.key)));
        expectBytes(
          new Uint8Array(await b!.data.read(0, b!.data.size)),
          new Uint8Array(await a!.data.read(0, a!.data.size)),
        );
      }
      expect(keys.length).toBeGreaterThan(0);
      expect(keys).toEqual([...keys].sort());
      await plain!.close();
      await chunked!.close();
    },
  );

  it("gives constants of every form: content, lists, strings, scalars", async () => {
    const opened = await openSavedModel(model("bigconst"), { files });
    const constants = opened.constants();
    const strings = await getTensor(constants, "Const");
    const decoded = [...decodeElements("string", await strings.data.read(0, strings.data.size))];
    expect(decoded.slice(0, 3).map((bytes) => new TextDecoder().decode(bytes as Uint8Array))).toEqual([
      "",
      "row 1",
      "row 2row 2",
    ]);
    const region = await getTensor(constants, "Const_1", "10:12,1:3");
    expect(region.shape).toEqual([2, 2]);
    const whole = await getTensor(constants, "Const_1");
    const all = [...decodeElements("int64", await whole.data.read(0, whole.data.size))];
    expect([...decodeElements("int64", await region.data.read(0, region.data.size))]).toEqual([
      all[41],
      all[42],
      all[45],
      all[46],
    ]);
    await expect(getTensor(constants, "Const_9")).rejects.toMatchObject({
      code: "no-such-key",
      hint: expect.any(String),
    });
    await expect(getTensor(constants, "const_1")).rejects.toMatchObject({
      hint: expect.stringContaining('Did you mean "Const_1"'),
    });
    await opened.close();
  });
});

describe("the proto of a model", () => {
  it("is read from text, from .pb and from .cpb to the same message", async () => {
    const text = at("text");
    cpSync(model("frozen"), text, { recursive: true });
    rmSync(join(text, "saved_model.pb"));
    cpSync(fixturePath("text-format/frozen.pbtxt"), join(text, "saved_model.pbtxt"));
    const opened = await ModelFile.open(files, text);
    const source = await opened.proto.toSource();
    const message = fromBinary(SavedModelSchema, await source.read(0, source.size));
    expect(message).toEqual(fromBinary(SavedModelSchema, readFixture("cpb/models/frozen/saved_model.pb")));
    await opened.close();
  });

  it("is taken from .cpb before .pb before .pbtxt, and the others are told", async () => {
    const many = at("many");
    cpSync(model("tiny"), many, { recursive: true });
    cpSync(fixturePath("cpb/cpb/tiny__5000_default/saved_model.cpb"), join(many, "saved_model.cpb"));
    writeFileSync(join(many, "saved_model.pbtxt"), "");
    const opened = await ModelFile.open(files, many);
    expect(opened.paths.protoPath).toBe(join(many, "saved_model.cpb"));
    expect(opened.paths.ignored).toEqual([join(many, "saved_model.pb"), join(many, "saved_model.pbtxt")]);
    await opened.close();
  });

  it("that is damaged text tells what is wrong", async () => {
    const store = new MemoryStore([["x.pbtxt", new TextEncoder().encode("meta_graphs { nope: 1 }")]]);
    await expect(ModelFile.open(store, "x.pbtxt")).rejects.toMatchObject({ code: "invalid-text", file: "x.pbtxt" });
  });
});

describe("saving", () => {
  it("carries variables, assets and fingerprint over, byte for byte", async () => {
    const extra = at("extra");
    cpSync(model("vocab"), extra, { recursive: true });
    for (const [path, text] of [
      ["assets.extra/notes.txt", "notes"],
      ["debug/info.pb", "debug"],
    ] as const) {
      cpSync(model("vocab"), join(extra, path.split("/")[0]!), { recursive: true });
      writeFileSync(join(extra, path), text);
    }
    const opened = await openSavedModel(extra, { files });
    const saved = at("saved");
    const written = await saveSavedModel(saved, opened.file, { files, imageFormat: true, maxChunkSize: 4000 });
    await opened.close();
    expect(written).toMatchObject({ path: join(saved, "saved_model.cpb"), isSplit: true });
    for (const path of [
      "assets/vocab.txt",
      "assets.extra/notes.txt",
      "debug/info.pb",
      "fingerprint.pb",
      "variables/variables.index",
    ]) {
      expectBytes(new Uint8Array(readFileSync(join(saved, path))), new Uint8Array(readFileSync(join(extra, path))));
    }
  });

  it("writes one .pb when the image format is not asked for, and for a small model", async () => {
    const opened = await openSavedModel(model("tiny"), { files });
    for (const [name, options] of [
      ["plain", {}],
      ["small", { imageFormat: true }],
    ] as const) {
      expect(await saveSavedModel(at(name), opened.file, { files, ...options })).toMatchObject({ isSplit: false });
      expectBytes(
        new Uint8Array(readFileSync(join(at(name), "saved_model.pb"))),
        readFixture("cpb/models/tiny/saved_model.pb"),
      );
    }
    await opened.close();
  });

  it("saves a message alone", async () => {
    const savedModel = fromBinary(SavedModelSchema, readFixture("cpb/models/tiny/saved_model.pb"));
    const store = new MemoryStore();
    await saveSavedModel("m", { savedModel }, { files: store, imageFormat: true, maxChunkSize: 1000 });
    const opened = await openSavedModel("m", { files: store });
    expect((await opened.summary()).nodeCount).toBe(12);
  });

  it("refuses to replace a directory, and replaces it whole when told to", async () => {
    const opened = await openSavedModel(model("tiny"), { files });
    const target = at("replaced");
    cpSync(model("vocab"), target, { recursive: true });
    await expect(saveSavedModel(target, opened.file, { files })).rejects.toMatchObject({
      code: "exists",
      file: target,
    });
    await saveSavedModel(target, opened.file, { files, overwrite: true });
    expect((await files.list(target)).map(({ path }) => path.slice(target.length + 1))).toEqual([
      "fingerprint.pb",
      "saved_model.pb",
      "variables",
    ]);
    await opened.close();
  });

  it("leaves nothing behind when it fails", async () => {
    const damaged = at("damaged-input");
    cpSync(model("bigconst"), damaged, { recursive: true });
    rmSync(join(damaged, "saved_model.pb"));
    cpSync(fixturePath("cpb/corrupt/flip_chunk_data/saved_model.cpb"), join(damaged, "saved_model.cpb"));
    const plan = mergeModel(damaged, at("never"), { source: files, target: files });
    await expect(plan.then((one) => one.write({}))).rejects.toMatchObject({ code: "chunk-data" });
    expect(
      (await files.list(folder))
        .map(({ path }) => path)
        .filter((path) => /never|cairn-/.test(path.slice(folder.length))),
    ).toEqual([]);
  });

  it("refuses to write over its input", async () => {
    await expect(splitModel("a/b", "./a/b/", { source: files, target: files, maxChunkSize: 1 })).rejects.toMatchObject({
      code: "usage",
    });
  });
});

describe("split and merge of a directory", () => {
  it("gives the very same model back", async () => {
    const target = { source: files, target: files };
    const split = await splitModel(model("manyfns"), at("s"), { ...target, maxChunkSize: 9000 });
    expect(split.warnings).toEqual([]);
    await split.write({});
    await split.close();
    const merge = await mergeModel(at("s"), at("m"), target);
    expect(merge).toMatchObject({ typeName: "SavedModel", outputPath: join(at("m"), "saved_model.pb"), warnings: [] });
    await merge.write({});
    await merge.close();
    for (const path of ["saved_model.pb", "fingerprint.pb", "variables/variables.index"]) {
      expectBytes(new Uint8Array(readFileSync(join(at("m"), path))), readFixture(`cpb/models/manyfns/${path}`));
    }
  });
});
