import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteCursor } from "../../src/bytes/byte-cursor.js";
import { encodeVarint } from "../../src/codecs/varint.js";
import { varint } from "../support/test-schema.js";

/** A cursor over a part of a larger buffer, as most are. */
function cursorOver(bytes: readonly number[], base = 0): ByteCursor {
  const buffer = Uint8Array.of(99, ...bytes, 99);
  return new ByteCursor(buffer.subarray(1, -1), "file", base);
}

describe("ByteCursor", () => {
  it("reads numbers in little-endian order, one behind the other", () => {
    const cursor = cursorOver([7, 1, 2, 3, 0x84, 1, 2, 3, 4, 5, 6, 7, 0x88, 5, 6], 100);
    expect(cursor.readByte()).toBe(7);
    expect(cursor.readUint32()).toBe(0x84030201);
    expect(cursor.offset).toBe(105);
    expect(cursor.readUint64()).toBe(0x8807060504030201n);
    expect(cursor.left).toBe(2);
    expect([...cursor.readBytes(2)]).toEqual([5, 6]);
    expect(cursor.left).toBe(0);
    expect(cursor.readBytes(0).length).toBe(0);
  });

  it.each([
    ["readByte", (cursor: ByteCursor) => cursor.readByte(), 4],
    ["readBytes", (cursor: ByteCursor) => cursor.readBytes(2), 3],
    ["readUint32", (cursor: ByteCursor) => cursor.readUint32(), 1],
    ["readUint64", (cursor: ByteCursor) => cursor.readUint64(), 2],
    ["readVarint", (cursor: ByteCursor) => cursor.readVarint(), 4],
  ] as const)("%s does not pass the end, and tells the file's offset", (_, read, before) => {
    const cursor = cursorOver([0x80, 0x80, 0x80, 0x80], 1000);
    cursor.readBytes(before);
    expect(() => read(cursor)).toThrow(
      expect.objectContaining({ code: "truncated", file: "file", offset: 1000 + before }),
    );
    expect(cursor.position).toBe(before);
  });

  it("reads every varint up to 2^53 - 1, in its shortest form and in longer ones", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 1, max: 10 }), (value, length) => {
        expect(cursorOver([...encodeVarint(value)]).readVarint()).toBe(value);
        const cursor = cursorOver([...varint(value, length), 5]);
        expect(cursor.readVarint()).toBe(value);
        expect(cursor.readByte()).toBe(5);
      }),
    );
  });

  it.each([
    ["2^53", [...varint(2n ** 53n)]],
    ["2^64 - 1", [...varint(2n ** 64n - 1n)]],
    ["11 bytes", [...Array(10).fill(0x80), 0]],
  ])("refuses a varint of %s with the code it is given", (_, bytes) => {
    expect(() => cursorOver(bytes).readVarint("tensor-data")).toThrow(
      expect.objectContaining({ code: "tensor-data", file: "file" }),
    );
    expect(() => cursorOver(bytes).readVarint()).toThrow(expect.objectContaining({ code: "invalid-wire" }));
  });
});
