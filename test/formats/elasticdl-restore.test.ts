import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readIds } from "../../src/formats/elasticdl/id-codec.js";
import { ShardFile } from "../../src/formats/elasticdl/shard-file.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { findDTypeNumber } from "../../src/tensor/dtype.js";
import { type ExpectedCase, expected, goExpected, restoreFrom, shareOf, wholeOf } from "../support/elasticdl.js";
import { fixturePath } from "../support/fixtures.js";

const files = new LocalFiles();

function pathsOf(directory: string): string[] {
  return readdirSync(directory)
    .sort()
    .map((name) => join(directory, name));
}

const modelA = Object.entries(expected.model_a.cases).map(
  ([name, one]) => [`model_a/${name}`, fixturePath(`elasticdl/model_a/${name}/${one.dir}`), one] as const,
);
const edge = Object.entries(expected.edge).map(
  ([name, one]) => [`edge/${name}`, fixturePath(`elasticdl/edge/${name}/${one.dir}`), one] as const,
);
const go = Object.entries(goExpected).flatMap(([name, versions]) =>
  Object.values(versions).map(
    (one) => [`go/${name}/${one.dir}`, fixturePath(`elasticdl/go/${name}/${one.dir}`), one] as const,
  ),
);
const all: (readonly [string, string, ExpectedCase])[] = [...modelA, ...edge, ...go];

describe("shards that ElasticDL wrote", () => {
  it.each(all)("%s hold what ElasticDL reads in them", async (_name, directory, { raw }) => {
    for (const [file, one] of Object.entries(raw)) {
      const shard = await ShardFile.open(files, join(directory, file));
      const { catalog } = shard;
      expect(shard.hasChecksums).toBe(false);
      expect(catalog.modelVersion).toBe(one.version);
      const infos = [...catalog.infos.values()].map(({ dtype, ...info }) => ({
        ...info,
        dtype: dtype === undefined ? 0 : findDTypeNumber(dtype),
      }));
      const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
      expect(infos.sort(byName)).toEqual([...one.infos].sort(byName));
      const dense: unknown = Object.fromEntries(
        Array.from(catalog.dense, ([name, { dtype, shape, content }]) => [
          name,
          { dtype: findDTypeNumber(dtype), shape, content_bytes: content.size },
        ]),
      );
      expect(dense).toEqual(one.dense);
      const tables: Record<string, unknown> = {};
      for (const [name, { dtype, shape, ids }] of catalog.tables) {
        tables[name] = {
          dtype: findDTypeNumber(dtype),
          shape,
          ids_in_file_order: Array.from(await readIds(ids), String),
        };
      }
      expect(tables).toEqual(one.tables);
      await shard.close();
    }
  });

  it.each(all)("%s restore to the whole model", async (name, directory, one) => {
    const [share] = await restoreFrom(files, pathsOf(directory), { psNum: 1 });
    const whole = name.startsWith("model_a") ? expected.model_a.whole : one.whole;
    const { dense, tables } = whole;
    expect(wholeOf(share!)).toEqual({ dense, tables });
    expect(share!.modelVersion).toBe(one.whole.version);
  });

  it.each(all)("%s repartition to any number of servers", async (name, directory, one) => {
    const cases = name.startsWith("model_a") ? expected.model_a.repartition : one.repartition;
    for (const [psNum, shares] of Object.entries(cases)) {
      const restored = await restoreFrom(files, pathsOf(directory), { psNum: Number(psNum) });
      expect(restored.map(shareOf), `${psNum} servers`).toEqual(shares);
      const last = shares.length - 1;
      const [only] = await restoreFrom(files, pathsOf(directory), { psNum: Number(psNum), psIds: [last] });
      expect(shareOf(only!)).toEqual(shares[last]);
    }
  });
});
