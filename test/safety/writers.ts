import { createHash } from "node:crypto";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { isCairnError } from "../../src/errors.js";
import { CheckpointDirectory } from "../../src/formats/checkpoint/checkpoint-directory.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { mergeCheckpoints } from "../../src/formats/checkpoint/merge-checkpoints.js";
import { readMetrics, recordMetrics } from "../../src/formats/elasticdl/metrics.js";
import type { ModelContents } from "../../src/formats/elasticdl/model-contents.js";
import { reshardVersion } from "../../src/formats/elasticdl/reshard.js";
import { applyRetention, planRetention } from "../../src/formats/elasticdl/retention.js";
import { saveShard } from "../../src/formats/elasticdl/save-shard.js";
import { VersionContents } from "../../src/formats/elasticdl/version-contents.js";
import { TrainingDirectory } from "../../src/formats/elasticdl/versioned.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { detectFormat } from "../../src/formats/registry.js";
import { mergeModel } from "../../src/formats/saved-model/merge-model.js";
import { openSavedModel } from "../../src/formats/saved-model/public.js";
import { splitModel } from "../../src/formats/saved-model/split-model.js";
import { planConversion } from "../../src/ops/convert.js";
import { planReshard } from "../../src/ops/reshard.js";
import { openTensors } from "../../src/ops/tensors.js";
import { ShardByTaskPolicy } from "../../src/sharding/index.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import { Checkpoint } from "../../src/tracking/checkpoint.js";
import { CheckpointManager } from "../../src/tracking/manager.js";
import { TrackedNumber } from "../../src/tracking/scalars.js";
import { readFixture } from "../support/fixtures.js";

/** Something that writes, and how to tell what it left. */
export interface Writer {
  readonly name: string;
  /** What is there before. */
  prepare(files: FileStore): Promise<void>;
  /** The work; it may find what an earlier one left, and `exists` is then as good as success. */
  run(files: FileStore): Promise<unknown>;
  /** What a reader finds: "nothing", or a text that is the same for the same contents. Damage is an error. */
  contents(files: FileStore): Promise<string>;
  /** A text for each state besides the first and the last that is whole, such as one of two versions removed. */
  readonly between?: ((before: string, after: string, found: string) => boolean) | undefined;
}

const overwrite = true;
const BEST = { metric: "loss", mode: "min" } as const;

/** A plan of `shards` shards of two tensors, all filled with `value`. */
export function planWith(value: number, shards: number): ShardPlan {
  const slice = (key: string) => {
    const data = async () => new MemorySource(new Uint8Array(new Float32Array(100).fill(value).buffer));
    const tensor = { dtype: "float32", shape: [100], byteLength: 400, data } as const;
    return { key, sliceSpec: "", fullShape: [100], region: [{ start: 0, end: 100 }], tensor };
  };
  return {
    description: `all ${value}`,
    shards: Array.from({ length: shards }, (_, i) => ({ task: "", slices: [slice(`a${i}`), slice(`b${i}`)] })),
    warnings: [],
  };
}

/** One training's model at a version; with `psId`, what belongs to that server of two. */
export function modelAt(modelVersion: number): ModelContents {
  const values = (numbers: number[]) => () =>
    new MemorySource(new Uint8Array(Float32Array.from(numbers).buffer), "given");
  const ids = Array.from({ length: 30 }, (_, i) => BigInt(i));
  const part = {
    rowCount: ids.length,
    slots: new Map(),
    data: values(ids.map((id) => Number(id) + modelVersion)),
    async *idBatches() {
      yield BigInt64Array.from(ids);
    },
  };
  const dense = ["a", "b", "c"].map((name) => ({
    name,
    dtype: "float32" as const,
    shape: [50],
    data: values(new Array(50).fill(modelVersion)),
    slots: new Map(),
  }));
  const table = { name: "t", dim: 1, dtype: "float32" as const, initializer: "zeros", parts: [part], slots: [] };
  return { modelVersion, dense, tables: [table], states: [] };
}

/** Every tensor of a path, read and checked, as one hash; "nothing" when nothing is there. */
export async function tensorsAt(files: FileStore, path: string): Promise<string> {
  if (!(await isThere(files, path))) return "nothing";
  const { tensors } = await openTensors(files, path);
  const hash = createHash("sha256");
  let count = 0;
  try {
    for await (const { key, dtype, shape } of tensors.tensors()) {
      const data = await tensors.data(key);
      hash.update(`${key} ${dtype} ${shape}\n`).update(await data.read(0, data.size));
      count++;
    }
    await tensors.verify();
  } finally {
    await tensors.close();
  }
  return `${count} tensors ${hash.digest("hex").slice(0, 12)}`;
}

async function isThere(files: FileStore, path: string): Promise<boolean> {
  for (const one of [path, `${path}.index`]) if ((await files.stat(one)) !== undefined) return true;
  // What a crash moved aside, or did not move yet, is found by who opens it.
  return (await detectFormat(files, path).catch(() => undefined)) !== undefined;
}

/** A SavedModel's proto, whole, and the files beside it. */
async function modelText(files: FileStore, path: string): Promise<string> {
  if (!(await isThere(files, path))) return "nothing";
  const model = await openSavedModel(path, { files });
  try {
    const source = await model.file.proto.toSource();
    const hash = createHash("sha256").update(await source.read(0, source.size));
    await model.file.proto.verify();
    const form = model.file.proto.chunks === undefined ? "whole" : "split";
    return `${form} ${hash.digest("hex").slice(0, 12)}`;
  } finally {
    await model.close();
  }
}

/** The complete versions of a training, with what is in each. */
async function versionsAt(files: FileStore, root: string): Promise<string> {
  const { versions } = await new TrainingDirectory(files, root).list().catch((error: unknown) => {
    if (!isCairnError(error, "not-found")) throw error;
    return { versions: [] };
  });
  if (versions.length === 0) return "nothing";
  const shown: string[] = [];
  for (const { version, isComplete, path } of versions) {
    if (isComplete) shown.push(`${version}: ${await tensorsAt(files, path)}`);
  }
  return shown.join("; ");
}

async function put(files: FileStore, path: string, bytes: Uint8Array): Promise<void> {
  const sink = await files.create(path);
  await sink.write(bytes);
  await sink.close();
}

async function putModel(files: FileStore, directory: string, name = "vocab"): Promise<void> {
  await put(files, `${directory}/saved_model.pb`, readFixture(`cpb/models/${name}/saved_model.pb`));
  await put(files, `${directory}/assets/vocab.txt`, new TextEncoder().encode(`words of ${name}`));
}

async function split(files: FileStore, from: string, to: string, replaces = false): Promise<void> {
  const plan = await splitModel(from, to, { source: files, target: files, maxChunkSize: 2000, overwrite: replaces });
  try {
    await plan.write({ compression: "none" });
  } finally {
    await plan.close();
  }
}

async function merge(files: FileStore, from: string, to: string, replaces = false): Promise<void> {
  const plan = await mergeModel(from, to, { source: files, target: files, overwrite: replaces });
  try {
    await plan.write();
  } finally {
    await plan.close();
  }
}

async function convert(
  files: FileStore,
  to: string,
  path: string,
  options: { maxShardSize?: number; overwrite?: boolean } = {},
) {
  const place = { files, path: "source/c" };
  const { maxShardSize } = options;
  const conversion = await planConversion(
    place,
    { files, path },
    { to, ...(maxShardSize === undefined ? {} : { maxShardSize }) },
  );
  try {
    await conversion.write({ overwrite: options.overwrite });
  } finally {
    await conversion.close();
  }
}

const withSource = (files: FileStore) => writeCheckpoint(files, "source/c", planWith(2, 2));

/** Conversions to each format: new, and in the place of an older one. */
function conversions(): Writer[] {
  const targets: [to: string, path: string, maxShardSize?: number][] = [
    ["checkpoint", "out/x"],
    ["safetensors", "out/x.safetensors"],
    ["safetensors", "out/m", 900],
    ["elasticdl", "out/ckpt/version-3"],
    ["tfjs", "out/web/model.json"],
    ["tfjs", "out/web", 900],
  ];
  return targets.flatMap(([to, path, maxShardSize]) => {
    const size = maxShardSize === undefined ? {} : { maxShardSize };
    const at = (files: FileStore) => tensorsAt(files, path);
    return [
      {
        name: `convert to ${to} at ${path}`,
        prepare: async (files) => void (await withSource(files)),
        run: (files) => convert(files, to, path, size),
        contents: at,
      },
      {
        name: `convert to ${to} at ${path}, replacing`,
        async prepare(files) {
          await writeCheckpoint(files, "source/c", planWith(1, 3));
          await convert(files, to, path, size);
          await writeCheckpoint(files, "source/c", planWith(2, 2), { overwrite });
        },
        run: (files) => convert(files, to, path, { ...size, overwrite }),
        contents: at,
      },
    ] satisfies Writer[];
  });
}

/** All writers of the library that the command line and the programs use. */
export const WRITERS: readonly Writer[] = [
  {
    name: "split a file",
    prepare: (files) => put(files, "m.pb", readFixture("cpb/models/vocab/saved_model.pb")),
    run: (files) => split(files, "m.pb", "out/m.cpb"),
    contents: (files) => modelText(files, "out/m.cpb"),
  },
  {
    name: "split a directory",
    prepare: (files) => putModel(files, "m"),
    run: (files) => split(files, "m", "out/m"),
    contents: (files) => modelText(files, "out/m"),
  },
  {
    name: "split a directory, replacing",
    async prepare(files) {
      await putModel(files, "m");
      await putModel(files, "out/m", "tiny");
    },
    run: (files) => split(files, "m", "out/m", true),
    contents: (files) => modelText(files, "out/m"),
  },
  {
    name: "merge a file, replacing",
    async prepare(files) {
      await put(files, "m.cpb", readFixture("cpb/trees/vocab_2/saved_model.cpb"));
      await put(files, "out/m.pb", readFixture("cpb/models/tiny/saved_model.pb"));
    },
    run: (files) => merge(files, "m.cpb", "out/m.pb", true),
    contents: (files) => modelText(files, "out/m.pb"),
  },
  {
    name: "merge a directory",
    async prepare(files) {
      await put(files, "m/saved_model.cpb", readFixture("cpb/trees/vocab_2/saved_model.cpb"));
      await put(files, "m/assets/vocab.txt", new TextEncoder().encode("words"));
    },
    run: (files) => merge(files, "m", "out/m"),
    contents: (files) => modelText(files, "out/m"),
  },
  {
    name: "write a checkpoint",
    prepare: async () => {},
    run: (files) => writeCheckpoint(files, "d/c", planWith(2, 3)),
    contents: (files) => tensorsAt(files, "d/c"),
  },
  {
    name: "replace a checkpoint",
    prepare: async (files) => void (await writeCheckpoint(files, "d/c", planWith(1, 2))),
    run: (files) => writeCheckpoint(files, "d/c", planWith(2, 3), { overwrite }),
    contents: (files) => tensorsAt(files, "d/c"),
  },
  ...([false, true] as const).map((move) => ({
    name: move ? "merge checkpoints by moving" : "merge checkpoints by copying",
    async prepare(files: FileStore) {
      const { shards, ...rest } = planWith(2, 2);
      for (const [i, shard] of shards.entries())
        await writeCheckpoint(files, `d/part-${i}`, { ...rest, shards: [shard] });
    },
    run: (files: FileStore) => mergeCheckpoints(files, ["d/part-0", "d/part-1"], "d/all", { move }),
    async contents(files: FileStore) {
      const whole = await tensorsAt(files, "d/all");
      if (whole !== "nothing") return whole;
      return `parts ${await tensorsAt(files, "d/part-0")} ${await tensorsAt(files, "d/part-1")}`;
    },
  })),
  {
    name: "reshard a checkpoint, replacing",
    async prepare(files) {
      await writeCheckpoint(files, "source/c", planWith(2, 3));
      await writeCheckpoint(files, "d/c", planWith(1, 2));
    },
    async run(files) {
      const resharding = await planReshard(
        { files, path: "source/c" },
        { files, path: "d/c" },
        new ShardByTaskPolicy(),
      );
      try {
        await resharding.write({ overwrite });
      } finally {
        await resharding.close();
      }
    },
    contents: (files) => tensorsAt(files, "d/c"),
  },
  ...conversions(),
  {
    name: "save the shards of a training",
    prepare: async (files) => void (await writeVersion(files, "ckpt", modelAt(1), { psNum: 2 })),
    async run(files) {
      const whole = new MemoryStore();
      await writeVersion(whole, "all", modelAt(2), { psNum: 2 });
      for (let psId = 0; psId < 2; psId++) {
        const share = await VersionContents.open(whole, [`all/version_2/variables-${psId}-of-2.chkpt`]);
        await saveShard(files, "ckpt", share, { psId, psNum: 2 });
      }
    },
    contents: (files) => versionsAt(files, "ckpt"),
  },
  {
    name: "write a version of a training, replacing",
    prepare: async (files) => void (await writeVersion(files, "ckpt", modelAt(2), { psNum: 3 })),
    run: (files) => writeVersion(files, "ckpt", { ...modelAt(2), dense: [] }, { psNum: 2, overwrite }),
    contents: (files) => versionsAt(files, "ckpt"),
  },
  {
    name: "reshard a training",
    prepare: async (files) => void (await writeVersion(files, "source", modelAt(2), { psNum: 3 })),
    run: (files) => reshardVersion(files, "source", "ckpt", { psNum: 2 }),
    contents: (files) => versionsAt(files, "ckpt"),
  },
  {
    name: "remove old versions of a training",
    async prepare(files) {
      for (const version of [1, 2, 3]) await writeVersion(files, "ckpt", modelAt(version), { psNum: 2 });
    },
    async run(files) {
      const { versions } = await new TrainingDirectory(files, "ckpt").list();
      const retained = versions.map(({ version, path, isComplete }) => ({
        modelVersion: version,
        path,
        isComplete,
        shards: [],
      }));
      await applyRetention(files, "ckpt", planRetention(retained, { keepMax: 1 }));
    },
    contents: (files) => versionsAt(files, "ckpt"),
    // Each version goes in one step; the newest stays.
    between: (before, after, found) => before.endsWith(found) && found.endsWith(after),
  },
  {
    name: "record metrics of a training",
    async prepare(files) {
      await writeVersion(files, "ckpt", modelAt(2));
      await recordMetrics(files, "ckpt", { version: 2, metrics: { loss: 1 }, best: BEST });
    },
    run: (files) => recordMetrics(files, "ckpt", { version: 2, metrics: { loss: 0.5 }, best: BEST }),
    contents: async (files) => JSON.stringify((await readMetrics(files, "ckpt"))?.versions),
  },
  {
    name: "save with a manager that keeps one",
    prepare: (files) => managed(files, 1),
    // A program that begins anew goes on counting from what is there.
    run: (files) => managed(files, 2),
    contents: async (files) => `value ${await managedValue(files)}`,
  },
  {
    name: "prune a directory of checkpoints",
    async prepare(files) {
      for (const value of [1, 2, 3]) await writeCheckpoint(files, `d/c-${value}`, planWith(value, 2));
    },
    async run(files) {
      const directory = new CheckpointDirectory(files, "d");
      await directory.prune(await directory.planPrune({ keep: 1 }));
    },
    async contents(files) {
      const { versions } = await new CheckpointDirectory(files, "d").list();
      return versions
        .filter(({ isComplete }) => isComplete)
        .map(({ path }) => path)
        .join(" ");
    },
    between: (before, after, found) => before.endsWith(found) && found.endsWith(after),
  },
];

async function openManaged(files: FileStore) {
  const step = new TrackedNumber();
  const checkpoint = new Checkpoint({ step }, { files });
  const manager = await CheckpointManager.open(checkpoint, { files, directory: "d", maxToKeep: 1, now: () => 1 });
  return { step, manager };
}

async function managed(files: FileStore, checkpointNumber: number, value = checkpointNumber): Promise<void> {
  const { step, manager } = await openManaged(files);
  step.value = value;
  await manager.save({ checkpointNumber });
}

async function managedValue(files: FileStore): Promise<number> {
  const { step, manager } = await openManaged(files);
  await manager.restoreOrInitialize();
  return step.value;
}
