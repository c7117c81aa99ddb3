import { describe, expect, it } from "vitest";
import { damageAll, damageCases } from "../support/damage.js";

// A sample of each file; all bytes: npm run damage.
describe.each(await damageCases(60_000))("$name, damaged", (one) => {
  it("gives the right data or a typed error, and other data only where the format has no checksums", async () => {
    const { faults, flips, cuts, refused } = await damageAll(one, 5);
    expect(faults).toEqual([]);
    expect(flips + cuts).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  });
});
