import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { type ByteSource, SlicedSource, sliceSource } from "../../src/bytes/byte-source.js";
import { joinSources } from "../../src/bytes/joined-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { memoryScratch } from "../../src/bytes/memory-store.js";
import { RepeatedSource } from "../../src/bytes/repeated-source.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { testByteSource } from "../conformance/byte-source.js";
import { expectBytes } from "../support/bytes.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource, randomBytes, ScatteredSource } from "../support/odd-sources.js";

const BYTES = randomBytes(9000);
const MANY = randomBytes(400_000, 2);

testByteSource("MemorySource", () => ({ source: new MemorySource(BYTES), bytes: BYTES }));
testByteSource("a slice of a MemorySource", () => {
  return { source: new MemorySource(BYTES).slice(100, 7000), bytes: BYTES.subarray(100, 7100) };
});
testByteSource("BaseSource", () => ({ source: new PlainSource(MANY), bytes: MANY }));
testByteSource("SlicedSource", () => {
  return { source: new PlainSource(MANY).slice(3, 300_000), bytes: MANY.subarray(3, 300_003) };
});
testByteSource("memory scratch", async () => {
  const { sink, source, dispose } = await memoryScratch();
  await sink.write(BYTES.subarray(0, 5000));
  await sink.write(BYTES.subarray(5000));
  return { source: source(), bytes: BYTES, close: dispose };
});

/** Cuts bytes at random places and makes each part a source of another kind, some joined again from smaller ones. */
function joinedOf(bytes: Uint8Array, seed: number, depth: number): ByteSource {
  const size = bytes.length;
  const cuts = [0.001, 0.0011, 0.02, 0.2, 0.21, 0.5, 0.9, 0.97].map((share) => Math.floor(share * size));
  const places = [0, ...cuts, size];
  const parts = places.slice(1).map((end, i) => {
    const part = bytes.subarray(places[i], end);
    const kind = (i + seed) % 6;
    if (depth > 0 && kind === 0) return joinedOf(part, seed + i, depth - 1);
    if (kind === 1) return new PlainSource(part);
    if (kind === 2) return new ScatteredSource(part, (["ascending", "descending", "own", "mixed"] as const)[i % 4]!, i);
    if (kind === 3) return new PlainSource(concatBytes([BYTES, part, BYTES])).slice(BYTES.length, part.length);
    return new MemorySource(part);
  });
  return joinSources("joined", parts);
}
testByteSource("JoinedSource", () => ({ source: joinedOf(MANY, 0, 0), bytes: MANY }));
testByteSource("a JoinedSource of JoinedSources", () => ({ source: joinedOf(MANY, 1, 2), bytes: MANY }));
testByteSource("a slice over the parts of a JoinedSource", () => {
  return { source: joinedOf(MANY, 3, 1).slice(77, 390_000), bytes: MANY.subarray(77, 390_077) };
});
testByteSource("a JoinedSource of many tiny parts", () => {
  const parts = Array.from({ length: 3000 }, (_, i) => new MemorySource(BYTES.subarray(i * 3, i * 3 + 3)));
  return { source: joinSources("tiny", parts), bytes: BYTES };
});
for (const scatter of ["ascending", "descending", "own", "mixed"] as const) {
  testByteSource(`a source with ${scatter} pieces`, () => ({
    source: new ScatteredSource(MANY, scatter),
    bytes: MANY,
  }));
  testByteSource(`a JoinedSource of sources with ${scatter} pieces`, () => {
    const places = [0, 1, 5000, 70_000, 70_001, MANY.length];
    const parts = places.slice(1).map((end, i) => new ScatteredSource(MANY.subarray(places[i], end), scatter, i));
    return { source: joinSources("joined", parts), bytes: MANY };
  });
}
for (const unitBytes of [1, 3, 8, 5000]) {
  testByteSource(`RepeatedSource of ${unitBytes} bytes`, () => {
    const unit = randomBytes(unitBytes, 5);
    const bytes = Uint8Array.from({ length: 50_001 }, (_, i) => unit[i % unitBytes]!);
    return { source: new RepeatedSource("repeated", unit, bytes.length), bytes };
  });
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "cairn-test-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

testByteSource("FileSource", async () => {
  // The file is gone from its folder at once and stays readable until it is closed.
  const source = await inFolder(async (folder) => {
    await writeFile(join(folder, "file"), MANY);
    return new LocalFiles().open(join(folder, "file"));
  });
  return { source, bytes: MANY, close: () => source.close() };
});
testByteSource("scratch on the disk", async () => {
  const { sink, source, dispose } = await new LocalFiles().scratch();
  await sink.write([MANY.subarray(0, 10), MANY.subarray(10, 100_000)]);
  await sink.write(MANY.subarray(100_000));
  return { source: source(), bytes: MANY, close: dispose };
});

describe("a file that changes while it is read", () => {
  it("is reported when it became shorter", async () => {
    await inFolder(async (folder) => {
      const path = join(folder, "file");
      await writeFile(path, MANY);
      const source = await new LocalFiles().open(path);
      await truncate(path, 1000);
      for (const length of [2000, MANY.length]) {
        await expect(source.read(0, length)).rejects.toMatchObject({ code: "truncated", file: path, offset: 1000 });
      }
      await source.close();
    });
  });

  it("cannot be read when it is closed", async () => {
    await inFolder(async (folder) => {
      const path = join(folder, "file");
      await writeFile(path, MANY);
      const source = await new LocalFiles().open(path);
      await source.close();
      await expect(source.read(0, 10)).rejects.toMatchObject({ code: "read-failed", file: path });
      await expect(source.read(0, 300_000)).rejects.toMatchObject({ code: "read-failed", file: path });
    });
  });
});

describe("sliceSource", () => {
  it("gives the source itself for all of it", () => {
    const source = new PlainSource(BYTES);
    expect(sliceSource(source, 0, BYTES.length)).toBe(source);
    expect(source.slice(5, 100).slice(0, 100)).toMatchObject({ origin: source, start: 5, size: 100 });
  });

  it("cuts slices from the origin, so that a slice of slices is one step from it", () => {
    const source = new PlainSource(BYTES);
    const slice = source.slice(5, 100).slice(10, 50).slice(1, 20) as SlicedSource;
    expect(slice.origin).toBe(source);
    expect(slice.start).toBe(16);
  });
});

describe("joinSources", () => {
  it("leaves empty parts out and joins neighbours of one source", () => {
    const source = new PlainSource(BYTES);
    const parts = [
      source.slice(0, 10),
      source.slice(50, 0),
      new MemorySource(BYTES.subarray(0, 0)),
      source.slice(10, 5),
    ];
    const joined = joinSources("joined", parts);
    expect(joined).toBeInstanceOf(SlicedSource);
    expect(joined).toMatchObject({ origin: source, start: 0, size: 15 });
    expect(joinSources("joined", [source.slice(0, 4000), source.slice(4000, 5000)])).toBe(source);
  });

  it("keeps parts of one source apart that are no neighbours, whatever their order", async () => {
    const source = new PlainSource(BYTES);
    const joined = joinSources("joined", [source.slice(10, 10), source.slice(0, 10), source.slice(11, 2)]);
    const expected = concatBytes([BYTES.subarray(10, 20), BYTES.subarray(0, 10), BYTES.subarray(11, 13)]);
    expectBytes(await joined.read(0, joined.size), expected);
  });

  it("is an empty source of the name for no bytes", async () => {
    const none = joinSources("nothing", []);
    expect(none).toMatchObject({ name: "nothing", size: 0 });
    expectBytes(await none.read(0, 0), new Uint8Array(0));
  });

  it("reads only the parts that a range touches", async () => {
    const parts = [0, 1, 2].map((i) => new CountingSource(new PlainSource(BYTES.subarray(i * 3000, i * 3000 + 3000))));
    const joined = joinSources("joined", parts);
    await joined.read(3000, 3000);
    await joined.read(2990, 20);
    expect(parts.map(({ bytes }) => bytes)).toEqual([10, 3010, 0]);
  });

  it("equals the joined bytes for any parts", async () => {
    const parts = fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(parts, fc.nat(20), fc.nat(20), async (pieces, from, count) => {
        const bytes = concatBytes([new Uint8Array(0), ...pieces]);
        const joined = joinSources(
          "joined",
          pieces.map((piece) => new PlainSource(piece)),
        );
        expectBytes(await joined.read(0, joined.size), bytes);
        const offset = Math.min(from, bytes.length);
        const length = Math.min(count, bytes.length - offset);
        expectBytes(await joined.slice(offset, length).read(0, length), bytes.subarray(offset, offset + length));
      }),
    );
  });
});

describe("RepeatedSource", () => {
  it("is read at the far end of petabytes", async () => {
    const source = new RepeatedSource("far", Uint8Array.of(1, 2, 3), 3 * 2 ** 50);
    expectBytes(await source.read(3 * 2 ** 50 - 4, 4), Uint8Array.of(3, 1, 2, 3));
  });
});
