import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { recoverChunks, recoverRecords, type SkippedRegion } from "../../src/riegeli/recovery.js";
import { sha256 } from "../support/bytes.js";
import { fixtureSource, readExpected, readFixture } from "../support/fixtures.js";

interface Damage {
  base: string;
  records_left_after_recovery?: number;
  lost_chunk_begins?: number[];
}
const expected = readExpected<{
  files: Record<string, { records: { position: number; sha256: string }[]; chunks: { begin: number; end: number }[] }>;
  corrupt: Record<string, Damage>;
}>("riegeli/expected.json");

async function recover(
  source: MemorySource,
): Promise<{ records: { position: number; sha256: string }[]; skipped: SkippedRegion[] }> {
  const records: { position: number; sha256: string }[] = [];
  const skipped: SkippedRegion[] = [];
  for await (const found of recoverRecords(source)) {
    if (found.kind === "skipped") skipped.push(found.region);
    else
      records.push({ position: found.record.position, sha256: sha256(await found.record.read(0, found.record.size)) });
  }
  return { records, skipped };
}

describe("recovery", () => {
  const cases = Object.entries(expected.corrupt).filter(([, one]) => one.records_left_after_recovery !== undefined);

  it.each(cases)("of %s gives the records that the reference gives, and tells what it skips", async (name, damage) => {
    const base = expected.files[damage.base]!;
    const { records, skipped } = await recover(fixtureSource(`riegeli/${name}`));
    expect(records.length).toBe(damage.records_left_after_recovery);
    const good = new Map(base.records.map((record) => [record.position, record.sha256]));
    for (const record of records) expect(good.get(record.position)).toBe(record.sha256);
    const isWhole = name === "truncated_at_chunk_boundary.riegeli";
    expect(skipped.length).toBe(isWhole ? 0 : 1);
    if (!isWhole) expect(skipped[0]?.begin).toBe(damage.lost_chunk_begins?.[0]);
  });

  it.each(Object.keys(expected.corrupt))("of %s ends, and drops nothing in silence", async (name) => {
    const source = fixtureSource(`riegeli/${name}`);
    const { skipped } = await recover(source);
    if (name !== "truncated_at_chunk_boundary.riegeli") expect(skipped.length).toBeGreaterThan(0);
    for (const { begin, end, reason } of skipped) {
      expect(end).toBeGreaterThanOrEqual(begin);
      expect(end).toBeLessThanOrEqual(source.size);
      expect(reason.file).toBe(source.name);
    }
  });

  it("loses one chunk only when a block header inside it is damaged", async () => {
    const name = "bad_block_header_inside_chunk.riegeli";
    const { records, skipped } = await recover(fixtureSource(`riegeli/${name}`));
    const chunk = expected.files["simple_none_multiblock.riegeli"]!.chunks.find(({ begin }) => begin === 63_229)!;
    expect(skipped).toMatchObject([
      { begin: chunk.begin, end: chunk.end, reason: { code: "block-header", offset: 65_536 } },
    ]);
    expect(records.length).toBeGreaterThan(130);
  });

  it("covers the whole file with chunks and skipped regions, whatever byte is damaged", async () => {
    const original = readFixture("riegeli/simple_zstd_multiblock.riegeli");
    const step = Math.floor(original.length / 150);
    for (let at = 0; at < original.length; at += step) {
      const bytes = original.slice();
      bytes[at] = (bytes[at] as number) ^ 0x55;
      let end = 0;
      for await (const found of recoverChunks(new MemorySource(bytes, "damaged"))) {
        const range = found.kind === "chunk" ? found.chunk : found.region;
        expect(range.begin).toBe(end);
        end = range.end;
      }
      expect(end).toBe(original.length);
    }
  });
});
