import { describe, expect, it } from "vitest";
import { Window } from "../../src/bytes/window.js";
import { expectBytes } from "../support/bytes.js";
import { CountingSource } from "../support/counting-source.js";
import { FailingSource, PlainSource, randomBytes, TinyScratchSource } from "../support/odd-sources.js";

const BYTES = randomBytes(3_000_000);

describe("Window", () => {
  it("has nothing in view before it is moved and after it is released", async () => {
    const window = new Window(new PlainSource(BYTES));
    expect(window.holds(0, 1)).toBe(false);
    await window.move(0, 1);
    expect(window.holds(0, 1)).toBe(true);
    window.release();
    expect(window.holds(0, 1)).toBe(false);
  });

  it("holds a range only when all of it is in view, or all up to the end", async () => {
    const window = new Window(new PlainSource(BYTES.subarray(0, 10_000)));
    await window.move(2000, 10);
    const { start, end } = window;
    expect([window.holds(start, end - start), window.holds(start, end - start + 1)]).toEqual([true, end === 10_000]);
    expect([window.holds(start - 1, 1), window.holds(start - 1, 2)]).toEqual([false, false]);
    await window.move(9999, 20);
    expect(window.holds(9999, 20)).toBe(true);
    expect(window.holds(9998, 2)).toBe(false);
  });

  it("gives as much as is asked for, however large and however little the source gives at once", async () => {
    const window = new Window(new TinyScratchSource(new PlainSource(BYTES), 5000));
    await window.move(100, 1_000_000);
    expect(window.holds(100, 1_000_000)).toBe(true);
    expectBytes(window.bytes.subarray(0, 1_000_000), BYTES.subarray(100, 1_000_100));
  });

  it("reads little at a jump and much on a way in order", async () => {
    const source = new CountingSource(new PlainSource(BYTES));
    const window = new Window(source);
    for (let i = 1; i <= 50; i++) await window.move(3_000_000 - i * 50_000, 20);
    expect(source.bytes).toBeLessThanOrEqual(50 * 4096);
    source.reset();
    for (let at = 0; at < BYTES.length; at += 20) if (!window.holds(at, 20)) await window.move(at, 20);
    expect(source.reads).toBeLessThan(25);
    expect(source.bytes).toBeLessThan(BYTES.length + 25 * 20);
  });

  it("gives the next window its memory without sharing it with one that is in use", async () => {
    const first = new Window(new PlainSource(BYTES));
    await first.move(0, 100);
    first.release();
    const second = new Window(new PlainSource(BYTES));
    const third = new Window(new PlainSource(BYTES));
    await second.move(1000, 100);
    await third.move(2000, 100);
    expectBytes(second.bytes, BYTES.subarray(1000, 1000 + second.bytes.length));
  });

  it("throws what the source throws", async () => {
    const window = new Window(new FailingSource(10_000, 5000));
    await expect(window.move(0, 6000)).rejects.toThrow("the read failed");
  });
});
