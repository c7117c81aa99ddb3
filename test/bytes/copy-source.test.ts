import { describe, expect, it } from "vitest";
import { type ByteSink, MemorySink, totalLength } from "../../src/bytes/byte-sink.js";
import { type CopyOptions, copySource, readInOrder, streamSource } from "../../src/bytes/copy-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { expectBytes } from "../support/bytes.js";
import { FailingSource, PlainSource, randomBytes, TinyScratchSource } from "../support/odd-sources.js";

const BYTES = randomBytes(200_000);
const source = () => new TinyScratchSource(new PlainSource(BYTES), 9000);

/** A promise and what fulfils it. */
function later(): { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } {
  let resolve = () => {};
  let reject = (_: Error) => {};
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Adds up the bytes that it is told of. */
function counter(): { count: number; add: (more: number) => void } {
  const counted = {
    count: 0,
    add: (more: number) => {
      counted.count += more;
    },
  };
  return counted;
}

/** Lets all go on that need not wait for anything. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("readInOrder", () => {
  it("visits all bytes once, in order, whether visits take time or not", async () => {
    for (const kind of ["sync", "async", "mixed"]) {
      const sink = new MemorySink();
      let visits = 0;
      await readInOrder(source(), (pieces, offset) => {
        expect(offset).toBe(sink.position);
        const now = pieces.map((piece) => piece.slice());
        const isSync = kind === "sync" || (kind === "mixed" && visits % 3 > 0);
        visits++;
        void sink.write(now);
        return isSync ? undefined : settled();
      });
      expect(visits).toBe(Math.ceil(BYTES.length / 9000));
      expectBytes(sink.bytes, BYTES);
    }
  });

  it("keeps pieces good until their visit has ended, while the next are read and visited", async () => {
    let open = 0;
    let most = 0;
    await readInOrder(source(), async (pieces, offset) => {
      most = Math.max(most, ++open);
      for (let i = 0; i < 3; i++) await settled();
      expectBytes(pieces[0]!, BYTES.subarray(offset, offset + pieces[0]!.length));
      open--;
    });
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(4);
  });

  it("does not visit anything of an empty source", async () => {
    await readInOrder(new MemorySource(new Uint8Array(0)), () => expect.fail("it was visited"));
  });

  it("tells how many bytes are done", async () => {
    const counted = counter();
    await readInOrder(source(), () => undefined, { onBytes: counted.add });
    expect(counted.count).toBe(BYTES.length);
  });

  it.each([0, 1, 100_000, 199_999])(
    "throws when the read of byte %i fails, after the visits have ended",
    async (at) => {
      let open = 0;
      const failing = new TinyScratchSource(new FailingSource(200_000, at), 9000);
      const reading = readInOrder(failing, async () => {
        open++;
        await settled();
        open--;
      });
      await expect(reading).rejects.toThrow("the read failed");
      expect(open).toBe(0);
    },
  );

  it.each(["sync", "async", "late"])("throws what a visit throws, %s, and stops", async (kind) => {
    let visits = 0;
    const reading = readInOrder(source(), (_, offset) => {
      visits++;
      if (offset < 90_000) return undefined;
      if (kind === "sync") throw new Error("the visit failed");
      return kind === "async"
        ? Promise.reject(new Error("the visit failed"))
        : settled().then(() => Promise.reject(new Error("the visit failed")));
    });
    await expect(reading).rejects.toThrow("the visit failed");
    expect(visits).toBeLessThanOrEqual(10 + 3 + 1);
  });

  it("leaves no rejection behind when several visits and the read fail", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    const failing = new TinyScratchSource(new FailingSource(200_000, 50_000), 9000);
    const reading = readInOrder(failing, () => settled().then(() => Promise.reject(new Error("the visit failed"))));
    await expect(reading).rejects.toThrow("failed");
    await settled();
    await settled();
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  it("stops when it is aborted", async () => {
    const controller = new AbortController();
    let visits = 0;
    const options: CopyOptions = { signal: controller.signal };
    const reading = readInOrder(
      source(),
      () => {
        if (++visits === 3) controller.abort(new Error("enough"));
      },
      options,
    );
    await expect(reading).rejects.toThrow("enough");
    expect(visits).toBe(3);
  });

  it("ends only after the last visit", async () => {
    const last = later();
    let hasEnded = false;
    const reading = readInOrder(source(), (_, offset) => (offset >= 189_000 ? last.promise : settled()));
    void reading.then(() => {
      hasEnded = true;
    });
    for (let i = 0; i < 100; i++) await settled();
    expect(hasEnded).toBe(false);
    last.resolve();
    await reading;
  });

  it("hands the last visits over where that is asked for, and their failure with them", async () => {
    const last = later();
    let work: Promise<void> | undefined;
    const takeOver = (promise: Promise<void>) => {
      work = promise;
    };
    await readInOrder(source(), (_, offset) => (offset >= 189_000 ? last.promise : settled()), { takeOver });
    last.reject(new Error("the last visit failed"));
    await expect(work).rejects.toThrow("the last visit failed");
  });

  it("does not give memory to a later read that a visit still uses", async () => {
    // Two readers at once, one slow: buffers that are kept for the next use must not be those of the other.
    const slow = readInOrder(source(), async (pieces, offset) => {
      for (let i = 0; i < 5; i++) await settled();
      expectBytes(pieces[0]!, BYTES.subarray(offset, offset + pieces[0]!.length));
    });
    for (let i = 0; i < 10; i++) await readInOrder(new PlainSource(randomBytes(50_000, i)), () => settled());
    await slow;
  });
});

describe("copySource", () => {
  /** A sink whose writes end in their own time. */
  class SlowSink extends MemorySink {
    open = 0;
    override async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
      const pieces = bytes instanceof Uint8Array ? [bytes] : bytes;
      const start = this.position;
      this.open++;
      await super.write(pieces.map((piece) => new Uint8Array(piece.length)));
      await settled();
      let at = start;
      for (const piece of pieces) {
        await this.patch(at, piece);
        at += piece.length;
      }
      this.open--;
    }
  }

  it("copies all bytes to a sink that takes its time, and ends after the last write", async () => {
    const sink = new SlowSink();
    const counted = counter();
    await copySource(source(), sink, { onBytes: counted.add });
    expectBytes(sink.bytes, BYTES);
    expect([counted.count, sink.open]).toEqual([BYTES.length, 0]);
  });

  it("throws what the sink throws", async () => {
    const sink: ByteSink = {
      name: "full",
      position: 0,
      write: async () => Promise.reject(new Error("the disk is full")),
      close: async () => {},
      abort: async () => {},
    };
    await expect(copySource(source(), sink)).rejects.toThrow("the disk is full");
  });
});

describe("streamSource", () => {
  it("gives all bytes, and tells how many", async () => {
    const sink = new MemorySink();
    const counted = counter();
    for await (const piece of streamSource(source(), { onBytes: counted.add })) await sink.write(piece);
    expectBytes(sink.bytes, BYTES);
    expect(counted.count).toBe(BYTES.length);
    for await (const piece of streamSource(new MemorySource(new Uint8Array(0)))) expect.fail(`${piece.length} bytes`);
  });

  it("reads no further than it is asked", async () => {
    const failing = new FailingSource(10_000_000, 600_000);
    const pieces: Uint8Array[] = [];
    for await (const piece of streamSource(failing)) {
      pieces.push(piece);
      if (totalLength(pieces) > 300_000) break;
    }
    expect(failing.reads).toBe(2);
    const all = async () => {
      for await (const piece of streamSource(failing)) pieces.push(piece);
    };
    await expect(all()).rejects.toThrow("the read failed");
  });
});
