import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { joinSources } from "../../src/bytes/joined-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { type FieldTable, readFieldTable } from "../../src/proto/field-table.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource, ScatteredSource, TinyScratchSource } from "../support/odd-sources.js";
import { delimited, tag, testMessage, varint, varintField } from "../support/test-schema.js";
import { type PlainField, plainFields } from "../support/wire-model.js";

function rowsOf(table: FieldTable): PlainField[] {
  return Array.from({ length: table.count }, (_, i) => ({
    number: table.number(i),
    wireType: table.wireType(i),
    start: table.start(i),
    valueStart: table.valueStart(i),
    end: table.end(i),
  }));
}

/** The table, or undefined when the bytes are refused as no message. */
async function tableOf(source: ByteSource): Promise<PlainField[] | undefined> {
  try {
    return rowsOf(await readFieldTable(source));
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(/^(invalid-wire|limit)$/), file: source.name });
    return undefined;
  }
}

describe("readFieldTable", () => {
  it("finds the fields that are there, in a message of any form", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, async (bytes) => {
        expect(await tableOf(new MemorySource(bytes))).toEqual(plainFields(bytes));
      }),
      { numRuns: 400 },
    );
  });

  it("refuses exactly the bytes that are no message", async () => {
    const cut = fc.tuple(testMessage, fc.nat(300)).map(([bytes, length]) => bytes.subarray(0, length));
    const changed = fc.tuple(testMessage, fc.nat(), fc.nat(255)).map(([bytes, at, byte]) => {
      const copy = bytes.slice();
      if (copy.length > 0) copy[at % copy.length] = byte;
      return copy;
    });
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 30 }), cut, changed), async (bytes) => {
        const table = await tableOf(new MemorySource(bytes));
        expect(table).toEqual(plainFields(bytes));
        if (table === undefined) refused++;
      }),
      { numRuns: 2000 },
    );
    expect(refused).toBeGreaterThan(300);
  });

  it("finds the same through sources of any kind", async () => {
    const cuts = fc.array(fc.nat(400), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(testMessage, cuts, fc.integer({ min: 20, max: 60 }), async (bytes, places, scratchBytes) => {
        const ends = [...places.filter((at) => at < bytes.length), bytes.length].sort((a, b) => a - b);
        const parts = ends.map((end, i) => new PlainSource(bytes.subarray(ends[i - 1] ?? 0, end)));
        const sources = [
          joinSources("joined", parts),
          new TinyScratchSource(new PlainSource(bytes), scratchBytes),
          new ScatteredSource(bytes, "mixed", scratchBytes),
          new PlainSource(concatBytes([Uint8Array.of(1), bytes, Uint8Array.of(1)])).slice(1, bytes.length),
        ];
        for (const source of sources) expect(await tableOf(source)).toEqual(plainFields(bytes));
      }),
      { numRuns: 200 },
    );
  });

  // The windows begin with 16 and 64 KiB; whatever lies there is to be read as it is anywhere.
  it.each([16_384, 65_536 + 16_384])("reads heads that lie across the end of a window at %i", async (edge) => {
    const odd = [
      concatBytes([tag(1000, 0, 5), varint(7, 10)]),
      concatBytes([tag(536_870_911, 2, 5), varint(3, 5), Uint8Array.of(8, 1, 9)]),
      concatBytes([tag(20, 3), tag(30, 3, 3), varintField(1, 5), tag(30, 4, 5), tag(20, 4)]),
      delimited(40),
      concatBytes([tag(9, 1), new Uint8Array(8)]),
    ];
    for (let before = -45; before <= 5; before++) {
      const filler = Array.from({ length: 80 }, (_, i) => delimited(1, new Uint8Array(1000).fill(i)));
      const head = concatBytes(filler).subarray(0, Math.floor((edge - 2000) / 1003) * 1003);
      const rest = edge + before - head.length;
      const bytes = concatBytes([head, delimited(2, new Uint8Array(rest - 3)), ...odd, ...filler.slice(0, 70)]);
      expect(head.length + rest).toBe(edge + before);
      expect(await tableOf(new PlainSource(bytes))).toEqual(plainFields(bytes));
      const cut = bytes.subarray(0, edge + before + 12);
      expect(await tableOf(new PlainSource(cut))).toEqual(plainFields(cut));
    }
  });

  it("tells at which offset of the file the bytes are wrong", async () => {
    const bytes = concatBytes([varintField(1, 300), delimited(2, Uint8Array.of(1, 2)), Uint8Array.of(0x0f)]);
    const inFile = concatBytes([new Uint8Array(1000), bytes, new Uint8Array(5)]);
    const expected = { code: "invalid-wire", file: "model.pb", offset: 1007 };
    const file = new PlainSource(inFile, "model.pb");
    await expect(readFieldTable(file.slice(1000, bytes.length))).rejects.toMatchObject(expected);
    const memory = new MemorySource(inFile, "model.pb").slice(1000, bytes.length);
    await expect(readFieldTable(memory)).rejects.toMatchObject(expected);
  });

  it("does not read the values that it skips", async () => {
    const bytes = concatBytes(Array.from({ length: 20 }, () => delimited(1, new Uint8Array(1_000_000))));
    const counting = new CountingSource(new PlainSource(bytes));
    const table = await readFieldTable(counting);
    expect(table.count).toBe(20);
    expect(counting.reads).toBeLessThanOrEqual(21);
    expect(counting.bytes).toBeLessThan(200_000);
  });

  it("keeps the place and number of many fields", async () => {
    const bytes = concatBytes(Array.from({ length: 5000 }, (_, i) => varintField(1 + (i % 700), i)));
    expect(await tableOf(new MemorySource(bytes))).toEqual(plainFields(bytes));
  });
});

describe("FieldTable", () => {
  it("seeks the next field of a number, of another, and the next large one", async () => {
    const fields = [varintField(5, 1), varintField(5, 2), delimited(6, new Uint8Array(100)), varintField(5, 1)];
    const table = await readFieldTable(new MemorySource(concatBytes(fields)));
    expect([table.seek(5, 0, 4, true), table.seek(5, 0, 4, false), table.seek(5, 2, 4, true)]).toEqual([0, 2, 3]);
    expect([table.seek(7, 0, 4, true), table.seek(5, 0, 2, false), table.seek(5, 3, 3, true)]).toEqual([4, 2, 3]);
    expect([table.seekLarger(99, 0, 4), table.seekLarger(100, 0, 4), table.seekLarger(0, 3, 4)]).toEqual([2, 4, 3]);
  });
});
