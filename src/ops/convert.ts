import { CairnError, UsageError } from "../errors.js";
import type { Format, Place, WriteOptions } from "../formats/format.js";
import { FORMATS } from "../formats/registry.js";
import {
  MaxShardSizePolicy,
  planShards,
  type ShardableTensor,
  ShardByTaskPolicy,
  type ShardingCallback,
} from "../sharding/index.js";
import type { ShardPlan } from "../sharding/shard-plan.js";
import { type ChoiceOptions, chooseTensors, type SkippedTensor } from "./choose-tensors.js";
import { checkTemplate, fitTemplate } from "./template.js";
import { openTensors } from "./tensors.js";

export type { Place } from "../formats/format.js";
export type { SkippedTensor } from "./choose-tensors.js";

/** Options of {@link planConversion}. */
export interface ConversionOptions extends ChoiceOptions {
  /** The id of the format to write; found by the output's name when it is not given. */
  readonly to?: string | undefined;
  /** A model of the format to write whose other parts, such as its graph, are copied. */
  readonly template?: Place | undefined;
  /** Which shards the tensors go to; as the format does it when it is not given. */
  readonly callback?: ShardingCallback | undefined;
  /** Bytes of a shard, where no callback decides. */
  readonly maxShardSize?: number | undefined;
  /** Formats to read and write instead of all that cairn has. */
  readonly formats?: readonly Format[] | undefined;
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
  /** What should be known of the source, such as which of several states is read. */
  readonly notes: readonly string[];
  /** Writes the output, which appears whole or not at all, and gives what only the reading could tell. */
  write(options?: WriteOptions): Promise<readonly string[]>;
  /** Gives back the input. */
  close(): Promise<void>;
}

/**
 * Plans how the tensors of one path are written to another in a format of choice. No data is read before
 * {@link Conversion.write}, unless damaged tensors are to be left away.
 * @throws UnsupportedError (`unknown-format`, `unsupported-operation`), {@link UsageError} (`usage`) when no format fits
 * the output or the output is the source, PlanError (`invalid-plan`) when the format cannot hold a tensor or two get one
 * name
 */
export async function planConversion(
  source: Place,
  target: Place,
  options: ConversionOptions = {},
): Promise<Conversion> {
  const formats = options.formats ?? FORMATS;
  const format = findTarget(formats, options.to, target.path);
  checkTemplate(format, target.path, options.template);
  const { detection, tensors } = await openTensors(source.files, source.path, formats);
  try {
    await refuseSame(source, target);
    const texts = (await tensors.metadata?.()) ?? {};
    const reopen = async () => (await openTensors(source.files, source.path, formats)).tensors;
    const way = { source: tensors, reopen, format, isSameFormat: detection.format === format.id, texts };
    const chosen = await fitTemplate(await chooseTensors(way, options), tensors, format, options);
    const plan = await arrange(format, target.path, chosen.tensors, options);
    const metadata = { ...texts, ...chosen.texts };
    return {
      from: detection.format,
      to: format.id,
      plan,
      byteLength: chosen.tensors.reduce((sum, { tensor }) => sum + tensor.byteLength, 0),
      tensorCount: chosen.tensors.length,
      skipped: chosen.skipped,
      warnings: [...chosen.warnings, ...plan.warnings],
      notes: detection.notes,
      write: async (writeOptions = {}) => {
        const beforeCommit = () => tensors.verify();
        const carried = Object.keys(metadata).length === 0 ? {} : { metadata };
        const own = { beforeCommit, template: options.template, ...carried };
        await format.writeTensors?.(target.files, target.path, plan, { ...own, ...writeOptions });
        return chosen.losses();
      },
      close: () => tensors.close(),
    };
  } catch (error) {
    await tensors.close();
    throw error;
  }
}

/** @throws {@link UsageError} (`usage`) when two places are one */
export async function refuseSame(source: Place, target: Place): Promise<void> {
  const plain = (path: string) => path.replace(/\/+$/, "");
  // A path of another store is none of this one.
  const isSame = await target.files.isSame(source.path, target.path).catch(ignoreRefusal);
  if (plain(source.path) !== plain(target.path) && !isSame) return;
  const hint = "Write to another name.";
  throw new UsageError("usage", "the output is the source", { file: target.path, hint });
}

function ignoreRefusal(error: unknown): undefined {
  if (!(error instanceof CairnError)) throw error;
}

/** The format to write: the one that is asked for, else that of the output's name. A name has to keep what it promises. */
function findTarget(formats: readonly Format[], id: string | undefined, path: string): Format {
  const writable = formats.filter(({ writeTensors }) => writeTensors !== undefined);
  const owner = formats.find((format) => format.ownsName?.(path));
  const found = id === undefined ? owner : formats.find((format) => format.id === id);
  const names = writable.map((format) => format.id).join(", ");
  if (found === undefined || !writable.includes(found)) {
    const what = found === undefined && id === undefined ? "the name of the output tells no format" : undefined;
    throw new UsageError("usage", what ?? `cannot write "${found?.id ?? id}"`, {
      file: path,
      expected: names,
      hint: `Say which with --to: ${names}.`,
    });
  }
  if (owner !== undefined && owner !== found && !found.ownsName?.(path)) {
    throw new UsageError("usage", `the output is named as ${owner.id} and would be ${found.id}`, {
      file: path,
      hint: "Give it another name.",
    });
  }
  return found;
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
