import { UsageError } from "../../errors.js";
import { RowRandom } from "../random.js";

/** What a {@link TaskSchedule} is made of. */
export interface ScheduleOptions {
  /** Records of the training data. */
  readonly size: number;
  readonly minibatchSize: number;
  /** Batches of a task; the last of an epoch has fewer. */
  readonly batchesPerTask: number;
  readonly numEpochs: number;
  /** Deal out the ranges of an epoch in another order each epoch. */
  readonly shuffle: boolean;
  readonly seed: number;
}

/** A range of records to train with. */
export interface ScheduledTask {
  readonly index: number;
  readonly epoch: number;
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Batches of this task. */
  readonly batchCount: number;
  /** Batches of all tasks before it. */
  readonly batchesBefore: number;
}

/** The tasks of a training in their order: a list that depends on the options alone, so it need not be stored. */
export class TaskSchedule {
  readonly options: ScheduleOptions;
  readonly tasksPerEpoch: number;
  readonly batchesPerEpoch: number;
  private epochOrder:
    | { readonly epoch: number; readonly ranges: readonly number[]; readonly before: readonly number[] }
    | undefined;

  /** @throws {@link UsageError} (`usage`) for numbers that are no counts */
  constructor(options: ScheduleOptions) {
    for (const name of ["size", "minibatchSize", "batchesPerTask", "numEpochs"] as const) {
      if (Number.isSafeInteger(options[name]) && options[name] >= 1) continue;
      throw new UsageError("usage", `${name} of a training`, {
        expected: "a whole number from 1",
        actual: options[name],
      });
    }
    this.options = options;
    this.tasksPerEpoch = Math.ceil(options.size / this.recordsPerTask);
    this.batchesPerEpoch = Math.ceil(options.size / options.minibatchSize);
  }

  /** How many tasks there are. */
  get taskCount(): number {
    return this.tasksPerEpoch * this.options.numEpochs;
  }

  /** Tells schedules apart whose tasks of one index are different ones. The number of epochs is not in it. */
  get fingerprint(): string {
    const { size, minibatchSize, batchesPerTask, shuffle, seed } = this.options;
    return [size, minibatchSize, batchesPerTask, shuffle ? seed : "in order"].join("/");
  }

  /** A task by its number. */
  task(index: number): ScheduledTask {
    const epoch = Math.floor(index / this.tasksPerEpoch);
    const place = index - epoch * this.tasksPerEpoch;
    const { ranges, before } = this.orderOf(epoch);
    const range = ranges[place] as number;
    const start = range * this.recordsPerTask;
    const end = Math.min(this.options.size, start + this.recordsPerTask);
    const batchesBefore = epoch * this.batchesPerEpoch + (before[place] as number);
    return { index, epoch, start, end, batchCount: this.batchesOf(range), batchesBefore };
  }

  private get recordsPerTask(): number {
    return this.options.minibatchSize * this.options.batchesPerTask;
  }

  private batchesOf(range: number): number {
    const { size, minibatchSize } = this.options;
    const start = range * this.recordsPerTask;
    return Math.ceil(Math.min(this.recordsPerTask, size - start) / minibatchSize);
  }

  private orderOf(epoch: number) {
    if (this.epochOrder?.epoch === epoch) return this.epochOrder;
    const ranges = Array.from({ length: this.tasksPerEpoch }, (_, range) => range);
    if (this.options.shuffle) shuffleInPlace(ranges, this.options.seed, epoch);
    const before: number[] = [];
    let sum = 0;
    for (const range of ranges) {
      before.push(sum);
      sum += this.batchesOf(range);
    }
    this.epochOrder = { epoch, ranges, before };
    return this.epochOrder;
  }
}

/** Puts a list into an order that depends on a seed and a number alone (Fisher and Yates). */
export function shuffleInPlace(list: number[], seed: number, number: number): void {
  const random = new RowRandom(seed, "order");
  random.startRow(number, 0);
  for (let i = list.length - 1; i > 0; i--) {
    const k = Math.floor(random.uniform() * (i + 1));
    [list[i], list[k]] = [list[k] as number, list[i] as number];
  }
}
