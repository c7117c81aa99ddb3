import type { Layout } from "../formats/elasticdl/names.js";
import type { DType } from "../tensor/dtype.js";
import type { TableBlock } from "./embedding-table.js";
import type { ImagePool } from "./image-pool.js";
import type { ParameterBlock } from "./parameter-block.js";
import type { Parameters } from "./parameters.js";
import { makeSnapshotPages, type SnapshotPages, savePages } from "./snapshot-pages.js";
import type { WriteGuard } from "./write-guard.js";

/** A dense variable of a snapshot. */
export interface SnapshotVariable {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly memory: ParameterBlock;
}

/** An embedding table of a snapshot; rows are never taken out, so the first `rowCount` are those that it had. */
export interface SnapshotTable {
  readonly name: string;
  readonly dim: number;
  readonly initializer: string;
  readonly rowCount: number;
  readonly rowsPerBlock: number;
  readonly blocks: readonly Pick<TableBlock, "memory" | "ids">[];
}

/** All that a server knew at one instant, as far as it need not be copied; the rest is in its pages. */
export interface Snapshot {
  readonly modelVersion: number;
  readonly pages: SnapshotPages;
  readonly dense: readonly SnapshotVariable[];
  readonly tables: readonly SnapshotTable[];
  readonly slotNames: readonly string[];
  readonly integers: readonly (readonly [string, bigint])[];
  readonly numbers: readonly (readonly [string, number])[];
  readonly texts: readonly (readonly [string, string])[];
}

/** Where the shard of a snapshot goes. */
export interface ShardTarget {
  /** The checkpoint directory. */
  readonly directory: string;
  readonly layout: Layout;
  readonly psId: number;
  readonly psNum: number;
}

/** Names in the training state of a shard. */
export const STATE = {
  step: "optimizer.step",
  seed: "initializer.seed",
  learningRate: "optimizer.learning_rate",
  type: "optimizer.type",
  args: "optimizer.args",
} as const;

/** The snapshots that are being written: what changes is put aside for each of them. */
export class Snapshots implements WriteGuard {
  isActive = false;
  private readonly active = new Set<SnapshotPages>();
  private pool: ImagePool | undefined;

  /** Where images go; has to be said before the first snapshot. */
  usePool(pool: ImagePool): void {
    this.pool = pool;
  }

  /** See {@link WriteGuard.beforeWrite}. */
  beforeWrite(block: ParameterBlock, start: number, end: number): void {
    for (const pages of this.active) if (this.pool !== undefined) savePages(pages, this.pool, block, start, end);
  }

  /** Takes a snapshot: nothing is copied now. It costs until {@link Snapshots.end}. */
  begin(parameters: Parameters): Snapshot {
    const pages = makeSnapshotPages(parameters.pages.count);
    this.active.add(pages);
    this.isActive = true;
    const { optimizer, modelVersion, step, seed, learningRate } = parameters;
    return {
      modelVersion,
      pages,
      dense: Array.from(parameters.dense.values(), ({ name, dtype, shape, memory }) => ({
        name,
        dtype,
        shape,
        memory,
      })),
      tables: Array.from(parameters.tables.values(), ({ name, dim, initializer, rowCount, rowsPerBlock, blocks }) => {
        return { name, dim, initializer, rowCount, rowsPerBlock, blocks };
      }),
      slotNames: optimizer.slots.map(({ name }) => name),
      integers: [
        [STATE.step, BigInt(step)],
        [STATE.seed, BigInt(seed)],
      ],
      numbers: [[STATE.learningRate, learningRate]],
      texts: [
        [STATE.type, optimizer.type],
        [STATE.args, optimizer.args],
      ],
    };
  }

  /** Ends a snapshot: it has been written, or is not wanted any more. */
  end({ pages }: Snapshot): void {
    this.active.delete(pages);
    this.isActive = this.active.size > 0;
    if (!this.isActive) this.pool?.clear();
  }
}
