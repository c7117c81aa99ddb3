import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { ListMultipartUploadsCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { describe, expect, it } from "vitest";
import { BlockCache } from "../../src/bytes/cached-source.js";
import { replaceDirectory } from "../../src/bytes/directory.js";
import { joinPath } from "../../src/bytes/path.js";
import { openSafetensors, type SavedTensor, saveSafetensors } from "../../src/formats/safetensors/public.js";
import { S3Files } from "../../src/platform/node/s3-files.js";
import { testByteSource } from "../conformance/byte-source.js";
import { testFileStore } from "../conformance/file-store.js";
import { expectBytes } from "../support/bytes.js";
import { fixturePath, readFixture } from "../support/fixtures.js";
import { randomBytes } from "../support/odd-sources.js";

const ROOT = process.env.CAIRN_S3_ROOT ?? "";
const BUCKET = ROOT.slice("s3://".length);
const client = new S3Client({ forcePathStyle: true });
const folder = () => `${ROOT}/${randomUUID()}`;

async function put(files: S3Files, path: string, bytes: Uint8Array, overwrite = true): Promise<void> {
  const sink = await files.create(path, { overwrite });
  await sink.write(bytes);
  await sink.close();
}

async function uploads(): Promise<number> {
  return (await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }))).Uploads?.length ?? 0;
}

testFileStore("S3Files", () => ({ files: new S3Files(), root: folder() }), new S3Files());

testByteSource("an object", async () => {
  const bytes = randomBytes(100_000, 7);
  const path = `${folder()}/file`;
  const files = new S3Files({ cache: new BlockCache({ blockBytes: 1000 }) });
  await put(files, path, bytes);
  return { source: await files.open(path), bytes };
});

describe("S3Files", () => {
  const large = randomBytes(21_000_000, 9);

  it("writes and reads an object of several parts", async () => {
    const path = `${folder()}/large`;
    const files = new S3Files();
    const sink = await files.create(path);
    const writes: Promise<void>[] = [];
    for (let at = 0; at < large.length; at += 700_000) writes.push(sink.write(large.subarray(at, at + 700_000)));
    await Promise.all(writes);
    expect(await files.stat(path)).toBeUndefined();
    await sink.close();
    const source = await files.open(path);
    expectBytes(await source.read(0, source.size), large);
    expectBytes(await source.read(8_388_600, 20), large.subarray(8_388_600, 8_388_620));
    expect(await uploads()).toBe(0);
  });

  it("leaves nothing of a large file that is aborted, or whose name is taken when it is closed", async () => {
    const files = new S3Files();
    const path = `${folder()}/large`;
    const sink = await files.create(path);
    await sink.write(large);
    await sink.abort();
    expect(await files.stat(path)).toBeUndefined();
    const late = await files.create(path);
    await late.write(large);
    await put(files, path, Uint8Array.of(1));
    await expect(late.close()).rejects.toMatchObject({ code: "exists", file: path });
    expect((await files.stat(path))?.size).toBe(1);
    expect(await uploads()).toBe(0);
  });

  it("notices that an object changed while it is read, and reads the new one when it is opened again", async () => {
    const files = new S3Files();
    const path = `${folder()}/changing`;
    await put(files, path, large.subarray(0, 1_000_000));
    const source = await files.open(path);
    const Key = path.slice(ROOT.length + 1);
    await client.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body: large.subarray(5, 1_000_005) }));
    await expect(source.read(900_000, 10)).rejects.toMatchObject({ code: "file-changed", file: path });
    expectBytes(await (await files.open(path)).read(900_000, 10), large.subarray(900_005, 900_015));
  });

  it("lists more entries than come at a time", async () => {
    const files = new S3Files();
    const root = folder();
    const names = Array.from({ length: 1100 }, (_, i) => `f${String(i).padStart(4, "0")}`);
    for (let i = 0; i < names.length; i += 50) {
      await Promise.all(names.slice(i, i + 50).map((name) => put(files, `${root}/${name}`, Uint8Array.of(1))));
    }
    expect((await files.list(root)).map(({ path }) => path)).toEqual(names.map((name) => `${root}/${name}`));
    await files.remove(root);
    expect(await files.stat(root)).toBeUndefined();
  });

  it("tells what is wrong: no bucket, no key, wrong credentials, no server", async () => {
    const files = new S3Files();
    await expect(files.open("s3://no-such-bucket-here/x")).rejects.toMatchObject({ code: "not-found" });
    await expect(files.open(`${ROOT}/nope`)).rejects.toMatchObject({ code: "not-found" });
    await expect(files.open("s3:///x")).rejects.toMatchObject({ code: "usage" });
    const credentials = { accessKeyId: "test", secretAccessKey: "wrong-one" };
    const wrong = new S3Files({ client: new S3Client({ forcePathStyle: true, credentials }) });
    await expect(wrong.open(`${ROOT}/x`)).rejects.toMatchObject({ code: "read-failed", actual: 403 });
    const gone = new S3Client({ forcePathStyle: true, endpoint: "http://127.0.0.1:9", maxAttempts: 1 });
    await expect(new S3Files({ client: gone }).open(`${ROOT}/x`)).rejects.toMatchObject({ code: "read-failed" });
  });

  it("writes a directory with the file that names the others last, and replaces none", async () => {
    const files = new S3Files();
    const path = `${folder()}/model`;
    const tensors = ["a", "b"].map(
      (key) => [key, { dtype: "uint8", shape: [2], data: Uint8Array.of(1, 2) }] as [string, SavedTensor],
    );
    await saveSafetensors(path, tensors, { files, maxShardSize: 2 });
    const model = await openSafetensors(path, { files });
    expectBytes(await (await model.data("b")).read(0, 2), Uint8Array.of(1, 2));
    await expect(saveSafetensors(path, tensors, { files })).rejects.toMatchObject({ code: "exists" });
    const replacing = saveSafetensors(path, tensors, { files, overwrite: true });
    await expect(replacing).rejects.toMatchObject({ code: "unsupported-operation" });
    expect((await files.list(path)).length).toBe(3);
    const failing = replaceDirectory(files, `${path}-2`, false, async (folder) => {
      await put(files, joinPath(folder, "x"), Uint8Array.of(1));
      throw new Error("no room");
    });
    await expect(failing).rejects.toThrow("no room");
    expect(await files.stat(`${path}-2`)).toBeUndefined();
  });

  it("is what the command line reads and writes", async () => {
    const files = new S3Files();
    const root = folder();
    await put(files, `${root}/model.safetensors`, readFixture("safetensors/model.safetensors"));
    await put(files, `${root}/in/saved_model.pb`, readFixture("cpb/models/bigconst/saved_model.pb"));
    const bin = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
    const cairn = (...args: string[]) => spawnSync(process.execPath, [bin, ...args], { encoding: "utf8" });
    const listed = cairn("tensors", `${root}/model.safetensors`, "--json", "-q");
    expect(listed.stderr).toBe("");
    expect(JSON.parse(listed.stdout).tensors.length).toBe(7);
    const split = cairn("split", `${root}/in`, `${root}/out`, "--max-chunk-size", "20000", "-q");
    expect([split.status, split.stderr]).toEqual([0, expect.stringMatching(/^(warning: .*\n)*$/)]);
    expect(cairn("verify", `${root}/out`).status).toBe(0);
    expect(cairn("merge", `${root}/out`, `${root}/back`, "-q").status).toBe(0);
    const back = await files.open(`${root}/back/saved_model.pb`);
    expectBytes(await back.read(0, back.size), readFixture("cpb/models/bigconst/saved_model.pb"));
  });

  it("is what a conversion reads and writes, in every format", () => {
    const root = folder();
    const bin = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
    const cairn = (...args: string[]) => spawnSync(process.execPath, [bin, ...args, "-q"], { encoding: "utf8" });
    const source = fixturePath("checkpoints/keras_model/ckpt-1");
    let from = source;
    for (const [out, ...options] of [
      ["ckpt/k", "--to", "checkpoint"],
      ["k.safetensors"],
      ["shards", "--to", "safetensors", "--max-shard-size", "200"],
      ["training", "--to", "elasticdl", "--num-ps", "2"],
      ["back/k", "--to", "checkpoint"],
    ] as const) {
      const path = `${root}/${out}`;
      expect(cairn("convert", from, path, ...options), out).toMatchObject({ status: 0, stderr: "" });
      expect(cairn("diff", source, path), out).toMatchObject({ status: 0, stderr: "" });
      from = path;
    }
    const again = cairn("convert", source, `${root}/back/k`, "--to", "checkpoint", "--json");
    expect([again.status, JSON.parse(again.stdout).error.code]).toEqual([2, "exists"]);
    expect(cairn("convert", from, `${from}/`, "--to", "checkpoint").status).toBe(2);
  });
});
