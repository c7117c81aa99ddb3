import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { applyRetention, planRetention } from "../../src/formats/elasticdl/retention.js";
import { TrainingDirectory } from "../../src/formats/elasticdl/versioned.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { writeSafetensors } from "../../src/formats/safetensors/write.js";
import { openTensors } from "../../src/ops/tensors.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { interleaved, seededRandom } from "../support/interleaving-store.js";
import { randomBytes } from "../support/odd-sources.js";
import { modelAt, planWith, tensorsAt } from "./writers.js";

const SEEDS = Array.from({ length: 25 }, (_, i) => i + 1);

/** Runs programs at once, whose operations take turns by a seed; errors have to be typed. Gives how many ended well. */
async function together(seed: number, store: FileStore, programs: readonly ((files: FileStore) => Promise<unknown>)[]) {
  const random = seededRandom(seed * 7919);
  const ends = await Promise.allSettled(programs.map((program) => program(interleaved(store, random))));
  const errors = ends.flatMap((end) => (end.status === "rejected" ? [end.reason] : []));
  for (const error of errors) if (!(error instanceof CairnError)) throw error;
  return ends.length - errors.length;
}

/** The one number that every element of a path has; a mix is an error. */
async function numberAt(files: FileStore, path: string): Promise<number> {
  const { tensors } = await openTensors(files, path);
  try {
    const values = new Set<number>();
    for await (const { key } of tensors.tensors()) {
      const data = await tensors.data(key);
      const bytes = (await data.read(0, data.size)).slice();
      for (const value of new Float32Array(bytes.buffer)) values.add(value);
    }
    await tensors.verify();
    expect([...values]).toHaveLength(1);
    return [...values][0] as number;
  } finally {
    await tensors.close();
  }
}

describe("two savers at once", () => {
  it.each([false, true])("of one prefix leave the one or the other (overwrite: %s)", async (overwrite) => {
    const winners = new Set<number>();
    for (const seed of SEEDS) {
      const store = new MemoryStore();
      if (overwrite) await writeCheckpoint(store, "d/c", planWith(9, 4));
      const done = await together(seed, store, [
        (files) => writeCheckpoint(files, "d/c", planWith(1, 2), { overwrite }),
        (files) => writeCheckpoint(files, "d/c", planWith(2, 3), { overwrite }),
      ]);
      const value = await numberAt(store, "d/c");
      expect([1, 2], `seed ${seed}`).toContain(value);
      expect(done).toBeGreaterThan(0);
      if (!overwrite) expect(done).toBe(1);
      winners.add(value);
    }
    expect(winners.size).toBe(2);
  });

  it("of one new prefix refuse the one that comes second, however early it began", async () => {
    const store = new MemoryStore();
    const first = () => writeCheckpoint(store, "d/c", planWith(1, 2));
    const second = writeCheckpoint(store, "d/c", planWith(2, 2), { beforeCommit: async () => void (await first()) });
    await expect(second).rejects.toMatchObject({ code: "exists", file: "d/c.index" });
    expect(await numberAt(store, "d/c")).toBe(1);
    expect((await store.list("d")).map(({ path }) => path).filter((path) => path.includes("/."))).toEqual([]);
  });

  it("of one prefix do not take away what the other is still writing", async () => {
    const store = new MemoryStore();
    await writeCheckpoint(store, "d/c", planWith(9, 4));
    const first = () => writeCheckpoint(store, "d/c", planWith(1, 5), { overwrite: true });
    const beforeCommit = async () => void (await first());
    await writeCheckpoint(store, "d/c", planWith(2, 2), { overwrite: true, beforeCommit });
    expect(await numberAt(store, "d/c")).toBe(2);
  });

  it("of one prefix refuse the one whose files somebody has taken away", async () => {
    const store = new MemoryStore();
    await writeCheckpoint(store, "d/c", planWith(1, 2));
    const tidy = async () => {
      for (const { path } of await store.list("d")) if (path.includes(".cairn-")) await store.remove(path);
    };
    const save = writeCheckpoint(store, "d/c", planWith(2, 2), { overwrite: true, beforeCommit: tidy });
    await expect(save).rejects.toMatchObject({ code: "file-changed" });
    expect(await numberAt(store, "d/c")).toBe(1);
  });

  it.each([false, true])("of one directory leave the one or the other (overwrite: %s)", async (overwrite) => {
    for (const seed of SEEDS) {
      const store = new MemoryStore();
      if (overwrite) await writeSafetensors(store, "m", planWith(9, 4));
      const done = await together(seed, store, [
        (files) => writeSafetensors(files, "m", planWith(1, 2), { overwrite }),
        (files) => writeSafetensors(files, "m", planWith(2, 3), { overwrite }),
      ]);
      expect([1, 2], `seed ${seed}`).toContain(await numberAt(store, "m"));
      expect(done).toBeGreaterThan(0);
    }
  });

  it("of one version of a training leave the one or the other", async () => {
    for (const seed of SEEDS) {
      const store = new MemoryStore();
      const contents = (count: number) => ({ ...modelAt(5), dense: modelAt(5).dense.slice(0, count) });
      await writeVersion(store, "ckpt", contents(0), { psNum: 4 });
      const done = await together(seed, store, [
        (files) => writeVersion(files, "ckpt", contents(1), { psNum: 2, overwrite: true }),
        (files) => writeVersion(files, "ckpt", contents(3), { psNum: 3, overwrite: true }),
      ]);
      const found = await tensorsAt(store, "ckpt/version_5");
      expect(found).toMatch(done === 0 ? /^1 tensors/ : /^(2|4) tensors/);
    }
  });
});

describe("who reads while it is written", () => {
  it("finds a whole checkpoint or a typed error while it is replaced", async () => {
    const seen = new Set<number>();
    for (const seed of SEEDS) {
      const store = new MemoryStore();
      await writeCheckpoint(store, "d/c", planWith(1, 3));
      const read = async (files: FileStore) => void seen.add(await numberAt(files, "d/c"));
      await together(seed, store, [
        (files) => writeCheckpoint(files, "d/c", planWith(2, 2), { overwrite: true }),
        ...Array.from({ length: 8 }, () => read),
      ]);
      expect(await numberAt(store, "d/c")).toBe(2);
    }
    expect([...seen].filter((value) => value !== 1 && value !== 2)).toEqual([]);
    expect(seen.has(1)).toBe(true);
  });

  it("finds a whole directory or a typed error while it is replaced", async () => {
    const seen = new Set<number>();
    for (const seed of SEEDS) {
      const store = new MemoryStore();
      await writeSafetensors(store, "m", planWith(1, 3));
      const read = async (files: FileStore) => void seen.add(await numberAt(files, "m"));
      const done = await together(seed, store, [
        (files) => writeSafetensors(files, "m", planWith(2, 2), { overwrite: true }),
        ...Array.from({ length: 6 }, () => read),
      ]);
      expect(done).toBeGreaterThan(0);
      expect([1, 2]).toContain(await numberAt(store, "m"));
    }
    expect([...seen].filter((value) => value !== 1 && value !== 2)).toEqual([]);
  });

  it("finds a complete version while others are saved and removed", async () => {
    for (const seed of SEEDS.slice(0, 10)) {
      const store = new MemoryStore();
      for (const version of [1, 2, 3]) await writeVersion(store, "ckpt", modelAt(version), { psNum: 2 });
      const latest: (number | undefined)[] = [];
      await together(seed, store, [
        (files) => writeVersion(files, "ckpt", modelAt(4), { psNum: 3 }),
        async (files) => {
          const { versions } = await new TrainingDirectory(files, "ckpt").list();
          const retained = versions.map(({ version, path, isComplete }) => ({
            modelVersion: version,
            path,
            isComplete,
            shards: [],
          }));
          await applyRetention(files, "ckpt", planRetention(retained, { keepMax: 1 }));
        },
        ...Array.from({ length: 4 }, () => async (files: FileStore) => {
          latest.push((await new TrainingDirectory(files, "ckpt").latest()).latest?.version);
        }),
      ]);
      expect(latest.filter((version) => version !== 3 && version !== 4)).toEqual([]);
      expect((await new TrainingDirectory(store, "ckpt").latest()).latest?.version).toBe(4);
    }
  });

  it("reads one file in many places at once", async () => {
    const folder = mkdtempSync(join(tmpdir(), "cairn-readers-"));
    try {
      const bytes = randomBytes(3_000_000, 5);
      writeFileSync(join(folder, "file"), bytes);
      const source = await new LocalFiles().open(join(folder, "file"));
      const random = seededRandom(3);
      const reads = Array.from({ length: 200 }, async () => {
        const offset = Math.floor(random() * 2_000_000);
        const length = Math.floor(random() * 900_000);
        const part = await source.read(offset, length);
        expect(Buffer.compare(part, bytes.subarray(offset, offset + length))).toBe(0);
      });
      await Promise.all(reads);
      await source.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("opens one checkpoint many times at once", async () => {
    const store = new MemoryStore();
    await writeCheckpoint(store, "d/c", planWith(3, 2));
    const values = await Promise.all(Array.from({ length: 40 }, () => numberAt(store, "d/c")));
    expect(new Set(values)).toEqual(new Set([3]));
    const reader = await openCheckpoint("d/c", { files: store });
    const parts = await Promise.all(Array.from({ length: 40 }, async () => (await reader.data("a0")).read(0, 400)));
    expect(new Set(parts.map((part) => part.toString())).size).toBe(1);
    await reader.close();
  });
});
