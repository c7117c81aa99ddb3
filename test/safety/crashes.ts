import { describe, expect, it } from "vitest";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError, isCairnError } from "../../src/errors.js";
import { type Fault, FaultyStore, PowerFailure } from "../support/faulty-store.js";
import { WRITERS, type Writer } from "./writers.js";

/** Every file of a store; tokens that differ from run to run are left out. */
async function listing(files: FileStore, directory = ""): Promise<string[]> {
  const names: string[] = [];
  for (const { path, kind } of await files.list(directory)) {
    if (kind === "directory") names.push(...(await listing(files, path)));
    else names.push(path.replace(/[0-9a-f]{8,}/g, "#"));
  }
  return names.sort();
}

interface Known {
  readonly before: string;
  readonly after: string;
  readonly filesBefore: readonly string[];
  readonly filesAfter: readonly string[];
  readonly operations: number;
}

/** An undisturbed run, and how many operations it has. */
async function undisturbed(writer: Writer, fault: Fault): Promise<Known> {
  const files = new MemoryStore();
  await writer.prepare(files);
  const filesBefore = await listing(files);
  const before = await writer.contents(files);
  const counting = new FaultyStore(files, fault);
  await writer.run(counting);
  const after = await writer.contents(files);
  return { before, after, filesBefore, filesAfter: await listing(files), operations: counting.operations };
}

/** Whether what a reader finds is the state before, the state after, or one that stands between them as it may. */
function expectWhole(writer: Writer, { before, after }: Known, found: string): void {
  if (found === before || found === after || writer.between?.(before, after, found) === true) return;
  expect(found).toBe(`${before} or ${after}`);
}

async function rerun(writer: Writer, files: FileStore): Promise<void> {
  await writer.run(files).catch((error: unknown) => {
    // The one before had come to its end.
    if (!isCairnError(error, "exists") && !isCairnError(error, "not-found")) throw error;
  });
}

/** Numbers below `count`, all or so many of them spread evenly, the first and the last among them. */
function pointsOf(count: number, most: number): number[] {
  const step = count <= most ? 1 : (count - 1) / (most - 1);
  return [...new Set(Array.from({ length: Math.min(count, most) }, (_, i) => Math.round(i * step)))];
}

/** Tests every writer with every fault at so many of its changes and reads. */
export function testCrashes({ maxChanges, maxReads }: { maxChanges: number; maxReads: number }): void {
  describe.each(WRITERS)("$name", (writer) => {
    it.each(["stop", "tear"] as const)(
      "is whole, before or after, when the power fails (%s) at any operation",
      async (fault) => {
        const known = await undisturbed(writer, fault);
        expect(known.after).not.toBe(known.before);
        expect(known.operations).toBeGreaterThan(2);
        const seen = new Set<string>();
        for (const at of pointsOf(known.operations, maxChanges)) {
          const files = new MemoryStore();
          await writer.prepare(files);
          const faulty = new FaultyStore(files, fault, at);
          const error = await writer.run(faulty).catch((thrown: unknown) => thrown);
          expect(error, `at ${at}`).toBeInstanceOf(PowerFailure);
          await faulty.leaveTemporaries();
          const found = await writer.contents(files);
          expectWhole(writer, known, found);
          seen.add(found);
          await rerun(writer, files);
          expect(await writer.contents(files), `run again after a failure at ${at}`).toBe(known.after);
          // What is left besides has a name that tells what it is, and nothing stands in its place.
          const strays = (await listing(files)).filter((path) => !known.filesAfter.includes(path));
          expect(
            strays.filter((path) => !isTold(path)),
            `at ${at}`,
          ).toEqual([]);
        }
        expect(seen).toContain(known.before);
      },
    );

    it.each(["fail", "full", "read-only", "unreadable"] as const)(
      "ends with a typed error and leaves nothing half done (%s at any operation)",
      async (fault) => {
        const known = await undisturbed(writer, fault);
        for (const at of pointsOf(known.operations, fault === "unreadable" ? maxReads : maxChanges)) {
          const files = new MemoryStore();
          await writer.prepare(files);
          const faulty = new FaultyStore(files, fault, at);
          const error = await writer.run(faulty).then(
            () => undefined,
            (thrown: unknown) => thrown,
          );
          if (error !== undefined) expect(error, `at ${at}`).toBeInstanceOf(CairnError);
          expectWhole(writer, known, await writer.contents(files));
          if (fault === "full" || fault === "unreadable") {
            const left = (await listing(files)).filter(
              (path) => !known.filesBefore.includes(path) && !known.filesAfter.includes(path),
            );
            // From the journal on the new one counts, and who opens it goes on.
            if (left.some((path) => path.endsWith(".cairn-swap.json"))) continue;
            expect(left, `left by ${fault} at ${at}`).toEqual([]);
          }
          await rerun(writer, files);
          expect(await writer.contents(files), `run again after ${fault} at ${at}`).toBe(known.after);
        }
      },
    );
  });
}

/** Parts that were merged by moving, and checkpoints that were pruned: their index goes first, and what is left names them. */
const IS_PART = /^d\/(part|c|ckpt)-\d\./;

/** Whether a name says that it is a leftover. */
function isTold(path: string): boolean {
  return (
    path.split("/").some((step) => /^\..+\.cairn-#\.(tmp|new|old)$/.test(step) || step.endsWith(".cairn")) ||
    IS_PART.test(path)
  );
}
