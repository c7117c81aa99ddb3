import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { expectBytes } from "../support/bytes.js";
import { checkpointPath, EXPECTED, PREFIXES } from "../support/checkpoint-fixtures.js";
import { planOf } from "../support/checkpoint-plans.js";
import { readFixture } from "../support/fixtures.js";

const files = new LocalFiles();

async function bytesOf(store: MemoryStore, path: string): Promise<Uint8Array> {
  const source = await store.open(path);
  return source.read(0, source.size);
}

const writtenByTensorflow = PREFIXES.filter((prefix) => !prefix.startsWith("crafted/"));

describe("writing a checkpoint", () => {
  it.each(writtenByTensorflow)("gives the very files of TensorFlow for %s", async (prefix) => {
    const reader = await openCheckpoint(checkpointPath(prefix), { files });
    const store = new MemoryStore();
    const name = prefix.slice(prefix.lastIndexOf("/") + 1);
    await writeCheckpoint(store, name, await planOf(reader));
    await reader.close();
    const folder = prefix.slice(0, prefix.lastIndexOf("/"));
    for (const file of Object.keys(EXPECTED[prefix]!.files)) {
      if (file.endsWith(".meta")) continue;
      expectBytes(await bytesOf(store, file), readFixture(`checkpoints/${folder}/${file}`));
    }
    const names = (await store.list("")).map(({ path }) => path);
    expect(names.filter((one) => !(one in EXPECTED[prefix]!.files))).toEqual([`${name}.cairn.json`]);
  });
});
