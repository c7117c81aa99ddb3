import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { checkpointFormat } from "../../src/formats/checkpoint/index.js";
import { verify } from "../../src/ops/verify.js";
import { EXPECTED, keyOf } from "../support/checkpoint-fixtures.js";
import { tensorsOf } from "../support/checkpoint-values.js";
import { readFixture } from "../support/fixtures.js";

/** The files of a fixture in memory, as `c.index` and so on. */
function filesOf(prefix: string): Map<string, Uint8Array<ArrayBuffer>> {
  const [folder, name] = [prefix.slice(0, prefix.lastIndexOf("/")), prefix.slice(prefix.lastIndexOf("/") + 1)];
  const files = Object.keys(EXPECTED[prefix]!.files);
  return new Map(files.map((file) => [`c${file.slice(name.length)}`, readFixture(`checkpoints/${folder}/${file}`)]));
}

const DATA = "c.data-00000-of-00001";
const flip = (bytes: Uint8Array, at: number, bit = 1): Uint8Array<ArrayBuffer> => {
  const flipped = new Uint8Array(bytes);
  flipped[at] = (flipped[at] as number) ^ bit;
  return flipped;
};

/** The sha256 of each tensor that can be read, or the code of the error in its way. */
async function outcomeOf(store: MemoryStore): Promise<Record<string, string>> {
  const codeOf = (error: unknown): string => {
    expect(error).toMatchObject({ code: expect.any(String), file: expect.stringMatching(/^c\./) });
    return (error as { code: string }).code;
  };
  const found: Record<string, string> = {};
  let reader: Awaited<ReturnType<typeof openCheckpoint>>;
  try {
    reader = await openCheckpoint("c", { files: store });
  } catch (error) {
    return { open: codeOf(error) };
  }
  try {
    for await (const { key } of reader.tensors()) {
      try {
        const data = await reader.data(key);
        found[key] = Buffer.from(await data.read(0, data.size)).toString("hex");
        await reader.verify();
      } catch (error) {
        found[key] = codeOf(error);
      }
    }
  } catch (error) {
    found.tensors = codeOf(error);
  }
  return found;
}

describe("a damaged checkpoint", () => {
  // A string, strings, slices of two dtypes, a variant, and plain numbers among them.
  it.each(["variant/tensorlist", "crafted/aligned64", "crafted/bigendian", "names/nonutf8"])(
    "%s gives right values or an error for every changed byte of its data",
    async (prefix) => {
      const files = filesOf(prefix);
      const good = await outcomeOf(new MemoryStore(files));
      const bytes = files.get(DATA)!;
      let failures = 0;
      for (let at = 0; at < bytes.length; at++) {
        const outcome = await outcomeOf(new MemoryStore([...files, [DATA, flip(bytes, at)]]));
        for (const [key, value] of Object.entries(outcome)) {
          if (value === good[key]) continue;
          failures++;
          expect(["tensor-checksum", "tensor-data", "truncated", "invalid-wire"]).toContain(value);
        }
      }
      expect(failures).toBeGreaterThan(bytes.length / 4);
    },
  );

  it.each(["names/nonutf8", "crafted/aligned64"])(
    "%s gives right values or an error for every changed byte of its index",
    async (prefix) => {
      const files = filesOf(prefix);
      const good = await outcomeOf(new MemoryStore(files));
      const bytes = files.get("c.index")!;
      for (let at = 0; at < bytes.length; at++) {
        const outcome = await outcomeOf(new MemoryStore([...files, ["c.index", flip(bytes, at, 0x10)]]));
        for (const [key, value] of Object.entries(outcome)) {
          if (value !== good[key]) expect(["table-footer", "table-block", "table-entry", "truncated"]).toContain(value);
        }
      }
    },
  );

  it("gives right values or an error for every length that its data are cut to", async () => {
    const files = filesOf("sliced_dtypes/m");
    const expected = new Map(EXPECTED["sliced_dtypes/m"]!.tensors!.map((tensor) => [keyOf(tensor), tensor.sha256]));
    const data = files.get("c.data-00000-of-00002")!;
    for (let length = 0; length < data.length; length += 37) {
      const store = new MemoryStore([...files, ["c.data-00000-of-00002", data.subarray(0, length)]]);
      const reader = await openCheckpoint("c", { files: store });
      for await (const { key } of reader.tensors()) {
        const result = await reader.data(key).then(
          (source) => source.read(0, source.size),
          (error) => error,
        );
        if (result instanceof Error) expect(result).toMatchObject({ code: "truncated", file: "c.data-00000-of-00002" });
        else expect(expected.has(key)).toBe(true);
      }
    }
  });

  it("names file, key and offset of a wrong checksum", async () => {
    const files = filesOf("crafted/aligned64");
    const { offset } = EXPECTED["crafted/aligned64"]!.tensors!.find(({ key }) => key === "y")!;
    const reader = await openCheckpoint("c", {
      files: new MemoryStore([...files, [DATA, flip(files.get(DATA)!, offset! + 3)]]),
    });
    const keys: string[] = [];
    for await (const { key } of reader.tensors()) {
      const data = await reader.data(key).catch((error) => error);
      const bytes = data instanceof Error ? data : await data.read(0, data.size).catch((error: unknown) => error);
      if (bytes instanceof Error) {
        keys.push(key);
        expect(bytes.message).toMatch(
          /^c\.data-00000-of-00001@0x[0-9a-f]+: checksum of "y": expected 0x[0-9a-f]{8}, got 0x[0-9a-f]{8}$/,
        );
      }
    }
    expect(keys.length).toBe(1);
    await expect(async () => {
      for await (const _ of reader.readAll());
    }).rejects.toMatchObject({ code: "tensor-checksum", offset });
    await expect(reader.verifyAll()).rejects.toMatchObject({ code: "tensor-checksum", offset });
    const good = await openCheckpoint("c", { files: new MemoryStore(files) });
    const counts: number[] = [];
    await good.verifyAll({ onBytes: (count) => counts.push(count) });
    expect(counts).toEqual([16, 12, 24, 32]);
  });

  it("says which data file is missing, and for which tensor", async () => {
    const files = filesOf("default_two_devices/by_device");
    files.delete("c.data-00001-of-00002");
    const reader = await openCheckpoint("c", { files: new MemoryStore(files) });
    const errors: Error[] = [];
    let good = 0;
    for await (const { key } of reader.tensors()) {
      await reader.data(key).then(
        () => good++,
        (error) => errors.push(error),
      );
    }
    expect(good).toBeGreaterThan(0);
    expect(errors[0]?.message).toMatch(/^c\.data-00001-of-00002: the data file of ".+" is missing$/);
    expect(errors[0]).toMatchObject({ code: "not-found" });
  });

  it("says that there is none when the index is missing", async () => {
    const files = filesOf("crafted/aligned64");
    files.delete("c.index");
    const store = new MemoryStore(files);
    for (const path of ["c", DATA]) {
      const detection = (await checkpointFormat.detect(store, path))!;
      await expect(checkpointFormat.openTensors!(detection)).rejects.toMatchObject({
        code: "not-found",
        file: "c.index",
      });
      expect((await verify(store, path)).findings).toMatchObject([{ code: "not-found", file: "c.index" }]);
    }
    expect(await checkpointFormat.detect(new MemoryStore(), "c")).toBeUndefined();
  });

  it("says that a key is not there", async () => {
    const reader = await openCheckpoint("c", { files: new MemoryStore(filesOf("crafted/aligned64")) });
    await expect(reader.data("nothing")).rejects.toThrow('c.index: no tensor "nothing"');
    await expect(reader.info("")).rejects.toMatchObject({ code: "no-such-key" });
    await expect(reader.info("hex:zz")).rejects.toMatchObject({ code: "usage" });
  });
});

describe("verifying a checkpoint", () => {
  it.each(Object.keys(EXPECTED))("finds %s good", async (prefix) => {
    const files = filesOf(prefix);
    const report = await verify(new MemoryStore(files), "c");
    expect(report).toMatchObject({ ok: true, format: "checkpoint", findings: [] });
    expect(report.good.length).toBeGreaterThan((EXPECTED[prefix]!.tensors ?? []).length);
  });

  it("goes on after each finding and names what is good", async () => {
    const files = filesOf("module_adam_v1opt/ckpt-1");
    const bytes = files.get(DATA)!;
    for (const at of [20, 500, 2000]) bytes[at] = (bytes[at] as number) ^ 1;
    const { ok, findings, good } = await verify(new MemoryStore(files), "c");
    expect(ok).toBe(false);
    expect(findings.map(({ code, key, offset }) => [code, key, offset])).toEqual([
      ["tensor-checksum", "model/table/emb/.ATTRIBUTES/VARIABLE_VALUE", 16],
      ["tensor-checksum", "model/layers/0/b/.ATTRIBUTES/VARIABLE_VALUE", 476],
      ["tensor-checksum", "model/layers/1/w/.OPTIMIZER_SLOT/optimizer/v/.ATTRIBUTES/VARIABLE_VALUE", 1992],
    ]);
    expect(good.length).toBe(18);
  });

  it("finds the damage of one block of the index, and what the others name good", async () => {
    const files = filesOf("many/many");
    const index = files.get("c.index")!;
    const { findings, good } = await verify(new MemoryStore([...files, ["c.index", flip(index, 300_000)]]), "c");
    expect(findings[0]).toMatchObject({ severity: "error", code: "table-block", file: "c.index" });
    expect(good.length).toBeGreaterThan(1000);
  });

  it("tells of files that nothing names, of a missing one, and of what is left of a replacement", async () => {
    const files = filesOf("default_two_devices/by_device");
    const orphan = new Uint8Array(3);
    files.set("c.data-00000-of-00005", orphan);
    files.set(".c.index.cairn-0123456789abcdef.new", orphan);
    files.set("c.cairn.json", new TextEncoder().encode("{"));
    const report = await verify(new MemoryStore(files), "c");
    expect(report.ok).toBe(true);
    expect(report.findings).toMatchObject([
      { severity: "warning", code: "orphan-file", file: "c.data-00000-of-00005" },
      { severity: "warning", code: "orphan-file", file: ".c.index.cairn-0123456789abcdef.new" },
      { severity: "warning", code: "invalid-sidecar", file: "c.cairn.json" },
    ]);
    files.delete("c.data-00001-of-00002");
    const missing = await verify(new MemoryStore(files), "c");
    expect(missing.ok).toBe(false);
    expect(missing.findings[0]).toMatchObject({ severity: "error", code: "not-found", file: "c.data-00001-of-00002" });
  });

  it("is as good in the checkpoints that it reads back", async () => {
    const store = new MemoryStore(filesOf("sliced_dtypes/m"));
    expect((await tensorsOf(store, "c")).size).toBe(25);
  });
});

describe("finding a checkpoint", () => {
  const found = async (files: Iterable<readonly [string, Uint8Array]>, path: string) =>
    (await checkpointFormat.detect(new MemoryStore(files), path))?.notes;
  const under = (folder: string, name: string) =>
    [...filesOf("crafted/aligned64")].map(([path, bytes]) => [`${folder}/${name}${path.slice(1)}`, bytes] as const);

  it("takes a prefix, an index, a data file, a directory with one, and a state file", async () => {
    const one = under("d", "model.ckpt-30");
    const state = ["d/checkpoint", new TextEncoder().encode('model_checkpoint_path: "model.ckpt-30"')] as const;
    for (const path of ["d/model.ckpt-30", "d/model.ckpt-30.index", "d/model.ckpt-30.data-00000-of-00001", "d", "d/"]) {
      expect(await found(one, path)).toEqual([]);
    }
    expect(await found([...one, state], "d/checkpoint")).toEqual([]);
    const two = [...one, ...under("d", "other")];
    expect(await found(two, "d")).toEqual([expect.stringContaining("no state file tells the latest of 2")]);
    expect(await found([...two, state], "d")).toEqual(["the latest of 2 checkpoints in d is model.ckpt-30"]);
  });

  it("leaves alone what is something else", async () => {
    const text = new TextEncoder().encode("nothing of that kind, but long enough for a footer of a table, is it not?");
    expect(await found([["x.index", text]], "x.index")).toBeUndefined();
    expect(await found([["x", text]], "x")).toBeUndefined();
    expect(await found([["d/x", text]], "d")).toBeUndefined();
    expect(await found([["d/checkpoint", text]], "d/checkpoint")).toBeUndefined();
    expect(await found([], "")).toBeUndefined();
  });
});
