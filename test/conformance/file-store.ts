import { afterEach, describe, expect, it } from "vitest";
import { replaceDirectory } from "../../src/bytes/directory.js";
import type { FileStore } from "../../src/bytes/file-store.js";
import { leftoverOf } from "../../src/bytes/leftovers.js";
import { baseName, joinPath } from "../../src/bytes/path.js";
import { CairnError } from "../../src/errors.js";
import { expectBytes } from "../support/bytes.js";
import { CrashingStore, countChanges } from "../support/crashing-store.js";
import { randomBytes } from "../support/odd-sources.js";

/** A store to test, and an empty directory in it. */
export interface MadeStore {
  readonly files: FileStore;
  readonly root: string;
  close?(): Promise<void>;
}

const ONE = randomBytes(70_000, 1);
const TWO = randomBytes(300, 2);

/**
 * What every {@link FileStore} has to do. Each test gets a new one from `make`. A store that `copiesOnRename` replaces no
 * directories.
 */
export function testFileStore(
  name: string,
  make: () => Promise<MadeStore> | MadeStore,
  options: Pick<FileStore, "copiesOnRename"> = {},
): void {
  const made: MadeStore[] = [];
  const open = async () => {
    const one = await make();
    made.push(one);
    const at = (path: string) => joinPath(one.root, path);
    return { files: one.files, at };
  };
  afterEach(async () => {
    for (const one of made.splice(0)) await one.close?.();
  });

  describe(`${name} as a FileStore`, () => {
    it("gives back what was written, whole and in parts", async () => {
      const { files, at } = await open();
      const sink = await files.create(at("dir/file"));
      expect(sink.name).toBe(at("dir/file"));
      const first = sink.write(ONE.subarray(0, 10));
      const second = sink.write([ONE.subarray(10, 11), ONE.subarray(11, 11), ONE.subarray(11, 60_000)]);
      expect(sink.position).toBe(60_000);
      await Promise.all([first, second]);
      await sink.write(ONE.subarray(60_000));
      await sink.close();
      const source = await files.open(at("dir/file"));
      expect(source).toMatchObject({ name: at("dir/file"), size: ONE.length });
      expectBytes(await source.read(0, ONE.length), ONE);
      expectBytes(await source.slice(9, 5).read(1, 3), ONE.subarray(10, 13));
      await source.close();
    });

    it("writes an empty file", async () => {
      const { files, at } = await open();
      await (await files.create(at("empty"))).close();
      expect(await readAll(files, at("empty"))).toEqual(new Uint8Array(0));
    });

    it("replaces bytes that are written already, where it can", async () => {
      const { files, at } = await open();
      const sink = await files.create(at("file"));
      await sink.write(ONE);
      await sink.patch?.(5, Uint8Array.of(1, 2, 3));
      await sink.write(TWO);
      await sink.patch?.(ONE.length, Uint8Array.of(9));
      await sink.close();
      const expected = new Uint8Array([...ONE, ...TWO]);
      if (sink.patch !== undefined) {
        expected.set([1, 2, 3], 5);
        expected[ONE.length] = 9;
      }
      expectBytes(await readAll(files, at("file")), expected);
    });

    it("shows nothing under a name before the file is closed, and lists nothing that looks like it", async () => {
      const { files, at } = await open();
      await write(files, at("other"), TWO);
      const sink = await files.create(at("file"));
      await sink.write(ONE);
      expect(await files.stat(at("file"))).toBeUndefined();
      await expect(files.open(at("file"))).rejects.toMatchObject({ code: "not-found" });
      const names = (await files.list(at(""))).map(({ path }) => baseName(path));
      expect(names.filter((one) => !one.startsWith("."))).toEqual(["other"]);
      await sink.close();
      expect(await files.stat(at("file"))).toMatchObject({ kind: "file", size: ONE.length });
    });

    it("leaves nothing of a file that was aborted, and closing it afterwards does not bring it back", async () => {
      const { files, at } = await open();
      await write(files, at("other"), TWO);
      const sink = await files.create(at("file"));
      await sink.write(ONE);
      await sink.abort();
      await sink.abort();
      await sink.close().catch((error: unknown) => expect(error).toBeInstanceOf(CairnError));
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("other")]);
    });

    it("keeps a file that is closed twice, or aborted after it was closed", async () => {
      const { files, at } = await open();
      const sink = await files.create(at("file"));
      await sink.write(ONE);
      await sink.close();
      await sink.close();
      await sink.abort();
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("file")]);
      expectBytes(await readAll(files, at("file")), ONE);
    });

    it("does not replace a file unless asked, even one that appeared meanwhile", async () => {
      const { files, at } = await open();
      const sink = await files.create(at("file"));
      await sink.write(TWO);
      await write(files, at("file"), ONE);
      await expect(sink.close()).rejects.toMatchObject({ code: "exists", file: at("file") });
      await sink.abort();
      await expect(write(files, at("file"), TWO)).rejects.toMatchObject({ code: "exists", file: at("file") });
      expectBytes(await readAll(files, at("file")), ONE);
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("file")]);
    });

    it("replaces a file at the close of the new one, while the old one stays readable", async () => {
      const { files, at } = await open();
      await write(files, at("file"), ONE);
      const old = await files.open(at("file"));
      const sink = await files.create(at("file"), { overwrite: true, expectedBytes: TWO.length });
      await sink.write(TWO);
      expectBytes(await readAll(files, at("file")), ONE);
      await sink.close();
      expectBytes(await readAll(files, at("file")), TWO);
      const left = await old.read(0, old.size).catch((error: unknown) => error);
      // An object store has no more of the old one than was read of it.
      if (left instanceof Uint8Array) expectBytes(left, ONE);
      else expect([files.copiesOnRename, left]).toEqual([true, expect.objectContaining({ code: "file-changed" })]);
      await old.close();
    });

    it("leaves the old file when the new one is aborted", async () => {
      const { files, at } = await open();
      await write(files, at("file"), ONE);
      const sink = await files.create(at("file"), { overwrite: true });
      await sink.write(TWO);
      await sink.abort();
      expectBytes(await readAll(files, at("file")), ONE);
    });

    it("writes two files of a name at once without mixing them", async () => {
      const { files, at } = await open();
      const [first, second] = await Promise.all([1, 2].map(() => files.create(at("file"), { overwrite: true })));
      await Promise.all([first!.write(ONE), second!.write(TWO)]);
      await second!.close();
      expectBytes(await readAll(files, at("file")), TWO);
      await first!.close();
      expectBytes(await readAll(files, at("file")), ONE);
    });

    it("gives a file that was replaced another identity, where it has one", async () => {
      const { files, at } = await open();
      await write(files, at("file"), TWO);
      const first = await files.stat(at("file"));
      expect((await files.stat(at("file")))?.identity).toBe(first?.identity);
      const sink = await files.create(at("file"), { overwrite: true });
      // As long as the first: only the contents differ. An object store may give equal contents one identity.
      await sink.write(files.copiesOnRename ? TWO.toReversed() : TWO);
      await sink.close();
      if (first?.identity !== undefined) expect((await files.stat(at("file")))?.identity).not.toBe(first.identity);
    });

    it("tells what a path is", async () => {
      const { files, at } = await open();
      await write(files, at("dir/file"), TWO);
      expect(await files.stat(at("dir/file"))).toMatchObject({ path: at("dir/file"), kind: "file", size: TWO.length });
      expect(await files.stat(at("dir"))).toMatchObject({ path: at("dir"), kind: "directory", size: 0 });
      expect(await files.stat(at("di"))).toBeUndefined();
      expect(await files.stat(at("dir/file/below"))).toBeUndefined();
      await expect(files.open(at("missing"))).rejects.toMatchObject({ code: "not-found", file: at("missing") });
      await expect(files.open(at("dir"))).rejects.toBeInstanceOf(CairnError);
    });

    it("takes a path with a slash at its end, or with a step that stays where it is, for the path", async () => {
      const { files, at } = await open();
      await write(files, at("./dir//file"), TWO);
      expectBytes(await readAll(files, at("dir/./file")), TWO);
      expect(await files.stat(at("dir/"))).toMatchObject({ kind: "directory" });
      expect((await files.list(at("dir/"))).length).toBe(1);
    });

    it("tells whether two paths lead to the same", async () => {
      const { files, at } = await open();
      await write(files, at("dir/file"), TWO);
      await write(files, at("dir/twin"), TWO);
      expect(await files.isSame(at("dir/file"), at("./dir//file"))).toBe(true);
      expect(await files.isSame(at("dir"), at("dir/"))).toBe(true);
      expect(await files.isSame(at("dir/file"), at("dir/twin"))).toBe(false);
      expect(await files.isSame(at("missing"), at("missing"))).toBe(false);
    });

    it("lists the entries of a directory by name, and not what is below them", async () => {
      const { files, at } = await open();
      for (const path of ["dir/b", "dir/a", "dir/sub/x", "dir/sub/y", "dirt/z", "dir/a.b"]) {
        await write(files, at(path), TWO);
      }
      const entries = await files.list(at("dir"));
      expect(entries.map(({ path, kind, size }) => [path, kind, size])).toEqual([
        [at("dir/a"), "file", TWO.length],
        [at("dir/a.b"), "file", TWO.length],
        [at("dir/b"), "file", TWO.length],
        [at("dir/sub"), "directory", 0],
      ]);
      await expect(files.list(at("missing"))).rejects.toMatchObject({ code: "not-found" });
      await expect(files.list(at("dir/a"))).rejects.toMatchObject({ code: "not-found" });
    });

    it("removes a file or a whole directory, and nothing beside it", async () => {
      const { files, at } = await open();
      for (const path of ["dir/a", "dir/sub/b", "dirt", "file", "file2"]) await write(files, at(path), TWO);
      await files.remove(at("dir"));
      await files.remove(at("file"));
      await files.remove(at("missing"));
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("dirt"), at("file2")]);
    });

    it("gives a file another name, replacing a file of that name", async () => {
      const { files, at } = await open();
      await write(files, at("a"), ONE);
      await write(files, at("b"), TWO);
      await files.rename(at("a"), at("b"));
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("b")]);
      expectBytes(await readAll(files, at("b")), ONE);
      await expect(files.rename(at("missing"), at("c"))).rejects.toBeInstanceOf(CairnError);
    });

    it("gives a directory another name with all that is in it", async () => {
      const { files, at } = await open();
      await write(files, at("dir/a"), ONE);
      await write(files, at("dir/sub/b"), TWO);
      await write(files, at("dirt/c"), TWO);
      await files.rename(at("dir"), at("new"));
      expect(await files.stat(at("dir"))).toBeUndefined();
      expectBytes(await readAll(files, at("new/a")), ONE);
      expectBytes(await readAll(files, at("new/sub/b")), TWO);
      expect((await files.list(at("dirt"))).length).toBe(1);
    });

    it("does not mix a directory with what is there already under its new name", async () => {
      const { files, at } = await open();
      await write(files, at("dir/a"), ONE);
      await write(files, at("there/b"), TWO);
      await write(files, at("file"), TWO);
      await expect(files.rename(at("dir"), at("there"))).rejects.toBeInstanceOf(CairnError);
      await expect(files.rename(at("dir"), at("file"))).rejects.toBeInstanceOf(CairnError);
      await expect(files.rename(at("file"), at("there"))).rejects.toBeInstanceOf(CairnError);
      expectBytes(await readAll(files, at("dir/a")), ONE);
      expect((await files.list(at("there"))).map(({ path }) => path)).toEqual([at("there/b")]);
      expectBytes(await readAll(files, at("file")), TWO);
    });

    it("has scratch room that is read while it is written, and gives it back", async () => {
      const { files, at } = await open();
      const scratch = await files.scratch(ONE.length);
      await scratch.sink.write(TWO);
      expectBytes(await scratch.source().read(0, TWO.length), TWO);
      await scratch.sink.write(ONE);
      const source = scratch.source();
      expect(source.size).toBe(TWO.length + ONE.length);
      expectBytes(await source.slice(TWO.length, ONE.length).read(0, ONE.length), ONE);
      await scratch.dispose();
      await scratch.dispose();
      expect((await files.list(at("")).catch(() => [])).length).toBe(0);
    });

    it("refuses more room than there is", async () => {
      const { files } = await open();
      await expect(files.scratch(2 ** 60)).rejects.toBeInstanceOf(CairnError);
    });
  });

  describe.skipIf(options.copiesOnRename)(`replaceDirectory in ${name}`, () => {
    const fill = (files: FileStore, tag: string) => async (folder: string) => {
      await write(files, joinPath(folder, "saved_model.pb"), new TextEncoder().encode(tag));
      await write(files, joinPath(folder, "variables/index"), new TextEncoder().encode(tag));
      return tag;
    };
    const contents = async (files: FileStore, path: string) => {
      const texts = [];
      for (const file of ["saved_model.pb", "variables/index"]) {
        texts.push(new TextDecoder().decode(await readAll(files, joinPath(path, file))));
      }
      return texts;
    };

    it("makes a directory, and replaces one only when it may", async () => {
      const { files, at } = await open();
      expect(await replaceDirectory(files, at("model"), false, fill(files, "old"))).toBe("old");
      expect(await contents(files, at("model"))).toEqual(["old", "old"]);
      const refused = replaceDirectory(files, at("model"), false, () => expect.fail("it was written"));
      await expect(refused).rejects.toMatchObject({ code: "exists", file: at("model") });
      await replaceDirectory(files, at("model"), true, fill(files, "new"));
      expect(await contents(files, at("model"))).toEqual(["new", "new"]);
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("model")]);
    });

    it("takes a path of one name, and one that ends in a slash", async () => {
      const { files, at } = await open();
      await replaceDirectory(files, `${at("model")}/`, false, fill(files, "old"));
      await replaceDirectory(files, `${at("model")}/`, true, fill(files, "new"));
      expect(await contents(files, at("model"))).toEqual(["new", "new"]);
      expect((await files.list(at(""))).length).toBe(1);
    });

    it("leaves the old directory and nothing else when the writing fails", async () => {
      const { files, at } = await open();
      await replaceDirectory(files, at("model"), false, fill(files, "old"));
      const failing = replaceDirectory(files, at("model"), true, async (folder) => {
        await fill(files, "new")(folder);
        throw new Error("no room");
      });
      await expect(failing).rejects.toThrow("no room");
      expect(await contents(files, at("model"))).toEqual(["old", "old"]);
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("model")]);
    });

    it("has the old directory in its place when the new one cannot take it", async () => {
      const { files, at } = await open();
      await replaceDirectory(files, at("model"), false, fill(files, "old"));
      const refusing: FileStore = Object.assign(Object.create(files), {
        rename: (from: string, to: string) =>
          from.endsWith(".new") ? Promise.reject(new Error("refused")) : files.rename(from, to),
      });
      await expect(replaceDirectory(refusing, at("model"), true, fill(files, "new"))).rejects.toThrow("refused");
      expect(await contents(files, at("model"))).toEqual(["old", "old"]);
      expect((await files.list(at(""))).map(({ path }) => path)).toEqual([at("model")]);
    });

    it("has the whole old or the whole new directory after a crash at any step", async () => {
      const { files, at } = await open();
      const replaced = await countChanges(files, async (store) => {
        await replaceDirectory(files, at("model"), true, fill(files, "old"));
        await replaceDirectory(store, at("model"), true, fill(store, "new"));
      });
      const seen = new Set<string>();
      for (let step = 0; step < replaced; step++) {
        await replaceDirectory(files, at("model"), true, fill(files, "old"));
        const crashing = new CrashingStore(files, step);
        await expect(replaceDirectory(crashing, at("model"), true, fill(crashing, "new"))).rejects.toThrow("crash");
        // The next call finds what the crash left.
        const next = replaceDirectory(files, at("model"), false, () => expect.fail("it was written"));
        await expect(next).rejects.toMatchObject({ code: "exists" });
        const [first, ...more] = await contents(files, at("model"));
        expect(more).toEqual([first]);
        seen.add(first!);
      }
      expect([...seen].sort()).toEqual(["new", "old"]);
      await replaceDirectory(files, at("model"), true, fill(files, "last"));
      // Others may be at work, so that what a crash left is only told by its name.
      const others = (await files.list(at(""))).filter((entry) => leftoverOf(entry)?.kind !== "new");
      expect(others.map(({ path }) => path)).toEqual([at("model")]);
    });
  });
}

async function write(files: FileStore, path: string, bytes: Uint8Array): Promise<void> {
  const sink = await files.create(path);
  await sink.write(bytes);
  await sink.close();
}

async function readAll(files: FileStore, path: string): Promise<Uint8Array> {
  const source = await files.open(path);
  const bytes = new Uint8Array(await source.read(0, source.size));
  await source.close();
  return bytes;
}
