import type { FileStore } from "../bytes/file-store.js";
import type { ShardPlan } from "../sharding/shard-plan.js";
import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { Shape } from "../tensor/shape.js";
import type { TensorSource } from "../tensor/tensor-source.js";
import type { VersionedDirectory } from "./versioned-directory.js";

/** What kind of thing a path holds: one for each folder of `formats/`, or one of a program's own. */
export type FormatId = "saved-model" | "riegeli" | "checkpoint" | "elasticdl" | "safetensors" | "tfjs" | (string & {});

/** A path that a format knows, and how. */
export interface Detection {
  readonly format: FormatId;
  readonly files: FileStore;
  readonly path: string;
  /** What it is, for people: `SavedModel directory, .cpb`. */
  readonly description: string;
  /** Something that the user should know, such as a file that stands beside and is not read. */
  readonly notes: readonly string[];
}

/** A value of the facts of an outline, as JSON has it. */
export type Fact = string | number | boolean | null | readonly Fact[] | { readonly [name: string]: Fact };

/** Bytes of a file; `end` is exclusive. */
export interface ByteRange {
  readonly file: string;
  readonly start: number;
  readonly end: number;
}

/** One thing in a model, for people, with what is in it. The command line and the page know nothing else. */
export interface OutlineNode {
  /** What it is called. */
  readonly label: string;
  /** What sort of thing it is: `signature`, `constant`, `chunk`… */
  readonly kind: string;
  /** One line about it. */
  readonly detail?: string | undefined;
  /** The same and more for programs. */
  readonly facts?: Readonly<Record<string, Fact>> | undefined;
  /** Where it lies, when that is one run of bytes. */
  readonly range?: ByteRange | undefined;
  /** What is in it; found when it is asked for. */
  readonly children?: (() => Promise<readonly OutlineNode[]>) | undefined;
}

/** An outline whose files are open, so that its children can be asked for. Close it in the end. */
export interface Outline {
  readonly root: OutlineNode;
  /** Gives back the files; children can no longer be asked for. */
  close(): Promise<void>;
}

/** Something that {@link Format.verify} found. */
export interface Finding {
  readonly severity: "error" | "warning";
  /** A code of `errors.ts`. */
  readonly code: string;
  readonly message: string;
  readonly file: string;
  readonly offset?: number | undefined;
  /** The tensor or the part that it concerns. */
  readonly key?: string | undefined;
}

/** What {@link Format.verify} gives, one after another. */
export type VerifyEvent =
  | { readonly kind: "finding"; readonly finding: Finding }
  /** A part that was checked to the last byte and is good. */
  | { readonly kind: "good"; readonly what: string; readonly byteLength: number };

/** Options of {@link Format.verify}. */
export interface VerifyOptions {
  /** Called with the number of bytes just checked. */
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A path and the files it is in. */
export interface Place {
  readonly files: FileStore;
  readonly path: string;
}

/** Options of {@link Format.writeTensors}. */
export interface WriteOptions extends VerifyOptions {
  /** Replace what is there. */
  readonly overwrite?: boolean | undefined;
  /** Called when all data have been read, before anything is visible: the last place to refuse it. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
  /** Texts that the files carry along, where the format has room for such; see `TensorSource.metadata`. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** A model of the format whose other parts, such as its graph, are copied; its tensors are those of the plan. */
  readonly template?: Place | undefined;
  /** Of training checkpoints: for how many parameter servers, and how the files are called. */
  readonly training?: { readonly psNum?: number | undefined; readonly layout?: "design" | "elasticdl" | undefined };
}

/** Tensors that are to be fitted into a template. */
export interface TemplateTensors {
  /** Each under the key that it would be written under, and that of where it comes from. */
  readonly tensors: readonly {
    readonly key: string;
    readonly sourceKey: string;
    readonly dtype: DType;
    readonly shape: Shape;
  }[];
  /** Where they come from. */
  readonly source: TensorSource;
}

/** A format of files, as a plug: detection, a look inside, a check, and the tensors. An absent method is an absent ability. */
export interface Format {
  readonly id: FormatId;
  /** A look at names and a few bytes; undefined for what is foreign. Never throws for foreign bytes. */
  detect(files: FileStore, path: string): Promise<Detection | undefined>;
  /** What is in it, for people. */
  outline(detection: Detection): Promise<Outline>;
  /** Checks all of it, going on after each finding. */
  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent>;
  /** Opens its tensors. */
  openTensors?(detection: Detection): Promise<TensorSource>;
  /** Opens a directory that keeps several states; undefined when it is none. */
  openVersions?(detection: Detection): Promise<VersionedDirectory | undefined>;
  /**
   * How tensors are arranged in files under `path` when no callback says it, with shards of at most `maxShardSize` bytes
   * where that is given. Absent: all in one shard, or cut by the size.
   */
  planTensors?(
    path: string,
    tensors: Iterable<readonly [key: string, tensor: LazyTensor]>,
    maxShardSize?: number,
  ): ShardPlan;
  /** Whether it stores the ids of embedding tables; for others they are a tensor of their own. */
  readonly keepsIds?: boolean;
  /** Whether an output path is named as files of this format are: `model.safetensors`. Absent: no name tells. */
  ownsName?(path: string): boolean;
  /** Why it cannot hold a tensor, or undefined when it can. Absent: it holds all. */
  refuses?(tensor: { readonly key: string; readonly dtype: DType; readonly shape: Shape }): string | undefined;
  /**
   * By what names tensors go into a model that takes its other parts from a template: the name of the template's for each
   * key, and none for a tensor that it has no place for. Absent: the format has no templates.
   * @throws UsageError (`not-consumed`) when the template needs a tensor that is not there
   */
  fitTemplate?(template: Place, tensors: TemplateTensors): Promise<ReadonlyMap<string, string>>;
  /** Whether tensors can only be written with a template. */
  readonly needsTemplate?: boolean;
  /**
   * Writes tensors: all that the plan names, in its order, each read when its turn comes. Nothing is visible under
   * `path` before all of it is written.
   */
  writeTensors?(files: FileStore, path: string, plan: ShardPlan, options?: WriteOptions): Promise<void>;
}
