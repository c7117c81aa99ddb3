import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planSweep, type Retention, recordCheckpoint, resumeRetention } from "../../src/tracking/retention.js";

const LOG = fileURLToPath(new URL("../fixtures/checkpoints/manager/hours/log.json", import.meta.url));

describe("retention", () => {
  it("keeps what TensorFlow's manager kept, step by step", () => {
    const steps = JSON.parse(readFileSync(LOG, "utf8")) as {
      t: number;
      number: number;
      kept: string[];
      managed: string[];
    }[];
    // The clock of the fixture stood one step before its first save when the manager was made.
    let retention: Retention = resumeRetention(undefined, steps[0]!.t - (steps[1]!.t - steps[0]!.t));
    let files: string[] = [];
    for (const { t, number, kept, managed } of steps) {
      retention = recordCheckpoint(retention, { path: `ckpt-${number}`, time: t });
      files.push(`ckpt-${number}.index`);
      const { removed, ...rest } = planSweep(retention, { maxToKeep: 1, everyHours: 1 });
      retention = rest;
      files = files.filter((file) => !removed.includes(file.replace(".index", "")));
      expect(files).toEqual(kept);
      expect(retention.kept.map(({ path }) => path)).toEqual(managed);
    }
    expect(retention.lastPreserved).toBe(1700009000);
  });

  it("never removes the newest ones, and lists as many as it may", () => {
    const times = fc.array(fc.integer({ min: 0, max: 10_000 }), { minLength: 1, maxLength: 30 });
    const everyHours = fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined });
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 5 }), everyHours, (clock, maxToKeep, hours) => {
        let retention: Retention = { kept: [], lastPreserved: 0 };
        for (const [i, time] of clock.entries()) {
          retention = recordCheckpoint(retention, { path: `p-${i}`, time });
          const { removed, ...rest } = planSweep(retention, { maxToKeep, everyHours: hours });
          const newest = Array.from({ length: Math.min(i + 1, maxToKeep) }, (_, k) => `p-${i - k}`).reverse();
          expect(rest.kept.map(({ path }) => path)).toEqual(newest);
          expect(removed.some((path) => newest.includes(path))).toBe(false);
          retention = rest;
        }
      }),
    );
  });

  it("moves a path that is saved again to the end", () => {
    const kept = [
      { path: "a", time: 1 },
      { path: "b", time: 2 },
    ];
    const { kept: after } = recordCheckpoint({ kept, lastPreserved: 0 }, { path: "a", time: 3 });
    expect(after).toEqual([
      { path: "b", time: 2 },
      { path: "a", time: 3 },
    ]);
  });

  it("takes up what was stored: times that lie ahead, none at all, and what was kept for good", () => {
    expect(resumeRetention(undefined, 100)).toEqual({ kept: [], lastPreserved: 99 });
    const stored = (times: readonly (number | undefined)[], lastPreserved: number | undefined) => ({
      latest: undefined,
      kept: times.map((time, i) => ({ path: `p-${i}`, time })),
      lastPreserved,
    });
    expect(resumeRetention(stored([50, 300], 40), 100).kept).toEqual([
      { path: "p-0", time: 50 },
      { path: "p-1", time: 100 },
    ]);
    expect(resumeRetention(stored([50, 60], 55), 100).kept).toEqual([{ path: "p-1", time: 60 }]);
    expect(resumeRetention(stored([undefined, undefined], 55), 100).kept).toEqual([]);
    expect(resumeRetention(stored([50], 500), 100)).toEqual({ kept: [], lastPreserved: 100 });
  });
});
