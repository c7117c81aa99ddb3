import type { ScheduledTask, TaskSchedule } from "./task-schedule.js";

/** What of a queue has to be kept to go on with it later. */
export interface QueueState {
  /** The version without the batches that are done: where the first task began, when each batch made one version. */
  readonly baseVersion: number;
  /** Tasks that are done, each with the version after it. */
  readonly done: readonly (readonly [index: number, endVersion: number])[];
}

/** A task that a worker has. */
interface Doing {
  readonly workerId: number;
  readonly sinceMs: number;
}

/**
 * Which tasks of a schedule are to be done, are being done, and are done. Tasks go out in order; one that comes back, since
 * its worker is gone or the model went back to an older version, goes out before all later ones.
 */
export class TaskQueue {
  readonly schedule: TaskSchedule;
  /** See {@link QueueState.baseVersion}. */
  baseVersion = 0;
  private next = 0;
  private returned: number[] = [];
  private readonly doing = new Map<number, Doing>();
  private readonly done = new Map<number, number>();
  /** Batches of the tasks that are done. */
  private doneBatches = 0;
  private isStopped = false;

  /** All tasks of a schedule are to be done. */
  constructor(schedule: TaskSchedule) {
    this.schedule = schedule;
  }

  /** How many tasks are done. */
  get doneCount(): number {
    return this.done.size;
  }

  /** Whether nothing is to be done any more, nor being done. */
  get isFinished(): boolean {
    if (this.doing.size > 0) return false;
    return this.isStopped || (this.returned.length === 0 && this.next >= this.schedule.taskCount);
  }

  /** The epoch of the task that goes out next. */
  get epoch(): number {
    const index = Math.min(this.returned[0] ?? this.next, this.schedule.taskCount - 1);
    return Math.floor(index / this.schedule.tasksPerEpoch);
  }

  /** Gives a worker the next task; undefined when there is none now. */
  take(workerId: number, nowMs: number): ScheduledTask | undefined {
    if (this.isStopped) return undefined;
    const index = this.returned.shift() ?? (this.next < this.schedule.taskCount ? this.next++ : undefined);
    if (index === undefined) return undefined;
    this.doing.set(index, { workerId, sinceMs: nowMs });
    return this.schedule.task(index);
  }

  /** The version at which the next task begins, where each batch makes one version and tasks are done one by one. */
  get startVersion(): number {
    return this.baseVersion + this.doneBatches;
  }

  /** What is done led to this version, however many batches that were: from here on each batch makes one version. */
  alignTo(modelVersion: number): void {
    this.baseVersion += modelVersion - this.startVersion;
  }

  /** A task is done; `endVersion` is the model's version after it. One that nobody has any more is not counted. */
  complete(index: number, endVersion: number): void {
    if (this.doing.delete(index)) this.setDone(index, endVersion);
  }

  /** A task was not done. */
  giveBack(index: number): void {
    if (this.doing.delete(index)) this.put([index]);
  }

  /** Takes back what a worker has. */
  recoverWorker(workerId: number): void {
    this.recover((doing) => doing.workerId === workerId);
  }

  /** Takes back what workers have of whom nothing was heard; `heardMs` tells when. */
  recoverStale(isStale: (workerId: number, sinceMs: number) => boolean): void {
    this.recover(({ workerId, sinceMs }) => isStale(workerId, sinceMs));
  }

  /** Nothing more goes out. */
  stop(): void {
    this.isStopped = true;
  }

  /** The model went back to a version: what was trained since is to be done again, and nobody has a task. */
  rollback(modelVersion: number): void {
    this.recover(() => true);
    this.isStopped = false;
    const again = [...this.done].filter(([, endVersion]) => endVersion > modelVersion).map(([index]) => index);
    for (const index of again) {
      this.done.delete(index);
      this.doneBatches -= this.schedule.task(index).batchCount;
    }
    this.put(again);
  }

  /** What has to be kept; a task that is being done counts as not done. */
  state(): QueueState {
    return { baseVersion: this.baseVersion, done: [...this.done] };
  }

  /** Goes on where another queue of the same schedule was. */
  restore({ baseVersion, done }: QueueState): void {
    this.baseVersion = baseVersion;
    const known = done.filter(([index]) => index < this.schedule.taskCount);
    for (const [index, endVersion] of known) this.setDone(index, endVersion);
    this.next = known.reduce((most, [index]) => Math.max(most, index + 1), 0);
    for (let index = 0; index < this.next; index++) if (!this.done.has(index)) this.returned.push(index);
  }

  private setDone(index: number, endVersion: number): void {
    if (!this.done.has(index)) this.doneBatches += this.schedule.task(index).batchCount;
    this.done.set(index, endVersion);
  }

  private recover(isLost: (doing: Doing) => boolean): void {
    const lost = [...this.doing].filter(([, doing]) => isLost(doing)).map(([index]) => index);
    for (const index of lost) this.doing.delete(index);
    this.put(lost);
  }

  private put(indexes: readonly number[]): void {
    this.returned = [...this.returned, ...indexes].sort((a, b) => a - b);
  }
}
