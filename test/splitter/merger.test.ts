import { readdirSync } from "node:fs";
import type { DescMessage } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { Merger } from "../../src/splitter/merger.js";
import { sha256 } from "../support/bytes.js";
import { canonicalBytes } from "../support/canonical.js";
import { fixturePath, readExpected, readFixture } from "../support/fixtures.js";

interface Case {
  file: string;
  source_sha256?: string;
  merged_equals_source?: boolean;
  tensorflow: { ok: boolean; merged_sha256?: string };
  expected_error_class?: string;
}
const expected = readExpected<Record<string, Record<string, Case>>>("cpb/expected.json");
const schemaOf = (group: string): DescMessage => (group === "graphdef" ? GraphDefSchema : SavedModelSchema);

async function merge(file: string, schema: DescMessage | undefined, ignoreVersion = false): Promise<Uint8Array> {
  const files = new MemoryStore([[file, readFixture(`cpb/${file}`)]]);
  const merged = await Merger.read(file, schema, { files, check: true, ignoreVersion });
  const source = await merged.toSource();
  const bytes = await source.read(0, source.size);
  await merged.verify();
  await merged.close();
  return new Uint8Array(bytes);
}

describe.each(["cpb", "graphdef", "handmade", "transposed", "trees"])("%s", (group) => {
  const cases = Object.entries(expected[group] ?? {}).filter(([, one]) => one.tensorflow?.ok);
  it.each(cases)("%s merges to what TensorFlow merges it to", async (name, one) => {
    const merged = await merge(one.file, schemaOf(group), name === "version_future");
    expect(sha256(canonicalBytes(schemaOf(group), merged))).toBe(one.tensorflow.merged_sha256);
  });

  // TensorFlow's GraphDefs were not canonical to begin with, and the trees create map entries in an order of their own.
  it.each(cases.filter(([, one]) => one.merged_equals_source && !["graphdef", "trees"].includes(group)))(
    "%s merges to the very bytes that were split",
    async (_, one) => {
      expect(sha256(await merge(one.file, schemaOf(group)))).toBe(one.source_sha256);
    },
  );

  it.each(cases.filter(([name]) => name !== "version_future"))(
    "%s: the root type is found from the contents",
    async (_, one) => {
      const files = new MemoryStore([[one.file, readFixture(`cpb/${one.file}`)]]);
      const merged = await Merger.read(one.file, undefined, { files });
      expect(merged.schema.typeName).toBe(schemaOf(group).typeName);
    },
  );
});

describe("handmade", () => {
  it("sets an element of a repeated string, where TensorFlow crashes", async () => {
    const bytes = await merge("handmade/repeated_string_element/saved_model.cpb", SavedModelSchema);
    expect(canonicalBytes(SavedModelSchema, bytes).length).toBeGreaterThan(0);
  });

  it("refuses a future version, and reads it when asked to read as TensorFlow does", async () => {
    const file = "handmade/version_future/saved_model.cpb";
    await expect(merge(file, SavedModelSchema)).rejects.toMatchObject({ code: "unsupported-version", file });
  });
});

// The error classes of expected.json, and the code that stands for each here.
const CODE_OF: [RegExp, string][] = [
  [/riegeli: header hash at the tail/, "chunk-header"],
  [/riegeli: block header hash/, "block-header"],
  [/riegeli: header hash/, "chunk-header|block-header"],
  [/riegeli: data hash/, "chunk-data"],
  [/riegeli: truncated/, "truncated"],
  [/riegeli: missing signature/, "missing-signature"],
  [/metadata: missing|metadata: last record/, "chunk-metadata"],
  [/chunk index out of range|not found at its position/, "chunk-index"],
  [/^metadata: (field has no chunk|no such field|tag|index|map key|repeated)/, "field-tag"],
  [/^chunk: (bad scalar|parse failed)/, "chunk-value"],
  [/nest|depth|limit/, "limit"],
];

describe("corrupt", () => {
  it.each(Object.entries(expected.corrupt ?? {}))("%s is reported for what it is", async (_, one) => {
    const code = CODE_OF.find(([pattern]) => pattern.test(one.expected_error_class ?? ""))?.[1];
    expect(code, one.expected_error_class).toBeDefined();
    const error = await merge(one.file, SavedModelSchema).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error, one.expected_error_class).toBeInstanceOf(CairnError);
    expect((error as CairnError).code).toMatch(new RegExp(`^(${code})$`));
    expect((error as CairnError).file).toBe(one.file);
  });
});

it("every .cpb of the fixtures is in expected.json", () => {
  const listed = new Set(Object.values(expected).flatMap((group) => Object.values(group).map(({ file }) => file)));
  const found = readdirSync(fixturePath("cpb"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".cpb"),
  );
  expect(found.filter((name) => !listed.has(name))).toEqual([]);
});
