import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { copyTree } from "../../src/bytes/copy-tree.js";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { savedModelFormat } from "../../src/formats/saved-model/index.js";
import { type ConversionOptions, planConversion } from "../../src/ops/convert.js";
import { inspect } from "../../src/ops/inspect.js";
import { openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { FingerprintDefSchema } from "../../src/proto/gen/tensorflow/core/protobuf/fingerprint_pb.js";
import { CrashingStore, countChanges } from "../support/crashing-store.js";
import { fixturePath } from "../support/fixtures.js";
import { readAll } from "../support/safetensors.js";

const local = new LocalFiles();
const MODELS = ["cpb/models/keras", "cpb/models/tiny", "cpb/models/manyfns", "checkpoints/saved_model/sm"];
/** What has variables and constants. */
const SM = fixturePath("checkpoints/saved_model/sm");

async function convert(files: FileStore, from: string, to: string, options: ConversionOptions) {
  const source = from.startsWith("/") ? local : files;
  const conversion = await planConversion({ files: source, path: from }, { files, path: to }, options);
  try {
    await conversion.write({ overwrite: true });
    return conversion;
  } finally {
    await conversion.close();
  }
}

async function variablesOf(files: FileStore, directory: string) {
  const reader = await openCheckpoint(`${directory}/variables/variables`, { files });
  const all = await readAll(reader);
  await reader.close();
  return all.map(({ key, dtype, shape, bytes }) => ({ key, dtype, shape, hex: Buffer.from(bytes).toString("hex") }));
}

async function bytesOf(files: FileStore, path: string): Promise<Uint8Array> {
  const source = await files.open(path);
  const bytes = await source.read(0, source.size);
  await source.close();
  return bytes;
}

/** A fixture in memory, without a file that is named. */
async function inMemory(directory: string): Promise<MemoryStore> {
  const files = new MemoryStore();
  await copyTree(local, { path: directory, kind: "directory", size: 0 }, files, "m");
  return files;
}

describe("the tensors of a SavedModel", () => {
  it("are its variables under the keys of their checkpoint, and its constants apart", async () => {
    const { tensors } = await openTensors(local, SM);
    const found = await readAll(tensors);
    await tensors.close();
    const variables = found.filter(({ role }) => role === undefined);
    expect(variables.map(({ key, name }) => [key, name])).toEqual(
      ["layers/0/b", "layers/0/w", "layers/1/b", "layers/1/w", "table/emb", "table/step"].map((name) => [
        `${name}/.ATTRIBUTES/VARIABLE_VALUE`,
        name,
      ]),
    );
    expect(found.filter(({ role }) => role === "constant").length).toBeGreaterThan(0);
    expect(found.filter(({ role }) => role === "structure").length).toBe(1);
  });

  it("are constants alone where there are no variables", async () => {
    const { tensors } = await openTensors(local, fixturePath("cpb/models/bigconst"));
    const roles = new Set((await readAll(tensors)).map(({ role }) => role));
    await tensors.close();
    expect([...roles].sort()).toEqual(["structure", undefined]);
  });

  it("leave constants to read where the variables are damaged", async () => {
    const files = await inMemory(SM);
    const sink = await files.create("m/variables/variables.index", { overwrite: true });
    await sink.write(new Uint8Array(200));
    await sink.close();
    const { tensors } = await openTensors(files, "m");
    const keys: string[] = [];
    await expect(
      (async () => {
        for await (const { key } of tensors.tensors()) keys.push(key);
      })(),
    ).rejects.toThrow(CairnError);
    expect(keys.length).toBeGreaterThan(0);
    await tensors.data(keys[0] as string);
    await expect(tensors.info("layers/0/b/.ATTRIBUTES/VARIABLE_VALUE")).rejects.toMatchObject({ code: "table-footer" });
    const { root, close } = await inspect(files, "m");
    expect((await root.children?.())?.map(({ kind }) => kind)).toContain("damage");
    await close();
  });

  it("stand in the outline by the paths of their objects", async () => {
    const { root, close } = await inspect(local, SM);
    const variables = (await root.children?.())?.find(({ kind }) => kind === "variables");
    expect(variables?.detail).toBe("6 variables, 256 B");
    expect((await variables?.children?.())?.[0]).toMatchObject({ label: "layers/0/b", detail: "float32 [4], 16 B" });
    await close();
  });
});

describe("verify of a SavedModel", () => {
  it("checks its variables too", async () => {
    expect((await verify(local, SM)).good.some(({ what }) => what.includes("layers/0/w"))).toBe(true);
    const files = await inMemory(SM);
    const path = "m/variables/variables.data-00000-of-00001";
    const bytes = (await bytesOf(files, path)).slice();
    bytes[5] = (bytes[5] as number) ^ 1;
    const sink = await files.create(path, { overwrite: true });
    await sink.write(bytes);
    await sink.close();
    expect((await verify(files, "m")).findings).toMatchObject([{ code: "tensor-checksum", file: path }]);
    await files.remove("m/variables/variables.index");
    expect((await verify(files, "m")).findings).toMatchObject([{ code: "not-found" }]);
  });
});

describe("converting to a SavedModel", () => {
  it.each(MODELS)("gives back the variables of %s by way of safetensors", async (name) => {
    const directory = fixturePath(name);
    const files = new MemoryStore();
    await convert(files, directory, "v.safetensors", {});
    await convert(files, "v.safetensors", "out", { to: "saved-model", template: { files: local, path: directory } });
    expect(await variablesOf(files, "out")).toEqual(await variablesOf(local, directory));
    expect(
      Buffer.from(await bytesOf(files, "out/saved_model.pb")).equals(
        await bytesOf(local, `${directory}/saved_model.pb`),
      ),
    ).toBe(true);
    expect((await verify(files, "out")).findings).toEqual([]);
    expect((await savedModelFormat.detect(files, "out"))?.description).toBe("SavedModel directory");
  });

  it("hashes the new variables into the fingerprint, and leaves the rest of it", async () => {
    const files = new MemoryStore();
    await convert(files, SM, "out", { to: "saved-model", template: { files: local, path: SM } });
    const fingerprint = async (store: FileStore, path: string) =>
      fromBinary(FingerprintDefSchema, await bytesOf(store, `${path}/fingerprint.pb`));
    const [old, made] = [await fingerprint(local, SM), await fingerprint(files, "out")];
    // The same tensors in another order of saving have another index.
    expect({ ...made, checkpointHash: 0n }).toEqual({ ...old, checkpointHash: 0n });
    expect(made.checkpointHash).not.toBe(0n);
  });

  it("takes a checkpoint by the paths of its objects, and names what is missing or left over", async () => {
    const files = new MemoryStore();
    const template = { files: local, path: SM };
    await convert(files, SM, "ckpt", { to: "checkpoint" });
    await convert(files, "ckpt", "out", { to: "saved-model", template });
    expect(await variablesOf(files, "out")).toEqual(await variablesOf(local, SM));
    await convert(files, "ckpt", "some.safetensors", { filter: "layers/*" });
    await expect(convert(files, "some.safetensors", "no", { to: "saved-model", template })).rejects.toMatchObject({
      code: "not-consumed",
      actual: "table/emb, table/step",
    });
    const tiny = { files: local, path: fixturePath("cpb/models/tiny") };
    const rename = [{ text: "", apply: (one: string) => (one === "layers/0/b" ? "v" : undefined) }];
    await expect(convert(files, "ckpt", "no", { to: "saved-model", template: tiny, rename })).rejects.toMatchObject({
      code: "tensor-mismatch",
    });
    await convert(files, fixturePath("cpb/models/tiny"), "v.safetensors", {});
    const more = { to: "saved-model", template: { files: local, path: fixturePath("cpb/models/bigconst") } };
    await expect(convert(files, "v.safetensors", "no", more)).rejects.toMatchObject({ code: "invalid-plan" });
    const { skipped } = await convert(files, "v.safetensors", "out2", { ...more, skipUnsupported: true });
    expect(skipped).toEqual([{ key: "v", reason: "the template has no place for it" }]);
    expect(await files.stat("no")).toBeUndefined();
  });

  it("needs a template that is a SavedModel directory", async () => {
    const files = new MemoryStore();
    await expect(convert(files, SM, "out", { to: "saved-model" })).rejects.toMatchObject({ code: "usage" });
    const template = { files: local, path: `${SM}/saved_model.pb` };
    await expect(convert(files, SM, "out", { to: "saved-model", template })).rejects.toMatchObject({ code: "usage" });
  });

  it("takes constants only when they are asked for", async () => {
    const files = new MemoryStore();
    const without = await convert(files, SM, "a.safetensors", {});
    expect(without.tensorCount).toBe(6);
    expect(without.skipped.some(({ reason }) => reason.startsWith("a constant"))).toBe(true);
    const withThem = await convert(files, SM, "b.safetensors", { constants: true, skipUnsupported: true });
    expect(withThem.tensorCount).toBeGreaterThan(6);
    const frozen = await convert(files, fixturePath("cpb/models/frozen"), "c.safetensors", { skipUnsupported: true });
    expect(frozen.tensorCount).toBeGreaterThan(0);
  });

  it("leaves the old model or the new one wherever the work breaks off", async () => {
    const template = { files: local, path: SM };
    const write = async (files: FileStore) => {
      const conversion = await planConversion(
        { files: local, path: SM },
        { files, path: "m" },
        { to: "saved-model", template },
      );
      await conversion.write({ overwrite: true }).finally(() => conversion.close());
    };
    const start = () => inMemory(fixturePath("cpb/models/tiny"));
    const count = await countChanges(await start(), write);
    const keys = async (files: FileStore) => (await variablesOf(files, "m")).length;
    for (let i = 0; i < count; i++) {
      const files = await start();
      await write(new CrashingStore(files, i)).catch(() => {});
      if ((await files.stat("m")) === undefined) await write(files);
      expect([2, 7]).toContain(await keys(files));
    }
  });
});
