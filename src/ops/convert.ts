import { readInOrder } from "../bytes/copy-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { CairnError, PlanError, UsageError } from "../errors.js";
import type { Format, Place, WriteOptions } from "../formats/format.js";
import { FORMATS } from "../formats/registry.js";
import {
  MaxShardSizePolicy,
  planShards,
  ShardableTensor,
  ShardByTaskPolicy,
  type ShardingCallback,
} from "../sharding/index.js";
import type { ShardPlan } from "../sharding/shard-plan.js";
import { type CastLoss, canCast, castTensor, isLossy } from "../tensor/cast.js";
import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { regionSource, wholeRegion } from "../tensor/region.js";
import { tensorFrom } from "../tensor/stored-tensor.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";
import { type RenameRule, renamed } from "./rename.js";
import { globMatcher, openTensors } from "./tensors.js";

export type { Place } from "../formats/format.js";

/** Options of {@link planConversion}. */
export interface ConversionOptions {
  /** The id of the format to write; found by the output's name when it is not given. */
  readonly to?: string | undefined;
  /** New names, one rule after another. */
  readonly rename?: readonly RenameRule[] | undefined;
  /** Only tensors whose name matches: `*` stands for any characters, `?` for one. */
  readonly filter?: string | undefined;
  /** Leave away the state of optimizers. */
  readonly dropSlots?: boolean | undefined;
  /** Take the constants of a graph too, beside its variables. */
  readonly constants?: boolean | undefined;
  /** A model of the format to write whose other parts, such as its graph, are copied. */
  readonly template?: Place | undefined;
  /** Floats of the first dtype become floats of the second. */
  readonly dtypes?: readonly { readonly from: DType; readonly to: DType }[] | undefined;
  /** Which shards the tensors go to; as the format does it when it is not given. */
  readonly callback?: ShardingCallback | undefined;
  /** Bytes of a shard, where no callback decides. */
  readonly maxShardSize?: number | undefined;
  /** Leave away what the format cannot hold, instead of refusing. */
  readonly skipUnsupported?: boolean | undefined;
  /** Read every tensor first, and leave away those that are damaged. */
  readonly skipDamaged?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Formats to read and write instead of all that cairn has. */
  readonly formats?: readonly Format[] | undefined;
  /** Called with the number of bytes just checked, with `skipDamaged`. */
  readonly onChecked?: ((count: number) => void) | undefined;
}

/** A tensor that a conversion leaves away. */
export interface SkippedTensor {
  readonly key: string;
  readonly reason: string;
}

/** How tensors are going to be converted. Close it in the end. */
export interface Conversion {
  /** What is read. */
  readonly from: string;
  /** What is written. */
  readonly to: string;
  readonly plan: ShardPlan;
  /** Bytes that will be written. */
  readonly byteLength: number;
  /** How many tensors will be written. */
  readonly tensorCount: number;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly string[];
  /** Writes the output, which appears whole or not at all, and gives what only the reading could tell. */
  write(options?: WriteOptions): Promise<readonly string[]>;
  /** Gives back the input. */
  close(): Promise<void>;
}

/**
 * Plans how the tensors of one path are written to another in a format of choice. No data is read before
 * {@link Conversion.write}, unless damaged tensors are to be left away.
 * @throws UnsupportedError (`unknown-format`, `unsupported-operation`), {@link UsageError} (`usage`) when no format fits
 * the output, {@link PlanError} (`invalid-plan`) when the format cannot hold a tensor or two get one name
 */
export async function planConversion(
  source: Place,
  target: Place,
  options: ConversionOptions = {},
): Promise<Conversion> {
  const formats = options.formats ?? FORMATS;
  const { detection, tensors } = await openTensors(source.files, source.path, formats);
  try {
    const format = findTarget(formats, options.to, target.path);
    checkTemplate(format, target.path, options.template);
    const listed = await chooseTensors(tensors, detection.format === format.id, format, options);
    const chosen = await fitTemplate(listed, tensors, format, options);
    const plan = await arrange(format, target.path, chosen.tensors, options);
    const { metadata } = tensors;
    return {
      from: detection.format,
      to: format.id,
      plan,
      byteLength: chosen.tensors.reduce((sum, { tensor }) => sum + tensor.byteLength, 0),
      tensorCount: chosen.tensors.length,
      skipped: chosen.skipped,
      warnings: [...chosen.warnings, ...plan.warnings],
      write: async (writeOptions = {}) => {
        const carried = metadata === undefined ? {} : { metadata: await metadata.call(tensors) };
        const { template } = options;
        await format.writeTensors?.(target.files, target.path, plan, { ...carried, template, ...writeOptions });
        return chosen.losses();
      },
      close: () => tensors.close(),
    };
  } catch (error) {
    await tensors.close();
    throw error;
  }
}

function findTarget(formats: readonly Format[], id: string | undefined, path: string): Format {
  const writable = formats.filter(({ writeTensors }) => writeTensors !== undefined);
  const found = writable.find((format) => (id === undefined ? format.ownsName?.(path) : format.id === id));
  if (found !== undefined) return found;
  const names = writable.map((format) => format.id).join(", ");
  throw new UsageError("usage", id === undefined ? "the name of the output tells no format" : `cannot write "${id}"`, {
    file: path,
    expected: names,
    hint: `Say which with --to: ${names}.`,
  });
}

/** @throws {@link UsageError} (`usage`) when a template is missing, or the format has no use for one */
function checkTemplate(format: Format, file: string, template: Place | undefined): void {
  if (template === undefined && format.needsTemplate) {
    throw new UsageError("usage", `${format.id} is written with a template`, {
      file,
      hint: "Name a model of the same structure with --template: all but the values is copied from it.",
    });
  }
  if (template !== undefined && format.fitTemplate === undefined) {
    throw new UsageError("usage", `${format.id} takes no template`, { file, hint: "Leave --template away." });
  }
}

/** Gives tensors the names that they have in a template, and leaves away those that it has no place for. */
async function fitTemplate(
  chosen: ChosenTensors,
  source: TensorSource,
  format: Format,
  { template, skipUnsupported }: ConversionOptions,
): Promise<ChosenTensors> {
  if (template === undefined || format.fitTemplate === undefined) return chosen;
  const known = chosen.tensors.map(({ checkpointKey, tensor: { dtype, shape } }, i) => {
    return { key: checkpointKey, sourceKey: chosen.sourceKeys[i] as string, dtype, shape };
  });
  const names = await format.fitTemplate(template, { tensors: known, source });
  const tensors: ShardableTensor[] = [];
  const left: SkippedTensor[] = [];
  for (const { checkpointKey, tensor } of chosen.tensors) {
    const name = names.get(checkpointKey);
    if (name !== undefined) tensors.push(shardable(name, tensor));
    else left.push({ key: checkpointKey, reason: "the template has no place for it" });
  }
  if (left.length > 0 && !skipUnsupported) throw cannotHold(format, left);
  return { ...chosen, tensors, skipped: [...chosen.skipped, ...left] };
}

/** Which tensor goes to which shard: as the callback says, else as the format does it, else by size. */
async function arrange(
  format: Format,
  path: string,
  tensors: readonly ShardableTensor[],
  { callback, maxShardSize }: ConversionOptions,
): Promise<ShardPlan> {
  if (callback === undefined && format.planTensors !== undefined) {
    return format.planTensors(
      path,
      tensors.map(({ checkpointKey, tensor }) => [checkpointKey, tensor] as const),
      maxShardSize,
    );
  }
  const bySize = maxShardSize === undefined ? new ShardByTaskPolicy() : new MaxShardSizePolicy({ maxShardSize });
  return planShards(tensors, callback ?? bySize);
}

interface ChosenTensors {
  readonly tensors: readonly ShardableTensor[];
  /** The key that each has where it comes from. */
  readonly sourceKeys: readonly string[];
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly string[];
  losses(): string[];
}

async function chooseTensors(
  source: TensorSource,
  isSameFormat: boolean,
  format: Format,
  options: ConversionOptions,
): Promise<ChosenTensors> {
  const matches = options.filter === undefined ? () => true : globMatcher(options.filter);
  const skipped: SkippedTensor[] = [];
  const refused: SkippedTensor[] = [];
  const casts = new Casts(options.dtypes ?? []);
  const byName = new Map<string, ShardableTensor>();
  const sourceKeys: string[] = [];
  for await (const info of source.tensors()) {
    options.signal?.throwIfAborted();
    const name = isSameFormat ? info.key : (info.name ?? info.key);
    if (!matches(name)) continue;
    const reason = await reasonToSkip(source, info, isSameFormat, options);
    if (reason !== undefined) {
      skipped.push({ key: info.key, reason });
      continue;
    }
    const key = renamed(name, options.rename ?? []);
    const tensor = casts.apply(key, await storedTensor(source, info));
    const refusal = format.refuses?.({ key, dtype: tensor.dtype, shape: tensor.shape });
    if (refusal !== undefined) {
      (options.skipUnsupported ? skipped : refused).push({ key: info.key, reason: refusal });
      continue;
    }
    const ids = format.keepsIds ? undefined : await idsOf(source, info);
    for (const one of [shardable(key, tensor), ...(ids === undefined ? [] : [shardable(`${key}${IDS_SUFFIX}`, ids)])]) {
      const name = one.checkpointKey;
      if (byName.has(name)) throw new PlanError("invalid-plan", `two tensors would be called "${name}"`);
      byName.set(name, one);
      sourceKeys.push(one.checkpointKey === key ? info.key : name);
    }
  }
  if (refused.length > 0) throw cannotHold(format, refused);
  const tensors = [...byName.values()];
  return { tensors, sourceKeys, skipped, warnings: casts.warnings(), losses: () => casts.losses() };
}

/** Why a tensor is left away before the target is asked; undefined when it is not. */
async function reasonToSkip(
  source: TensorSource,
  info: TensorInfo,
  isSameFormat: boolean,
  options: ConversionOptions,
): Promise<string | undefined> {
  if (info.role === "slot" && options.dropSlots) return "state of an optimizer";
  if (info.role === "structure" && !isSameFormat) return "describes the objects of its own format";
  if (info.role === "constant" && !options.constants) return "a constant, and not a variable";
  if (!options.skipDamaged) return undefined;
  try {
    const { signal, onChecked } = options;
    await readInOrder(await source.data(info.key), () => {}, { signal, onBytes: onChecked });
    await source.verify();
    return undefined;
  } catch (error) {
    options.signal?.throwIfAborted();
    if (error instanceof CairnError) return `damaged: ${error.message}`;
    throw error;
  }
}

/** Behind the name of an embedding table, where its ids are a tensor of their own. */
const IDS_SUFFIX = ".ids";

/** The ids of an embedding table as a tensor of their own; undefined when it is none. */
async function idsOf(source: TensorSource, { key, embedding }: TensorInfo): Promise<LazyTensor | undefined> {
  if (embedding === undefined || source.ids === undefined) return undefined;
  const read = async () => new Uint8Array((await source.ids?.(key))?.buffer ?? new ArrayBuffer(0));
  const shape = [embedding.rows];
  return {
    dtype: "int64",
    shape,
    byteLength: embedding.rows * 8,
    data: async (region) => regionSource(new MemorySource(await read(), key), shape, 8, region ?? wholeRegion(shape)),
  };
}

function shardable(key: string, tensor: LazyTensor): ShardableTensor {
  return new ShardableTensor({ checkpointKey: key, tensor });
}

/** How many tensors are named in an error. */
const NAMED_TENSORS = 5;

function cannotHold(format: Format, refused: readonly SkippedTensor[]): PlanError {
  const named = refused.slice(0, NAMED_TENSORS).map(({ key, reason }) => `"${key}" (${reason})`);
  const rest = refused.length > NAMED_TENSORS ? ` and ${refused.length - NAMED_TENSORS} more` : "";
  return new PlanError("invalid-plan", `${format.id} cannot hold ${named.join(", ")}${rest}`, {
    hint: "Leave them away with --skip-unsupported.",
  });
}

/** A tensor of a source, with the ids of its rows where it has such. */
async function storedTensor(source: TensorSource, { key, embedding }: TensorInfo): Promise<LazyTensor> {
  const tensor = await tensorFrom(source, key);
  if (embedding === undefined || source.ids === undefined) return tensor;
  const ids = async () => (await source.ids?.(key)) ?? new BigInt64Array(0);
  return { ...tensor, embedding: { initializer: embedding.initializer, ids } };
}

/** Changes dtypes and remembers what that cost. */
class Casts {
  private readonly rules: readonly { readonly from: DType; readonly to: DType }[];
  private readonly lossy = new Map<string, number>();
  private readonly counts = new Map<string, CastLoss>();

  constructor(rules: readonly { readonly from: DType; readonly to: DType }[]) {
    for (const { from, to } of rules) {
      if (!canCast(from, to))
        throw new UsageError("usage", `${from} cannot become ${to}`, {
          hint: "Floats can: float64, float32, float16, bfloat16.",
        });
    }
    this.rules = rules;
  }

  apply(key: string, tensor: LazyTensor): LazyTensor {
    const rule = this.rules.find(({ from }) => from === tensor.dtype);
    if (rule === undefined || rule.from === rule.to) return tensor;
    if (isLossy(rule.from, rule.to)) {
      const name = `${rule.from} → ${rule.to}`;
      this.lossy.set(name, (this.lossy.get(name) ?? 0) + 1);
    }
    const loss = { overflowCount: 0 };
    this.counts.set(key, loss);
    return castTensor(tensor, rule.to, loss);
  }

  warnings(): string[] {
    return Array.from(this.lossy, ([name, count]) => `${name} rounds the numbers of ${count} tensors`);
  }

  losses(): string[] {
    return Array.from(this.counts).flatMap(([key, { overflowCount }]) =>
      overflowCount === 0 ? [] : [`${overflowCount} numbers of "${key}" were too large and became infinite`],
    );
  }
}
