import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { openSavedModel } from "../../src/formats/saved-model/public.js";
import { planConversion } from "../../src/ops/convert.js";
import { openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { RecordReader } from "../../src/riegeli/index.js";
import { modelAt } from "../safety/writers.js";
import { fixturePath, readFixture } from "./fixtures.js";
import { seededRandom } from "./interleaving-store.js";

/** Files of one model or checkpoint, to be damaged one after another. */
export interface Damaged {
  readonly format: string;
  readonly name: string;
  /** What is opened. */
  readonly path: string;
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Everything in it, as one text. */
  read(files: FileStore, path: string): Promise<string>;
  /** Whether a checksum covers what is read, so that no damage may give other data. */
  readonly isChecked: boolean;
  /** Lengths at which a file may end: a Riegeli file cut between two chunks is a sound file of fewer records. */
  readonly ends?: ReadonlySet<number> | undefined;
}

/** What came of the damages of some files. */
export interface DamageCounts {
  flips: number;
  cuts: number;
  /** A typed error when it is read. */
  refused: number;
  /** The right data all the same: nothing reads those bytes, or they say the same. */
  right: number;
  /** Of the latter, those that `verify` tells of. */
  told: number;
  /** Other data without an error. */
  wrong: number;
  /** What was wrong where a checksum should have told; and errors that are no CairnError. */
  readonly faults: string[];
}

async function tensorsText(files: FileStore, path: string): Promise<string> {
  const { tensors } = await openTensors(files, path);
  const hash = createHash("sha256");
  try {
    for await (const { key, dtype, shape, embedding } of tensors.tensors()) {
      const data = await tensors.data(key);
      hash.update(`${key} ${dtype} ${shape}\n`).update(await data.read(0, data.size));
      if (embedding !== undefined) hash.update(String(await tensors.ids?.(key)));
    }
    await tensors.verify();
  } finally {
    await tensors.close();
  }
  return hash.digest("hex");
}

async function recordsText(files: FileStore, path: string): Promise<string> {
  const source = await files.open(path);
  const hash = createHash("sha256");
  const reader = await RecordReader.open(source);
  for await (const record of reader.records()) hash.update(`${record.size} `).update(await record.read(0, record.size));
  return hash.digest("hex");
}

async function protoText(files: FileStore, path: string): Promise<string> {
  const model = await openSavedModel(path, { files });
  try {
    const source = await model.file.proto.toSource();
    const text = createHash("sha256")
      .update(await source.read(0, source.size))
      .digest("hex");
    await model.file.proto.verify();
    return text;
  } finally {
    await model.close();
  }
}

function filesBelow(folder: string): Map<string, Uint8Array> {
  const names = readdirSync(fixturePath(folder), { recursive: true, encoding: "utf8" }).sort();
  const files = names.filter((name) => statSync(join(fixturePath(folder), name)).isFile());
  return new Map(files.map((name) => [`${folder}/${name}`, readFixture(`${folder}/${name}`)]));
}

/** What is damaged: fixtures of each format, and what cairn writes where no fixture is. */
export async function damageCases(maxBytes: number): Promise<Damaged[]> {
  const cases: Damaged[] = [];
  const add = (one: Damaged) => {
    const bytes = [...one.files.values()].reduce((sum, { length }) => sum + length, 0);
    if (bytes > 0 && bytes <= maxBytes) cases.push(one);
  };
  for (const [path, bytes] of filesBelow("riegeli")) {
    if (!path.endsWith(".riegeli") || /bad_|hash_ok|truncated|not_|zero_|too_long|cut_|out_of/.test(path)) continue;
    if (bytes.length === 0) continue;
    const ends = new Set<number>();
    for await (const { begin } of (await RecordReader.open(new MemorySource(bytes))).chunks()) ends.add(begin);
    const files = new Map([[path, bytes]]);
    add({ format: "riegeli", name: path, path, files, read: recordsText, isChecked: true, ends });
  }
  for (const folder of ["cpb/trees", "cpb/graphdef", "cpb/transposed"]) {
    for (const [path, bytes] of filesBelow(folder)) {
      if (!path.endsWith(".cpb")) continue;
      add({ format: "cpb", name: path, path, files: new Map([[path, bytes]]), read: protoText, isChecked: true });
    }
  }
  const checkpoints = filesBelow("checkpoints");
  for (const path of checkpoints.keys()) {
    if (!path.endsWith(".index")) continue;
    const prefix = path.slice(0, -".index".length);
    const own = [...checkpoints].filter(([name]) => name === path || name.startsWith(`${prefix}.data-`));
    add({ format: "checkpoint", name: prefix, path: prefix, files: new Map(own), read: tensorsText, isChecked: true });
  }
  for (const [path, bytes] of filesBelow("safetensors")) {
    if (!/^safetensors\/[^/]+\.safetensors$/.test(path)) continue;
    add({
      format: "safetensors",
      name: path,
      path,
      files: new Map([[path, bytes]]),
      read: tensorsText,
      isChecked: false,
    });
  }
  const ofTensorflow = filesBelow("elasticdl/go/sgd_ps2/version-9");
  const root = "elasticdl/go/sgd_ps2/version-9";
  add({
    format: "elasticdl (its own)",
    name: root,
    path: root,
    files: ofTensorflow,
    read: tensorsText,
    isChecked: false,
  });
  const own = new MemoryStore();
  await writeVersion(own, "ckpt", modelAt(3), { psNum: 2 });
  add({
    format: "elasticdl (cairn's)",
    name: "ckpt/version_3",
    path: "ckpt/version_3",
    files: await contentsOf(own, "ckpt/version_3"),
    read: tensorsText,
    isChecked: true,
  });
  const web = new MemoryStore(filesBelow("safetensors"));
  const conversion = await planConversion(
    { files: web, path: "safetensors/model.safetensors" },
    { files: web, path: "web/model.json" },
    { to: "tfjs", skipUnsupported: true },
  );
  await conversion.write();
  await conversion.close();
  const path = "web/model.json";
  add({ format: "tfjs", name: path, path, files: await contentsOf(web, "web"), read: tensorsText, isChecked: false });
  return cases;
}

async function contentsOf(files: FileStore, directory: string): Promise<Map<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  for (const { path } of await files.list(directory)) {
    const source = await files.open(path);
    found.set(path, (await source.read(0, source.size)).slice());
  }
  return found;
}

/** Flips a bit at each byte and cuts at each length, or at `most` seeded places of each kind and file. */
export async function damageAll(one: Damaged, most: number): Promise<DamageCounts> {
  const counts: DamageCounts = { flips: 0, cuts: 0, refused: 0, right: 0, told: 0, wrong: 0, faults: [] };
  const right = await one.read(new MemoryStore(one.files), one.path);
  const random = seededRandom(one.name.length * 31 + 7);
  for (const [path, bytes] of one.files) {
    for (const at of places(bytes.length, most, random)) {
      const flipped = bytes.slice();
      flipped[at] = (flipped[at] as number) ^ (1 << Math.floor(random() * 8));
      counts.flips++;
      await look(one, path, flipped, { right, what: `flipped at ${at}` }, counts);
    }
    for (const length of places(bytes.length, most, random)) {
      counts.cuts++;
      await look(one, path, bytes.slice(0, length), { right, what: `cut at ${length}` }, counts);
    }
  }
  return counts;
}

function places(length: number, most: number, random: () => number): number[] {
  if (length <= most) return Array.from({ length }, (_, i) => i);
  return [...new Set(Array.from({ length: most }, () => Math.floor(random() * length)))];
}

async function look(
  one: Damaged,
  path: string,
  bytes: Uint8Array,
  { right, what }: { right: string; what: string },
  counts: DamageCounts,
): Promise<void> {
  const files = new MemoryStore([...one.files, [path, bytes]]);
  try {
    const found = await one.read(files, one.path);
    if (found !== right) {
      counts.wrong++;
      if (one.isChecked && !one.ends?.has(bytes.length)) counts.faults.push(`${path} ${what}: other data`);
      return;
    }
    counts.right++;
    const { findings } = await verify(files, one.path);
    if (findings.length > 0) counts.told++;
  } catch (error) {
    if (error instanceof CairnError) counts.refused++;
    else counts.faults.push(`${path} ${what}: ${(error as Error).stack}`);
  }
}
