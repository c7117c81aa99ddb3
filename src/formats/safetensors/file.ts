import type { ByteSource, OpenedSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { elementBytes } from "../../tensor/dtype.js";
import { type Region, regionSource } from "../../tensor/region.js";
import type { TensorInfo } from "../../tensor/tensor-source.js";
import {
  checkTensors,
  decodeHeader,
  decodeHeaderLength,
  HEADER_LENGTH_BYTES,
  type Header,
  type HeaderTensor,
  type SafetensorsMetadata,
} from "./header.js";

/** A file and what its header says, unchecked. */
export interface ReadHeader extends Header {
  /** Where the data begins in the file. */
  readonly dataStart: number;
}

/**
 * Reads the header of a file. What it says of the tensors is not checked yet.
 * @throws CorruptionError (`invalid-json`), TruncatedError (`truncated`), LimitError (`limit`)
 */
export async function readHeader(source: ByteSource): Promise<ReadHeader> {
  const first = await source.read(0, Math.min(HEADER_LENGTH_BYTES, source.size));
  const length = decodeHeaderLength(first, source.name, source.size);
  const bytes = await source.read(HEADER_LENGTH_BYTES, length);
  return { ...decodeHeader(bytes, source.name), dataStart: HEADER_LENGTH_BYTES + length };
}

/** One open safetensors file, whose header is checked. The data is read when it is asked for. */
export class SafetensorsFile {
  readonly source: OpenedSource;
  readonly metadata: SafetensorsMetadata | undefined;
  /** In the order of the header. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  private readonly starts: ReadonlyMap<string, number>;

  private constructor(source: OpenedSource, header: ReadHeader, shard: string) {
    this.source = source;
    this.metadata = header.metadata;
    this.tensors = new Map(header.tensors.map((tensor) => [tensor.key, infoOf(tensor, header.dataStart, shard)]));
    this.starts = new Map(header.tensors.map(({ key, begin }) => [key, header.dataStart + begin]));
  }

  /**
   * Opens a file and checks all that its header says, as the reference library does. `shard` is what its tensors tell of
   * where they are.
   * @throws NotFoundError (`not-found`), CorruptionError (`invalid-json`, `tensor-offsets`), TruncatedError (`truncated`),
   * UnsupportedError (`unsupported-dtype`), LimitError (`limit`)
   */
  static async open(files: FileStore, path: string, shard: string): Promise<SafetensorsFile> {
    const source = await files.open(path);
    try {
      const header = await readHeader(source);
      for (const { error } of checkTensors(header.tensors, source.name, header.dataStart, source.size)) throw error;
      return new SafetensorsFile(source, header, shard);
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  /** The data of a tensor of this file, or of a region of it. */
  data({ key, dtype, shape, byteLength }: TensorInfo, region?: Region): ByteSource {
    const data = this.source.slice(this.starts.get(key) ?? 0, byteLength);
    return region === undefined ? data : regionSource(data, shape, elementBytes(dtype), region);
  }

  /** Gives back the file. */
  close(): Promise<void> {
    return this.source.close();
  }
}

function infoOf({ key, dtype, code, shape, begin, end }: HeaderTensor, dataStart: number, shard: string): TensorInfo {
  const facts = { shard, offset: dataStart + begin, storedAs: code };
  // The check of the header has refused unknown dtypes.
  return { key, dtype: dtype ?? "uint8", shape, byteLength: end - begin, facts };
}
