import { CairnError, PlanError, UsageError } from "../errors.js";
import type { Format } from "../formats/format.js";
import { ShardableTensor } from "../sharding/index.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { tensorFrom } from "../tensor/stored-tensor.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";
import { type CastRule, Casts } from "./casts.js";
import { DamageCheck } from "./damage-check.js";
import { embeddingFrom, embeddingOf, IDS_SUFFIX, idsBeside, idsTensor, initializerText } from "./embedding-ids.js";
import { type RenameRule, renamed } from "./rename.js";
import { globMatcher } from "./tensors.js";

/** Which tensors are taken, under which names, and as what. */
export interface ChoiceOptions {
  /** New names, one rule after another. */
  readonly rename?: readonly RenameRule[] | undefined;
  /** Only tensors whose name matches: `*` stands for any characters, `?` for one. */
  readonly filter?: string | undefined;
  /** Leave away the state of optimizers. */
  readonly dropSlots?: boolean | undefined;
  /** Take the constants of a graph too, beside its variables. */
  readonly constants?: boolean | undefined;
  /** Floats of the first dtype become floats of the second. */
  readonly dtypes?: readonly CastRule[] | undefined;
  /** Leave away what the format cannot hold, instead of refusing. */
  readonly skipUnsupported?: boolean | undefined;
  /** Read every tensor first, and leave away those that are damaged. */
  readonly skipDamaged?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the number of bytes just checked, with `skipDamaged`. */
  readonly onChecked?: ((count: number) => void) | undefined;
  /** Called with each tensor that the format cannot hold, before that is refused. */
  readonly onRefused?: ((tensor: SkippedTensor) => void) | undefined;
}

/** A tensor that a conversion leaves away. */
export interface SkippedTensor {
  readonly key: string;
  readonly reason: string;
}

/** What is going to be written. */
export interface ChosenTensors {
  readonly tensors: readonly ShardableTensor[];
  /** The key that each has where it comes from. */
  readonly sourceKeys: readonly string[];
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly string[];
  /** Texts that have to go along with the tensors. */
  readonly texts: Readonly<Record<string, string>>;
  /** What only the reading could tell. */
  losses(): string[];
}

/** Where tensors come from and go to. */
export interface Way {
  readonly source: TensorSource;
  /** Opens the source once more. */
  readonly reopen: () => Promise<TensorSource>;
  readonly format: Format;
  /** Whether the source is of the same format, so that keys stay as they are. */
  readonly isSameFormat: boolean;
  /** Texts that the source carries. */
  readonly texts: Readonly<Record<string, string>>;
}

/**
 * Chooses the tensors to be written. Reads nothing but the lengths of strings, unless damaged ones are to be found.
 * @throws {@link PlanError} (`invalid-plan`) when the format cannot hold one, or two would get one name; {@link UsageError}
 * (`usage`) when the filter matches none
 */
export async function chooseTensors(way: Way, options: ChoiceOptions): Promise<ChosenTensors> {
  const choice = new Choice(way, options);
  const infos: TensorInfo[] = [];
  try {
    for await (const info of way.source.tensors()) infos.push(info);
  } catch (error) {
    // Those that a damaged list still had came before.
    if (!(options.skipDamaged && error instanceof CairnError)) throw error;
    choice.skip({ key: error.file ?? "", reason: `damaged: ${error.message}` });
  }
  try {
    for (const { info, ids } of pairWithIds(way, infos)) {
      options.signal?.throwIfAborted();
      await choice.add(info, ids);
    }
  } finally {
    await choice.damage.close();
  }
  return choice.finish();
}

interface InfoWithIds {
  readonly info: TensorInfo;
  readonly ids?: TensorInfo | undefined;
}

/** Tensors, with the ids that stand beside a table where the target has tables; these go with their table. */
function pairWithIds({ format, isSameFormat }: Way, infos: readonly TensorInfo[]): InfoWithIds[] {
  if (!format.keepsIds || isSameFormat) return infos.map((info) => ({ info }));
  const byName = new Map(infos.map((info) => [info.name ?? info.key, info]));
  const paired = infos.map((info) => ({ info, ids: idsBeside(info, byName) }));
  const taken = new Set(paired.map(({ ids }) => ids));
  return paired.filter(({ info }) => !taken.has(info));
}

/** A choice as it is made. */
class Choice {
  readonly damage: DamageCheck;
  private readonly way: Way;
  private readonly options: ChoiceOptions;
  private readonly matches: (name: string) => boolean;
  private readonly casts: Casts;
  private readonly skipped: SkippedTensor[] = [];
  private readonly refused: SkippedTensor[] = [];
  private readonly chosen = new Map<string, ShardableTensor>();
  private readonly sourceKeys: string[] = [];
  private readonly texts: Record<string, string> = {};

  constructor(way: Way, options: ChoiceOptions) {
    this.way = way;
    this.options = options;
    this.matches = options.filter === undefined ? () => true : globMatcher(options.filter);
    this.casts = new Casts(options.dtypes ?? []);
    this.damage = new DamageCheck(way.reopen);
  }

  skip(tensor: SkippedTensor): void {
    this.skipped.push(tensor);
  }

  async add(info: TensorInfo, ids: TensorInfo | undefined): Promise<void> {
    const { source, format } = this.way;
    const name = this.isOwn(info) ? info.key : (info.name ?? info.key);
    if (!this.matches(name)) return;
    const reason = this.isUnwanted(info) ?? (await this.isDamaged(info)) ?? (ids && (await this.isDamaged(ids)));
    if (reason !== undefined) {
      this.skip({ key: info.key, reason });
      return;
    }
    const key = renamed(name, this.options.rename ?? []);
    const tensor = this.casts.apply(key, await this.lazyTensor(info, ids));
    const refusal = format.refuses?.({ key, dtype: tensor.dtype, shape: tensor.shape });
    if (refusal !== undefined) {
      (this.options.skipUnsupported ? this.skipped : this.refused).push({ key: info.key, reason: refusal });
      return;
    }
    this.take(key, tensor, info.key);
    const ownIds = format.keepsIds ? undefined : idsTensor(source, info);
    if (ownIds === undefined) return;
    this.take(key + IDS_SUFFIX, ownIds, info.key + IDS_SUFFIX);
    this.texts[initializerText(key)] = info.embedding?.initializer ?? "";
  }

  finish(): ChosenTensors {
    const { chosen, sourceKeys, skipped, refused, casts, texts, options, way } = this;
    if (options.filter !== undefined && chosen.size + skipped.length + refused.length === 0) {
      throw new UsageError("usage", `no tensor matches "${options.filter}"`, {
        hint: "A filter has to match the whole name: * stands for any characters.",
      });
    }
    for (const tensor of refused) options.onRefused?.(tensor);
    if (refused.length > 0) throw cannotHold(way.format, refused);
    const warnings = casts.warnings();
    return { tensors: [...chosen.values()], sourceKeys, skipped, warnings, texts, losses: () => casts.losses() };
  }

  private take(key: string, tensor: LazyTensor, sourceKey: string): void {
    if (this.chosen.has(key)) throw new PlanError("invalid-plan", `two tensors would be called "${key}"`);
    this.chosen.set(key, new ShardableTensor({ checkpointKey: key, tensor }));
    this.sourceKeys.push(sourceKey);
  }

  /** Whether key and structure of a tensor are of the format that is written. */
  private isOwn({ origin }: TensorInfo): boolean {
    return this.way.isSameFormat || origin === this.way.format.id;
  }

  /** Why a tensor is left away whatever is in it; undefined when it is not. */
  private isUnwanted(info: TensorInfo): string | undefined {
    const { role } = info;
    if (role === "slot" && this.options.dropSlots) return "state of an optimizer";
    // With a template, what describes the objects comes from there.
    const isWanted = this.isOwn(info) && this.way.format.needsTemplate !== true;
    if (role === "structure" && !isWanted) return "describes the objects of its own format";
    if (role === "constant" && !this.options.constants) return "a constant, and not a variable";
    return undefined;
  }

  /** What is wrong with the data of a tensor; undefined when nothing is, or it is not to be looked for. */
  private async isDamaged({ key }: TensorInfo): Promise<string | undefined> {
    const { skipDamaged, signal, onChecked } = this.options;
    return skipDamaged ? this.damage.reason(key, { signal, onBytes: onChecked }) : undefined;
  }

  /** A tensor of the source, with the ids of its rows where it has such. */
  private async lazyTensor(info: TensorInfo, ids: TensorInfo | undefined): Promise<LazyTensor> {
    const { source, texts } = this.way;
    const { key, name = key, embedding } = info;
    const tensor = await tensorFrom(source, key);
    if (ids !== undefined) return { ...tensor, embedding: embeddingFrom(source, ids, texts[initializerText(name)]) };
    if (embedding === undefined || source.ids === undefined) return tensor;
    return { ...tensor, embedding: embeddingOf(source, key, embedding.initializer) };
  }
}

/** How many tensors are named in an error. */
export const NAMED_TENSORS = 5;

/** The error for tensors that a format cannot hold. */
export function cannotHold(format: Format, refused: readonly SkippedTensor[]): PlanError {
  const named = refused.slice(0, NAMED_TENSORS).map(({ key, reason }) => `"${key}" (${reason})`);
  const rest = refused.length > NAMED_TENSORS ? ` and ${refused.length - NAMED_TENSORS} more` : "";
  return new PlanError("invalid-plan", `${format.id} cannot hold ${named.join(", ")}${rest}`, {
    hint: "Leave them away with --skip-unsupported.",
  });
}
