import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { detectFormat } from "../../src/formats/registry.js";
import { inspect, outlineToJson } from "../../src/ops/inspect.js";
import { openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { readExpected, readFixture } from "../support/fixtures.js";

const store = (path: string, bytes: Uint8Array): MemoryStore => new MemoryStore([[path, bytes]]);

interface Corrupt {
  corrupt: Record<string, { file: string; expected_error_class: string }>;
}
const { corrupt } = readExpected<Corrupt>("cpb/expected.json");

describe("verify", () => {
  it("finds a good .cpb good, and names its parts", async () => {
    const files = store("m.cpb", readFixture("cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb"));
    const report = await verify(files, "m.cpb");
    expect(report).toMatchObject({ ok: true, format: "saved-model", findings: [] });
    expect(report.good.map(({ what }) => what).join("\n")).toMatch(
      /tensor_content[\s\S]*ChunkMetadata[\s\S]*all chunks merge to a SavedModel/,
    );
  });

  it("names the file, the offset and the constant of a flipped byte, and what is still good", async () => {
    const bytes = readFixture("cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb");
    bytes[100_000] = (bytes[100_000] as number) ^ 1;
    const { ok, findings, good } = await verify(store("m.cpb", bytes), "m.cpb");
    expect(ok).toBe(false);
    expect(findings).toMatchObject([
      {
        severity: "error",
        code: "chunk-data",
        file: "m.cpb",
        offset: 63_881,
        key: 'meta_graphs[0].graph_def.node[2].attr["value"].tensor.tensor_content',
      },
    ]);
    expect(good.length).toBeGreaterThan(2);
    expect(good.some(({ what }) => what.includes("merge"))).toBe(false);
  });

  it("goes on after the first finding", async () => {
    const bytes = readFixture("cpb/transposed/manyfns_brotli_groups/saved_model.cpb");
    for (const at of [3000, 9000, 15_000]) bytes[at] = (bytes[at] as number) ^ 1;
    const { findings, good } = await verify(store("m.cpb", bytes), "m.cpb");
    expect(findings.length).toBe(3);
    expect(good.length).toBeGreaterThan(5);
  });

  it.each(Object.entries(corrupt))("finds %s", async (_, { file }) => {
    const path = "saved_model.cpb";
    const { ok, findings } = await verify(store(path, readFixture(`cpb/${file}`)), path);
    expect(ok).toBe(false);
    expect(findings.filter(({ severity }) => severity === "error").length).toBeGreaterThan(0);
    for (const finding of findings) expect(finding.file).toBe(path);
  });

  it("warns of sizes that are wrong and of files that are not read, and is content all the same", async () => {
    const odd = readFixture("cpb/handmade/chunk_type_unset/saved_model.cpb");
    expect((await verify(store("m.cpb", odd), "m.cpb")).ok).toBe(true);
    const files = new MemoryStore([
      ["m/saved_model.cpb", readFixture("cpb/cpb/tiny__5000_default/saved_model.cpb")],
      ["m/saved_model.pb", readFixture("cpb/models/tiny/saved_model.pb")],
    ]);
    const report = await verify(files, "m");
    expect(report.ok).toBe(true);
    expect(report.findings).toMatchObject([{ severity: "warning", code: "ignored-file", file: "m/saved_model.pb" }]);
  });

  it("checks a plain .pb to the innermost message", async () => {
    const bytes = readFixture("cpb/models/tiny/saved_model.pb");
    expect(await verify(store("m.pb", bytes), "m.pb")).toMatchObject({ ok: true });
    expect(await verify(store("m.pb", bytes.subarray(0, -1)), "m.pb")).toMatchObject({
      ok: false,
      findings: [{ code: "invalid-wire", file: "m.pb" }],
    });
  });

  it("checks any Riegeli file", async () => {
    const name = "bad_chunk_data.riegeli";
    const report = await verify(store(name, readFixture(`riegeli/${name}`)), name);
    expect(report).toMatchObject({ ok: false, format: "riegeli", findings: [{ code: "chunk-data", offset: 17_319 }] });
    expect(report.good.length).toBe(11);
  });
});

describe("detection", () => {
  it.each([
    ["m.pb", "cpb/models/tiny/saved_model.pb", "saved-model"],
    ["no-suffix", "cpb/models/tiny/saved_model.pb", "saved-model"],
    ["m.cpb", "cpb/cpb/tiny__5000_default/saved_model.cpb", "saved-model"],
    ["records", "riegeli/simple_none_proto.riegeli", "riegeli"],
  ])("knows %s by what is in it", async (path, fixture, format) => {
    expect((await detectFormat(store(path, readFixture(fixture)), path)).detection.format).toBe(format);
  });

  it("says so when it knows nothing of a file, or there is none", async () => {
    const files = store("notes.txt", new TextEncoder().encode("hello\n"));
    await expect(detectFormat(files, "notes.txt")).rejects.toMatchObject({ code: "unknown-format", file: "notes.txt" });
    await expect(detectFormat(files, "nothing")).rejects.toMatchObject({ code: "not-found", file: "nothing" });
  });

  it("says so when a format has no tensors", async () => {
    const files = store("x.riegeli", readFixture("riegeli/simple_none_proto.riegeli"));
    await expect(openTensors(files, "x.riegeli")).rejects.toMatchObject({ code: "unsupported-operation" });
  });
});

describe("inspect", () => {
  it("lists the chunks of a .cpb with ranges that cover the file, compression and contents", async () => {
    const bytes = readFixture("cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb");
    const { root, close } = await inspect(store("m.cpb", bytes), "m.cpb");
    const json = await outlineToJson(root, 3);
    await close();
    const chunks = json.children?.find(({ kind }) => kind === "chunks")?.children ?? [];
    expect(chunks[0]).toMatchObject({
      facts: { type: "message", paths: [""], compression: "none" },
      range: { file: "m.cpb", start: 64 },
    });
    expect(chunks.at(-1)).toMatchObject({ label: "metadata", range: { end: bytes.length } });
    expect(JSON.parse(JSON.stringify(json))).toEqual(json);
  });

  it("stops at the depth that is asked for", async () => {
    const { root, close } = await inspect(store("m.pb", readFixture("cpb/models/tiny/saved_model.pb")), "m.pb");
    expect((await outlineToJson(root, 0)).children).toBeUndefined();
    expect((await outlineToJson(root, 1)).children?.every(({ children }) => children === undefined)).toBe(true);
    await close();
  });
});
