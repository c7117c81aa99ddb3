import type { ByteSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath, parentPath } from "../../bytes/path.js";
import { CairnError, CorruptionError, NotFoundError } from "../../errors.js";
import { compareKeys } from "../../tensor/key-order.js";
import type { Region } from "../../tensor/region.js";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import { SafetensorsFile } from "./file.js";
import type { SafetensorsMetadata } from "./header.js";
import { findSafetensors, type SafetensorsPaths } from "./locate.js";
import { readShardIndex, type ShardIndex } from "./shard-index.js";

/** Files whose headers are read at a time. */
const PARALLEL_OPENS = 8;

/**
 * The tensors of a safetensors model in one file or several. Headers and data are read when they are asked for: one
 * tensor takes the header of its file, and its own bytes. The format has no checksums.
 */
export class SafetensorsModel implements TensorSource {
  /** The index, of a model that has one. */
  readonly index: ShardIndex | undefined;
  /** What a person would call it. */
  readonly path: string;
  /** The path of each file, by the name that the index has for it. */
  readonly shardPaths: ReadonlyMap<string, string>;
  private readonly files: FileStore;
  private readonly opened = new Map<string, Promise<SafetensorsFile>>();

  private constructor(files: FileStore, path: string, paths: SafetensorsPaths, index: ShardIndex | undefined) {
    this.files = files;
    this.path = path;
    this.index = index;
    const { indexPath, filePaths } = paths;
    this.shardPaths =
      index === undefined || indexPath === undefined
        ? new Map(filePaths.map((one) => [baseName(one), one]))
        : new Map([...new Set(index.weightMap.values())].map((name) => [name, joinPath(parentPath(indexPath), name)]));
  }

  /**
   * Opens a `.safetensors` file, a `.safetensors.index.json`, or a directory that holds one of them.
   * @throws NotFoundError (`not-found`), CorruptionError (`invalid-json`, `weight-map`), LimitError (`limit`)
   */
  static async open(files: FileStore, path: string): Promise<SafetensorsModel> {
    const paths = await findSafetensors(files, path);
    if (paths === undefined) {
      throw new NotFoundError("not-found", "no .safetensors file and no index of several here", { file: path });
    }
    return SafetensorsModel.openFound(files, path, paths);
  }

  /** Opens a model that was found already. */
  static async openFound(files: FileStore, path: string, paths: SafetensorsPaths): Promise<SafetensorsModel> {
    const index = paths.indexPath === undefined ? undefined : await readShardIndex(files, paths.indexPath);
    return new SafetensorsModel(files, path, paths, index);
  }

  /**
   * All tensors in key order. When a file is damaged, those of the others are given first, and then the error.
   * @throws what damaged files give
   */
  async *tensors(): AsyncGenerator<TensorInfo> {
    const { found, error } = await this.find();
    for (const key of [...found.keys()].sort(compareKeys)) yield found.get(key) as TensorInfo;
    if (error !== undefined) throw error;
  }

  /** See {@link TensorSource.info}. @throws NotFoundError (`no-such-key`), CorruptionError (`weight-map`) */
  async info(key: string): Promise<TensorInfo> {
    return (await this.locate(key)).info;
  }

  /** See {@link TensorSource.data}. @throws NotFoundError (`no-such-key`), UnsupportedError (`unsupported-operation`) */
  async data(key: string, region?: Region): Promise<ByteSource> {
    const { file, info } = await this.locate(key);
    return file.data(info, region);
  }

  /** The texts that its files and its index carry; a text of the first file that has it. */
  async metadata(): Promise<SafetensorsMetadata> {
    const merged = new Map<string, string>();
    for (const name of this.shardPaths.keys()) {
      for (const [key, text] of Object.entries((await this.shard(name)).metadata ?? {})) {
        if (!merged.has(key)) merged.set(key, text);
      }
    }
    return Object.fromEntries([...Object.entries(this.index?.metadata ?? {}), ...merged]);
  }

  /** There are no checksums, and so nothing to do. */
  async verify(): Promise<void> {}

  /** See {@link TensorSource.close}. */
  async close(): Promise<void> {
    for (const file of await Promise.allSettled(this.opened.values())) {
      if (file.status === "fulfilled") await file.value.close();
    }
    this.opened.clear();
  }

  /** The file of a name that the index has. */
  shard(name: string): Promise<SafetensorsFile> {
    let file = this.opened.get(name);
    if (file === undefined) {
      file = SafetensorsFile.open(this.files, this.shardPaths.get(name) ?? name, name);
      this.opened.set(name, file);
      // One that failed may be tried again.
      file.catch(() => this.opened.delete(name));
    }
    return file;
  }

  private async locate(key: string): Promise<{ file: SafetensorsFile; info: TensorInfo }> {
    const name = this.index?.weightMap.get(key);
    if (name !== undefined) return this.locateIn(name, key);
    const names = this.index === undefined ? [...this.shardPaths.keys()] : [];
    for (const one of names) {
      const file = await this.shard(one);
      const info = file.tensors.get(key);
      if (info !== undefined) return { file, info };
    }
    throw new NotFoundError("no-such-key", `no tensor "${key}"`, {
      file: this.path,
      hint: 'List its keys with "cairn tensors".',
    });
  }

  private async locateIn(name: string, key: string): Promise<{ file: SafetensorsFile; info: TensorInfo }> {
    const file = await this.shard(name);
    const info = file.tensors.get(key);
    if (info !== undefined) return { file, info };
    throw new CorruptionError("weight-map", `the index says that "${key}" is here, but it is not`, {
      file: file.source.name,
    });
  }

  /** All tensors that can be found, and the first error that was met. */
  private async find(): Promise<{ found: Map<string, TensorInfo>; error: CairnError | undefined }> {
    const found = new Map<string, TensorInfo>();
    let error: CairnError | undefined;
    await this.openAll((problem) => {
      error ??= problem;
    });
    for (const name of this.shardPaths.keys()) {
      const file = await this.opened.get(name)?.catch(() => undefined);
      for (const [key, info] of file?.tensors ?? []) {
        if (this.index !== undefined && this.index.weightMap.get(key) !== name) continue;
        if (found.has(key)) error ??= this.twice(key);
        else found.set(key, info);
      }
    }
    const missing = [...(this.index?.weightMap.keys() ?? [])].find((key) => !found.has(key));
    if (missing !== undefined && error === undefined) {
      await this.locate(missing).catch((problem: CairnError) => {
        error = problem;
      });
    }
    return { found, error };
  }

  private async openAll(onError: (error: CairnError) => void): Promise<void> {
    const names = [...this.shardPaths.keys()];
    for (let i = 0; i < names.length; i += PARALLEL_OPENS) {
      const group = names.slice(i, i + PARALLEL_OPENS).map((name) => this.shard(name));
      for (const result of await Promise.allSettled(group)) {
        if (result.status === "fulfilled") continue;
        if (!(result.reason instanceof CairnError)) throw result.reason;
        onError(result.reason);
      }
    }
  }

  private twice(key: string): CorruptionError {
    return new CorruptionError("weight-map", `"${key}" is in two files, and no index says which counts`, {
      file: this.path,
    });
  }
}
