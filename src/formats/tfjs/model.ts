import type { ByteSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinSources } from "../../bytes/joined-source.js";
import { joinPath, parentPath } from "../../bytes/path.js";
import { NotFoundError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementRuns } from "../../tensor/element-runs.js";
import { compareKeys } from "../../tensor/key-order.js";
import { type Region, regionSource } from "../../tensor/region.js";
import { elementCount } from "../../tensor/shape.js";
import { STRING_LENGTH_BYTES } from "../../tensor/strings.js";
import type { TensorFact, TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import { dequantizedSource } from "./dequantized-source.js";
import { checkGroupSize, type GroupLayout, layOutGroup, type PlacedWeight, storedWidth } from "./group-layout.js";
import { findModelJson } from "./locate.js";
import { isObject, type ModelJson, readModelJson, type WeightGroup, type WeightSpec } from "./model-json.js";
import { ShardFiles } from "./shard-files.js";
import { RelengthedStrings, WEIGHT_STRING_LENGTH_BYTES } from "./string-weights.js";

/** Looks for a `model.json` at a path. @throws {@link NotFoundError} (`not-found`) */
export async function locateModelJson(files: FileStore, path: string): Promise<string> {
  const found = await findModelJson(files, path);
  if (found !== undefined) return found;
  throw new NotFoundError("not-found", "no model.json with a weightsManifest here", { file: path });
}

/**
 * The weights of a TF.js model. Opening reads `model.json` alone; where weights are is found from the sizes of the files of
 * their group. The format has no checksums.
 */
export class TfjsModel implements TensorSource {
  readonly json: ModelJson;
  readonly shards: ShardFiles;
  private readonly groups: readonly Group[];
  private readonly byName: ReadonlyMap<string, { readonly group: Group; readonly spec: WeightSpec }>;

  private constructor(files: FileStore, json: ModelJson) {
    this.json = json;
    this.shards = new ShardFiles(files);
    this.groups = json.groups.map((group, i) => new Group(group, i, this));
    this.byName = new Map(
      this.groups.flatMap((group) => group.weights.weights.map((spec) => [spec.name, { group, spec }])),
    );
  }

  /**
   * Opens a `model.json`, another `.json` with a manifest of weights, or a directory with a `model.json`.
   * @throws NotFoundError (`not-found`), CorruptionError (`invalid-json`, `weight-map`), UnsupportedError
   * (`unsupported-dtype`), LimitError (`limit`)
   */
  static async open(files: FileStore, path: string): Promise<TfjsModel> {
    return new TfjsModel(files, await readModelJson(files, await locateModelJson(files, path)));
  }

  /** See {@link TensorSource.tensors}. Of strings the lengths are read. */
  async *tensors(): AsyncGenerator<TensorInfo> {
    for (const name of [...this.byName.keys()].sort(compareKeys)) yield this.info(name);
  }

  /** See {@link TensorSource.info}. @throws NotFoundError (`no-such-key`) */
  async info(key: string): Promise<TensorInfo> {
    const { group, spec } = this.find(key);
    const { dtype, shape, quantization } = spec;
    const lengths = dtype === "string" ? (await group.place(key)).lengths : undefined;
    const byteLength = lengths?.reduce((sum, length) => sum + length, 0) ?? elementCount(shape) * elementBytes(dtype);
    const facts: Record<string, TensorFact> = { group: group.index + 1 };
    if (quantization?.dtype === "float16") facts.storedAs = "float16";
    else if (quantization !== undefined) {
      facts.storedAs = quantization.dtype;
      facts.scale = quantization.scale;
      facts.min = quantization.min;
    }
    const known = { key, dtype, shape, byteLength, facts };
    return spec.group === "optimizer" ? { ...known, role: "slot" } : known;
  }

  /**
   * See {@link TensorSource.data}. Quantized numbers come as TF.js decodes them.
   * @throws NotFoundError (`no-such-key`, `not-found`), TruncatedError (`truncated`), CorruptionError (`weight-map`)
   */
  async data(key: string, region?: Region): Promise<ByteSource> {
    const { group, spec } = this.find(key);
    const place = await group.place(key);
    const whole = await group.data();
    checkGroupSize(await group.layout(), whole);
    const stored = whole.slice(place.offset, place.byteLength);
    if (place.lengths !== undefined) return stringData(stored, place, region);
    const data = region === undefined ? stored : regionSource(stored, spec.shape, storedWidth(spec), region);
    return spec.quantization === undefined ? data : dequantizedSource(data, spec.quantization, spec.dtype);
  }

  /** The texts of `userDefinedMetadata`; what is no text there stands as JSON. */
  async metadata(): Promise<Readonly<Record<string, string>>> {
    const { userDefinedMetadata } = this.json.fields;
    if (!isObject(userDefinedMetadata)) return {};
    const entries = Object.entries(userDefinedMetadata);
    return Object.fromEntries(
      entries.map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
    );
  }

  /** The layout of a group; `index` counts from 0. @throws what reading the lengths of strings throws */
  layout(index: number): Promise<GroupLayout> {
    return (this.groups[index] as Group).layout();
  }

  /** The paths of the files of a group; `index` counts from 0. */
  shardPaths(index: number): readonly string[] {
    const directory = parentPath(this.json.path);
    return (this.json.groups[index]?.paths ?? []).map((path) => (directory === "." ? path : joinPath(directory, path)));
  }

  /** There are no checksums, and so nothing to do. */
  async verify(): Promise<void> {}

  /** See {@link TensorSource.close}. */
  close(): Promise<void> {
    return this.shards.close();
  }

  private find(key: string): { readonly group: Group; readonly spec: WeightSpec } {
    const found = this.byName.get(key);
    if (found !== undefined) return found;
    throw new NotFoundError("no-such-key", `no weight "${key}"`, {
      file: this.json.path,
      hint: 'List its keys with "cairn tensors".',
    });
  }
}

/** A group of weights; its files are looked at when they are needed. */
class Group {
  readonly weights: WeightGroup;
  readonly index: number;
  private readonly model: TfjsModel;
  private joined: Promise<ByteSource> | undefined;
  private laidOut: Promise<{ layout: GroupLayout; byName: ReadonlyMap<string, PlacedWeight> }> | undefined;

  constructor(weights: WeightGroup, index: number, model: TfjsModel) {
    this.weights = weights;
    this.index = index;
    this.model = model;
  }

  /** All bytes of the group. */
  data(): Promise<ByteSource> {
    this.joined ??= this.model.shards.join(this.model.json.path, this.model.shardPaths(this.index));
    return this.joined;
  }

  async layout(): Promise<GroupLayout> {
    return (await this.layOut()).layout;
  }

  async place(name: string): Promise<PlacedWeight> {
    return (await this.layOut()).byName.get(name) as PlacedWeight;
  }

  private layOut() {
    this.laidOut ??= layOutGroup(this.weights, () => this.data()).then((layout) => ({
      layout,
      byName: new Map(layout.weights.map((place) => [place.spec.name, place])),
    }));
    return this.laidOut;
  }
}

function stringData(stored: ByteSource, { spec, lengths }: PlacedWeight, region: Region | undefined): ByteSource {
  const widths = { from: WEIGHT_STRING_LENGTH_BYTES, to: STRING_LENGTH_BYTES };
  const strings = new RelengthedStrings(stored, lengths ?? [], widths);
  if (region === undefined) return strings;
  const runs = Array.from(elementRuns(spec.shape, region), ({ first, count }) => strings.elements(first, count));
  return joinSources(stored.name, runs);
}
