import { afterAll, describe, expect, it } from "vitest";
import { type DamageCounts, damageAll, damageCases } from "../support/damage.js";

/** Files up to this are damaged at every byte, larger ones at so many seeded places. */
const EVERY_BYTE = Number(process.env.CAIRN_DAMAGE ?? 600);

const totals = new Map<string, DamageCounts>();

describe.each(await damageCases(2_000_000))("$name, damaged", (one) => {
  it("gives the right data or a typed error, and other data only where the format has no checksums", async () => {
    const counts = await damageAll(one, EVERY_BYTE);
    const total = totals.get(one.format) ?? { flips: 0, cuts: 0, refused: 0, right: 0, told: 0, wrong: 0, faults: [] };
    for (const name of ["flips", "cuts", "refused", "right", "told", "wrong"] as const) total[name] += counts[name];
    totals.set(one.format, total);
    expect(counts.faults).toEqual([]);
    expect(process.memoryUsage().rss).toBeLessThan(1.5e9);
  });
});

afterAll(() => {
  const lines = [
    "| format | flips | cuts | refused or told | right data | other data |",
    "| --- | --: | --: | --: | --: | --: |",
  ];
  for (const [format, { flips, cuts, refused, right, told, wrong }] of totals) {
    const share = (count: number) => `${((100 * count) / (flips + cuts)).toFixed(2)} %`;
    lines.push(
      `| ${format} | ${flips} | ${cuts} | ${share(refused + told)} | ${share(right - told)} | ${share(wrong)} |`,
    );
  }
  process.stdout.write(`\n${lines.join("\n")}\n`);
});
