import {
  type ByteRange,
  CorruptionError,
  compareKeys,
  detectFormat,
  diff,
  elementBytes,
  FORMATS,
  type Format,
  inspect,
  NotFoundError,
  openTensors,
  PlanError,
  planConversion,
  type Region,
  regionSource,
  type ShardPlan,
  type TensorInfo,
  type TensorSource,
  verify,
  type WriteOptions,
} from "cairn";
import { type ByteSource, type FileStore, MemorySource, MemoryStore } from "cairn/bytes";
import { describe, expect, it } from "vitest";

// A format as a program outside cairn can write one: with what is public, and nothing else.

interface Entry {
  readonly dtype: "float32" | "int64";
  readonly shape: readonly number[];
  readonly base64: string;
}

type Entries = Readonly<Record<string, Entry>>;

async function readEntries(files: FileStore, path: string): Promise<Entries> {
  const source = await files.open(path);
  try {
    return JSON.parse(new TextDecoder().decode(await source.read(0, source.size))) as Entries;
  } catch (cause) {
    throw new CorruptionError("tensor-data", "no JSON", { file: path, cause });
  } finally {
    await source.close();
  }
}

class JsonTensors implements TensorSource {
  private readonly byKey: Entries;
  private readonly path: string;

  constructor(entries: Entries, path: string) {
    this.byKey = entries;
    this.path = path;
  }

  async *tensors(): AsyncGenerator<TensorInfo> {
    for (const key of Object.keys(this.byKey).sort(compareKeys)) yield this.info(key);
  }

  async info(key: string): Promise<TensorInfo> {
    const { dtype, shape, base64 } = this.entry(key);
    return { key, dtype, shape, byteLength: atob(base64).length };
  }

  async data(key: string, region?: Region): Promise<ByteSource> {
    const { dtype, shape, base64 } = this.entry(key);
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const source = new MemorySource(bytes, this.path);
    return region === undefined ? source : regionSource(source, shape, elementBytes(dtype), region);
  }

  async verify(): Promise<void> {}

  async close(): Promise<void> {}

  private entry(key: string): Entry {
    const entry = this.byKey[key];
    if (entry !== undefined) return entry;
    throw new NotFoundError("no-such-key", `no tensor "${key}"`, { file: this.path });
  }
}

const jsonFormat: Format = {
  id: "tensors-json",
  async detect(files, path) {
    if (!path.endsWith(".tensors.json") || (await files.stat(path)) === undefined) return undefined;
    return { format: "tensors-json", files, path, description: "tensors in JSON", notes: [] };
  },
  async outline({ files, path }) {
    const info = await files.stat(path);
    const range: ByteRange = { file: path, start: 0, end: info?.size ?? 0 };
    return { root: { label: path, kind: "tensors-json", range }, close: async () => {} };
  },
  async *verify({ files, path }) {
    for (const [what, { base64 }] of Object.entries(await readEntries(files, path))) {
      yield { kind: "good", what, byteLength: atob(base64).length };
    }
  },
  async openTensors({ files, path }) {
    return new JsonTensors(await readEntries(files, path), path);
  },
  ownsName: (path) => path.endsWith(".tensors.json"),
  refuses: ({ dtype }) => (dtype === "float32" || dtype === "int64" ? undefined : `no ${dtype} in JSON`),
  async writeTensors(files, path, plan, options) {
    await writeEntries(files, path, plan, options);
  },
};

async function writeEntries(files: FileStore, path: string, { shards }: ShardPlan, options: WriteOptions = {}) {
  const entries: Record<string, Entry> = {};
  for (const { key, sliceSpec, tensor } of shards.flatMap(({ slices }) => slices)) {
    if (sliceSpec !== "") throw new PlanError("invalid-plan", `"${key}" is cut`);
    const data = await tensor.data();
    const bytes = await data.read(0, data.size);
    const base64 = btoa(String.fromCharCode(...bytes));
    entries[key] = { dtype: tensor.dtype as Entry["dtype"], shape: tensor.shape, base64 };
  }
  await options.beforeCommit?.();
  const sink = await files.create(path, { overwrite: options.overwrite });
  await sink.write(new TextEncoder().encode(JSON.stringify(entries)));
  await sink.close();
}

const formats = [jsonFormat, ...FORMATS];
const base64 = (numbers: Float32Array) => btoa(String.fromCharCode(...new Uint8Array(numbers.buffer)));
const model: Entries = {
  bias: { dtype: "float32", shape: [2], base64: base64(Float32Array.of(1, 2)) },
  kernel: { dtype: "float32", shape: [2, 2], base64: base64(Float32Array.of(3, 4, 5, 6)) },
};

function storeOf(entries: Entries): MemoryStore {
  return new MemoryStore([["m.tensors.json", new TextEncoder().encode(JSON.stringify(entries))]]);
}

async function convert(files: FileStore, from: string, to: string, format?: string): Promise<string> {
  const options = { formats, ...(format === undefined ? {} : { to: format }) };
  const conversion = await planConversion({ files, path: from }, { files, path: to }, options);
  await conversion.write();
  await conversion.close();
  return conversion.to;
}

describe("a format of one's own, of what is public", () => {
  it.each([
    ["safetensors", "out.safetensors"],
    ["checkpoint", "out"],
    ["elasticdl", "out"],
    ["tfjs", "out"],
  ])("is converted to %s and back", async (format, path) => {
    const files = storeOf(model);
    expect(await convert(files, "m.tensors.json", path, format)).toBe(format);
    expect(await convert(files, path, "back.tensors.json")).toBe("tensors-json");
    const left = await openTensors(files, "m.tensors.json", formats);
    const right = await openTensors(files, "back.tensors.json", formats);
    const report = await diff(left.tensors, right.tensors);
    expect(report).toEqual({ added: [], removed: [], changed: [], sameCount: 2 });
  });

  it("is detected, inspected and verified", async () => {
    const files = storeOf(model);
    expect((await detectFormat(files, "m.tensors.json", formats)).format).toBe(jsonFormat);
    const { root, close } = await inspect(files, "m.tensors.json", formats);
    expect(root).toMatchObject({ kind: "tensors-json", range: { start: 0 } });
    await close();
    expect(await verify(files, "m.tensors.json", { formats })).toMatchObject({ ok: true, format: "tensors-json" });
  });
});
