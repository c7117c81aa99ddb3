import type { ByteSource } from "../../src/bytes/byte-source.js";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CorruptionError } from "../../src/errors.js";
import type { Detection, Format } from "../../src/formats/format.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import type { Region } from "../../src/tensor/region.js";
import { type MemoryTensor, MemoryTensors } from "./memory-tensors.js";

/** What stands in a `.toy` file, beside the data in hex. */
type Entry = Omit<MemoryTensor, "bytes" | "ids"> & { readonly hex: string; readonly ids?: readonly string[] };
type Entries = Record<string, Entry>;

const encode = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

async function read(files: FileStore, path: string): Promise<Entries> {
  const source = await files.open(path);
  try {
    return JSON.parse(new TextDecoder().decode(await source.read(0, source.size))) as Entries;
  } finally {
    await source.close();
  }
}

/** Tensors of a `.toy` file; one whose facts say that it is damaged cannot be read. */
class ToyTensors extends MemoryTensors {
  override async data(key: string, region?: Region): Promise<ByteSource> {
    if ((await this.info(key)).facts?.damaged) throw new CorruptionError("tensor-data", "damaged", { file: key });
    return super.data(key, region);
  }
}

/** A format of JSON, to show what a format needs to be one, and to test what is written over formats. */
export const toyFormat: Format & {
  storeOf(path: string, tensors: Readonly<Record<string, MemoryTensor>>): MemoryStore;
} = {
  id: "toy",

  async detect(files, path) {
    if (!path.endsWith(".toy") || (await files.stat(path)) === undefined) return undefined;
    return { format: "toy", files, path, description: "toy", notes: [] };
  },

  async outline({ files, path }: Detection) {
    const children = Object.entries(await read(files, path)).map(([label, { dtype }]) => ({
      label,
      kind: "tensor",
      detail: dtype,
    }));
    return { root: { label: path, kind: "toy", children: async () => children }, close: async () => {} };
  },

  async *verify({ files, path }: Detection) {
    for (const [what, { hex }] of Object.entries(await read(files, path))) {
      yield { kind: "good" as const, what, byteLength: hex.length / 2 };
    }
  },

  async openTensors({ files, path }: Detection) {
    const entries = Object.entries(await read(files, path)).map(([key, { hex, ids, ...rest }]) => [
      key,
      {
        ...rest,
        bytes: Uint8Array.from(Buffer.from(hex, "hex")),
        ...(ids === undefined ? {} : { ids: ids.map(BigInt) }),
      },
    ]);
    return new ToyTensors(Object.fromEntries(entries));
  },

  ownsName: (path) => path.endsWith(".toy"),

  async writeTensors(files: FileStore, path: string, { shards }: ShardPlan) {
    const entries: Entries = {};
    for (const { key, tensor } of shards.flatMap(({ slices }) => slices)) {
      const data = await tensor.data();
      entries[key] = { dtype: tensor.dtype, shape: tensor.shape, hex: encode(await data.read(0, data.size)) };
    }
    const sink = await files.create(path);
    await sink.write(new TextEncoder().encode(JSON.stringify(entries)));
    await sink.close();
  },

  storeOf(path, tensors) {
    const entries = Object.entries(tensors).map(([key, { bytes, ids, ...rest }]) => [
      key,
      { ...rest, hex: encode(bytes), ...(ids === undefined ? {} : { ids: ids.map(String) }) },
    ]);
    return new MemoryStore([[path, new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)))]]);
  },
};
