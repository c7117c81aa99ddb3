import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { joinSources } from "../../src/bytes/joined-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MessageRules } from "../../src/proto/message-rules.js";
import { checkWire } from "../../src/proto/wire-check.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource, ScatteredSource, TinyScratchSource } from "../support/odd-sources.js";
import { delimited, TestMessageSchema, tag, testMessage, varint, varintField } from "../support/test-schema.js";
import { isPlainMessage } from "../support/wire-model.js";

const rules = MessageRules.of(TestMessageSchema);
const CHILD = 18;
const CHILDREN = 58;
const INNER = 17;

async function isMessage(source: ByteSource): Promise<boolean> {
  try {
    await checkWire(source, rules);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(/^(invalid-wire|limit)$/), file: source.name });
    return false;
  }
}

/** A message changed in one byte, cut short, or with bytes behind it. */
const spoiled = fc.oneof(
  fc.tuple(testMessage, fc.nat(), fc.nat(255)).map(([bytes, at, byte]) => {
    const copy = bytes.slice();
    if (copy.length > 0) copy[at % copy.length] = byte;
    return copy;
  }),
  fc.tuple(testMessage, fc.nat(400)).map(([bytes, length]) => bytes.subarray(0, length)),
);

describe("checkWire", () => {
  it("takes every message", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, async (bytes) => {
        expect(await isMessage(new MemorySource(bytes))).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("refuses exactly what is none, down to the innermost, through sources of any kind", async () => {
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(spoiled, fc.integer({ min: 20, max: 100 }), fc.nat(400), async (bytes, size, at) => {
        const place = Math.min(at, bytes.length);
        const isGood = isPlainMessage(TestMessageSchema, bytes);
        const sources = [
          new MemorySource(bytes),
          new TinyScratchSource(new PlainSource(bytes), size),
          new ScatteredSource(bytes, "mixed", size),
          joinSources("joined", [new PlainSource(bytes.subarray(0, place)), new PlainSource(bytes.subarray(place))]),
        ];
        for (const source of sources) expect(await isMessage(source)).toBe(isGood);
        if (!isGood) refused++;
      }),
      { numRuns: 1500 },
    );
    expect(refused).toBeGreaterThan(200);
  });

  // A message of more than 128 KiB is walked through, a smaller one brought into view; both have to agree.
  it.each([1000, 130_000, 140_000, 400_000])(
    "looks into messages of %i bytes, and finds the last byte wrong",
    async (size) => {
      const good = varintField(3, 5);
      for (const bad of [Uint8Array.of(0x0b), tag(20, 4), varint(0), concatBytes([tag(20, 3), tag(21, 4)])]) {
        const small = (last: Uint8Array) => delimited(CHILD, delimited(INNER, varintField(2, 1)), last);
        const build = (last: Uint8Array) => {
          const many = Array.from({ length: Math.ceil(size / 600) }, () =>
            delimited(CHILDREN, new Uint8Array(0), delimited(15, new Uint8Array(590))),
          );
          return concatBytes([good, delimited(CHILD, ...many, small(last)), good]);
        };
        for (const wrap of [(bytes: Uint8Array) => bytes, (bytes: Uint8Array) => delimited(CHILD, bytes)]) {
          expect(await isMessage(new PlainSource(wrap(build(good))))).toBe(true);
          expect(await isMessage(new PlainSource(wrap(build(bad))))).toBe(false);
        }
      }
    },
  );

  it("takes a field of another wire type than the schema's for an unknown one", async () => {
    const fields = [
      varintField(INNER, 77),
      concatBytes([tag(CHILD, 5), new Uint8Array(4)]),
      delimited(3, Uint8Array.of(255)),
    ];
    expect(await isMessage(new MemorySource(concatBytes(fields)))).toBe(true);
  });

  it("does not look into bytes, strings, unknown fields and what is in groups", async () => {
    const junk = Uint8Array.of(0xff, 0xff, 0xff);
    const group = concatBytes([tag(19, 3), delimited(6, junk), tag(19, 4)]);
    const bytes = concatBytes([
      delimited(14, junk),
      delimited(15, junk),
      delimited(20, junk),
      delimited(56, junk),
      group,
    ]);
    expect(await isMessage(new MemorySource(bytes))).toBe(true);
    expect(await isMessage(new MemorySource(delimited(INNER, junk)))).toBe(false);
    expect(await isMessage(new MemorySource(delimited(72, delimited(2, junk))))).toBe(false);
  });

  it("lets messages and groups nest 100 deep and no deeper, together too", async () => {
    const nested = (depth: number, innermost: Uint8Array) => {
      let bytes = innermost;
      for (let i = 0; i < depth; i++) bytes = delimited(CHILD, bytes);
      return bytes;
    };
    const groups = (depth: number) => {
      const open = Array.from({ length: depth }, () => tag(20, 3));
      return concatBytes([...open, ...Array.from({ length: depth }, () => tag(20, 4))]);
    };
    const value = varintField(3, 1);
    for (const make of [new Uint8Array(0), new Uint8Array(200_000)]) {
      const wide = concatBytes([delimited(15, make), value]);
      expect(await isMessage(new PlainSource(nested(100, wide)))).toBe(true);
      await expect(checkWire(new PlainSource(nested(101, wide)), rules)).rejects.toMatchObject({ code: "limit" });
      expect(await isMessage(new PlainSource(nested(60, concatBytes([wide, groups(40)]))))).toBe(true);
      const deeper = nested(60, concatBytes([wide, groups(41)]));
      await expect(checkWire(new PlainSource(deeper), rules)).rejects.toMatchObject({ code: "limit" });
      const one = nested(100, concatBytes([wide, groups(1)]));
      await expect(checkWire(new PlainSource(one), rules)).rejects.toMatchObject({ code: "limit" });
    }
  });

  it("does not read values, nor messages that no schema tells of", async () => {
    const large = delimited(CHILD, delimited(15, new Uint8Array(3_000_000)), delimited(20, new Uint8Array(3_000_000)));
    const counting = new CountingSource(new PlainSource(concatBytes([large, large, varintField(3, 1)])));
    await checkWire(counting, rules);
    expect(counting.bytes).toBeLessThan(200_000);
  });

  it("tells the file and the offset there", async () => {
    const bytes = concatBytes([varintField(3, 1), delimited(CHILD, varintField(3, 1), Uint8Array.of(0x0e))]);
    const source = new PlainSource(concatBytes([new Uint8Array(50), bytes]), "model.pb").slice(50, bytes.length);
    await expect(checkWire(source, rules)).rejects.toMatchObject({
      code: "invalid-wire",
      file: "model.pb",
      offset: 57,
    });
  });
});
