import { UnsupportedError } from "../errors.js";
import type { Format, WriteOptions } from "../formats/format.js";
import { detectFormat } from "../formats/registry.js";
import { MaxShardSizePolicy, planShards, ShardableTensor, type ShardingCallback } from "../sharding/index.js";
import type { ShardPlan } from "../sharding/shard-plan.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { parseSliceSpec } from "../tensor/slice-spec.js";
import { sliceTensor } from "../tensor/sliced-tensor.js";
import { tensorFrom } from "../tensor/stored-tensor.js";
import type { StoredPlace, StoredTensor, TensorInfo, TensorSource } from "../tensor/tensor-source.js";
import { type Place, refuseSame } from "./convert.js";
import { ReadAhead } from "./read-ahead.js";

/** Options of {@link planReshard}. */
export interface ReshardOptions {
  /**
   * Whether the callback gets slices as they are stored (`keep`) or whole tensors (`join`). When it isn't given, a
   * {@link MaxShardSizePolicy} gets whole tensors and any other callback what is stored.
   */
  readonly slices?: "keep" | "join" | undefined;
}

/** How a checkpoint is going to be written anew. Close it in the end. */
export interface Resharding {
  readonly plan: ShardPlan;
  /** Bytes that will be written. */
  readonly byteLength: number;
  /** Shards of the source. */
  readonly sourceShardCount: number;
  /** Writes the output, which appears whole or not at all. */
  write(options?: WriteOptions): Promise<void>;
  /** Gives back the source. */
  close(): Promise<void>;
}

/**
 * Plans how a checkpoint is written anew under a sharding callback. A tensor's device is that of the shard it was in, its
 * trackable its owner as the source knows it; tensors come in the order of their shards and bytes, what describes their
 * structure last. No data is read but the lengths of strings.
 * @throws UnsupportedError (`unsupported-operation`), PlanError (`invalid-plan`), UsageError (`usage`)
 */
export async function planReshard(
  source: Place,
  target: Place,
  callback: ShardingCallback,
  options: ReshardOptions = {},
): Promise<Resharding> {
  const { format, detection } = await detectFormat(source.files, source.path);
  const { openTensors, writeTensors } = format;
  if (openTensors === undefined || writeTensors === undefined) throw notSharded(format, source.path);
  await refuseSame(source, target);
  const tensors = await openTensors.call(format, detection);
  try {
    if (tensors.entries === undefined) throw notSharded(format, source.path);
    const joins = options.slices === undefined ? callback instanceof MaxShardSizePolicy : options.slices === "join";
    const pieces = await listPieces(tensors.entries(), joins);
    const inputs = await shardableTensors(tensors, pieces);
    const plan = await planShards(inputs, callback);
    return {
      plan,
      byteLength: inputs.reduce((sum, { tensor }) => sum + tensor.byteLength, 0),
      sourceShardCount: new Set(pieces.map(({ place }) => place.shard)).size,
      write: (writeOptions = {}) => {
        const beforeCommit = () => tensors.verify();
        return writeTensors.call(format, target.files, target.path, plan, { beforeCommit, ...writeOptions });
      },
      close: () => tensors.close(),
    };
  } catch (error) {
    await tensors.close();
    throw error;
  }
}

function notSharded({ id }: Format, file: string): UnsupportedError {
  return new UnsupportedError("unsupported-operation", `${id} files have no shards of tensors to arrange anew`, {
    file,
  });
}

/** A tensor or a stored slice of one. */
interface Piece {
  readonly key: string;
  /** Empty for a whole tensor. */
  readonly sliceSpec: string;
  readonly place: StoredPlace;
}

async function listPieces(entries: AsyncIterable<StoredTensor>, joins: boolean): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for await (const { key, shape, stored, slices } of entries) {
    const [first] = slices.map((slice) => slice.stored).sort(comparePlaces);
    const whole = stored ?? (joins ? first : undefined);
    if (whole !== undefined) {
      pieces.push({ key, sliceSpec: "", place: whole });
      continue;
    }
    for (const slice of slices)
      pieces.push({ key, sliceSpec: `${shape.join(" ")} ${slice.extents}`, place: slice.stored });
  }
  return pieces.sort((a, b) => comparePlaces(a.place, b.place));
}

function comparePlaces(a: StoredPlace, b: StoredPlace): number {
  return a.shard - b.shard || a.offset - b.offset;
}

async function shardableTensors(source: TensorSource, pieces: readonly Piece[]): Promise<ShardableTensor[]> {
  const infos = new Map<string, TensorInfo>();
  for await (const info of source.tensors()) infos.set(info.key, info);
  const owners = await source.owners?.();
  const ahead = new ReadAhead(source, inOrder(pieces, infos));
  const wholes = new Map<string, LazyTensor>();
  const inputs: ShardableTensor[] = [];
  for (const { key, sliceSpec, place } of pieces) {
    let whole = wholes.get(key);
    if (whole === undefined) {
      whole = await wholeTensor(source, ahead, infos.get(key) ?? (await source.info(key)));
      wholes.set(key, whole);
    }
    const region = parseSliceSpec(sliceSpec)?.region;
    const tensor = region === undefined ? whole : sliceTensor(whole, region);
    const device = `/job:localhost/replica:0/task:0/device:CPU:${place.shard}`;
    inputs.push(new ShardableTensor({ checkpointKey: key, sliceSpec, device, tensor, trackable: owners?.get(key) }));
  }
  const isStructure = ({ checkpointKey }: ShardableTensor) => infos.get(checkpointKey)?.role === "structure";
  return [...inputs.filter((input) => !isStructure(input)), ...inputs.filter(isStructure)];
}

/** A tensor of a source; of strings the lengths are read. */
async function wholeTensor(
  source: TensorSource,
  ahead: ReadAhead,
  { key, dtype, shape, byteLength }: TensorInfo,
): Promise<LazyTensor> {
  if (dtype === "string") return tensorFrom(source, key);
  const data: LazyTensor["data"] = (region) => (region === undefined ? ahead.data(key) : source.data(key, region));
  return { dtype, shape, byteLength, data };
}

/** The whole tensors in the order of their bytes. */
function inOrder(pieces: readonly Piece[], infos: ReadonlyMap<string, TensorInfo>): TensorInfo[] {
  return pieces.flatMap(({ key, sliceSpec }) => (sliceSpec === "" ? (infos.get(key) ?? []) : []));
}
