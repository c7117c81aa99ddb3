import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { FileInfo } from "../../src/bytes/file-store.js";
import { CairnError } from "../../src/errors.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { WRITERS } from "./writers.js";

/** How calls of the system go wrong; `at` counts the calls of the kind. */
const fault = vi.hoisted(() => ({
  kind: "none" as "none" | "write" | "sync" | "name" | "short",
  code: "EIO",
  at: 0,
  calls: 0,
  meet(kind: string): void {
    if (kind !== this.kind) return;
    if (this.calls++ < this.at) return;
    // A full disk stays full; other failures come once.
    if (this.code !== "ENOSPC" && this.calls - 1 > this.at) return;
    throw Object.assign(new Error(`${this.code}: as the test wants it`), { code: this.code });
  },
}));

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  return {
    ...fs,
    writevSync(fd: number, pieces: Uint8Array[], position: number) {
      fault.meet("write");
      if (fault.kind !== "short") return fs.writevSync(fd, pieces, position);
      const [first] = pieces.filter(({ length }) => length > 0) as [Uint8Array];
      return fs.writeSync(fd, first, 0, Math.ceil(first.length / 2), position);
    },
    writeSync(fd: number, bytes: Uint8Array, offset: number, length: number, position: number) {
      fault.meet("write");
      return fs.writeSync(fd, bytes, offset, fault.kind === "short" ? Math.ceil(length / 2) : length, position);
    },
  };
});

vi.mock("node:fs/promises", async (original) => {
  const fs = await original<typeof import("node:fs/promises")>();
  const named = <Args extends unknown[], Result>(call: (...args: Args) => Promise<Result>) => {
    return async (...args: Args): Promise<Result> => {
      fault.meet("name");
      return call(...args);
    };
  };
  return {
    ...fs,
    link: named(fs.link),
    rename: named(fs.rename),
    mkdir: named(fs.mkdir),
    async open(path: string, flags: string) {
      const handle = await fs.open(path, flags);
      const { writev } = handle;
      handle.writev = (async (pieces: readonly Uint8Array[], position?: number) => {
        fault.meet("write");
        if (fault.kind !== "short") return writev.call(handle, pieces, position);
        const first = pieces[0]!;
        const { bytesWritten } = await handle.write(first, 0, Math.ceil(first.byteLength / 2), position);
        return { bytesWritten, buffers: pieces };
      }) as typeof writev;
      // The disk is not waited for.
      handle.sync = async () => fault.meet(flags === "r" ? "directory" : "sync");
      return handle;
    },
  };
});

/** Local files below a directory, by paths relative to it. */
class FilesBelow extends LocalFiles {
  private readonly root: string;
  constructor(root: string) {
    super();
    this.root = root;
  }
  private at = (path: string) => join(this.root, path);
  private shown = (info: FileInfo): FileInfo => ({ ...info, path: relative(this.root, info.path) });
  override open(path: string) {
    return super.open(this.at(path));
  }
  override async stat(path: string) {
    // The lists of the class come here too, with paths from the root of the disk.
    if (path.startsWith(this.root)) return super.stat(path);
    const info = await super.stat(this.at(path));
    return info && { ...info, path };
  }
  override isSame(a: string, b: string) {
    return super.isSame(this.at(a), this.at(b));
  }
  override async list(path: string) {
    return (await super.list(this.at(path))).map(this.shown);
  }
  override create(path: string, options?: object) {
    return super.create(this.at(path), options);
  }
  override remove(path: string) {
    return super.remove(this.at(path));
  }
  override removeEmptyDirectory(path: string) {
    return super.removeEmptyDirectory(this.at(path));
  }
  override rename(from: string, to: string) {
    return super.rename(this.at(from), this.at(to));
  }
}

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "cairn-disk-"));
});
afterEach(() => {
  fault.kind = "none";
  rmSync(root, { recursive: true, force: true });
});

const chosen = WRITERS.filter(({ name }) =>
  [
    "split a directory, replacing",
    "replace a checkpoint",
    "convert to safetensors at out/m",
    "reshard a training",
  ].includes(name),
);

function temporaries(): string[] {
  return (readdirSync(root, { recursive: true, encoding: "utf8" }) as string[]).filter((name) => name.endsWith(".tmp"));
}

describe.each(chosen)("$name, on a disk", (writer) => {
  it.each([
    ["write", "ENOSPC"],
    ["write", "EIO"],
    ["sync", "EIO"],
    ["name", "EACCES"],
    ["name", "EROFS"],
  ] as const)("leaves the old state or the new one when a %s fails with %s", async (kind, code) => {
    let failures = 0;
    for (let at = 0; ; at = Math.ceil((at + 1) * 1.5)) {
      const files = new FilesBelow(mkdtempSync(join(root, "run-")));
      await writer.prepare(files);
      const before = await writer.contents(files);
      Object.assign(fault, { kind, code, at, calls: 0 });
      const error = await writer.run(files).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      const isMet = fault.calls > at;
      fault.kind = "none";
      const found = await writer.contents(files);
      if (error !== undefined) {
        expect(error).toBeInstanceOf(CairnError);
        expect(error).toMatchObject({ code: "write-failed" });
        failures++;
      }
      expect(temporaries()).toEqual([]);
      if (found === before) await writer.run(files);
      const after = await writer.contents(files);
      expect(after).not.toBe(before);
      if (found !== before) expect(found).toBe(after);
      if (!isMet) break;
    }
    expect(failures).toBeGreaterThan(0);
  });

  it("is written whole by a disk that takes half of each write", async () => {
    const files = new FilesBelow(root);
    await writer.prepare(files);
    const before = await writer.contents(files);
    fault.kind = "short";
    await writer.run(files);
    fault.kind = "none";
    expect(await writer.contents(files)).not.toBe(before);
  });
});
