import { type Contribution, meanGradients } from "./mean-gradients.js";

/** A worker's place among those that average their gradients. */
export interface CommRank {
  /** From 0; the first saves the model. -1 while not all workers are there, -2 for one that the others went on without. */
  readonly rank: number;
  readonly worldSize: number;
  /** Changes whenever the workers change. */
  readonly rendezvousId: number;
}

/** What a worker hands in. */
export interface ReduceCall extends Contribution {
  readonly workerId: number;
  readonly rendezvousId: number;
}

/** The mean for all workers; undefined when the workers have changed, and all have to ask anew. */
export type Reduced = Contribution | undefined;

interface Waiting {
  readonly call: ReduceCall;
  readonly resolve: (reduced: Reduced) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Averages the gradients of workers step by step: each waits until all have handed in theirs, and all get the same mean. A
 * worker that is lost is left out, and the others go on. All have the same model at all times, which is why any of them can
 * save it.
 */
export class Reducer {
  private readonly expected: number;
  private readonly members = new Set<number>();
  private readonly waiting = new Map<number, Waiting>();
  private rendezvousId = 1;
  private isFormed = false;
  private last: { readonly modelVersion: number; readonly reduced: Contribution } | undefined;

  /** Begins once `expected` workers are there. */
  constructor(expected: number) {
    this.expected = expected;
  }

  /** The workers that are there. */
  get workerIds(): readonly number[] {
    return [...this.members].sort((a, b) => a - b);
  }

  /** A worker's rank. One that comes before all are there is counted in; one that comes later has another model than the others and gets none. */
  rank(workerId: number): CommRank {
    if (!this.isFormed) {
      this.members.add(workerId);
      this.isFormed = this.members.size >= this.expected;
    }
    const { rendezvousId } = this;
    const place = this.workerIds.indexOf(workerId);
    const rank = this.isFormed ? (place < 0 ? -2 : place) : -1;
    return { rank, worldSize: this.members.size, rendezvousId };
  }

  /** Hands in the gradients of a worker and waits for the mean. A worker that missed an answer gets it again. */
  reduce(call: ReduceCall): Promise<Reduced> {
    const { workerId, rendezvousId, gradients } = call;
    if (!this.members.has(workerId)) return Promise.resolve(undefined);
    if (this.last?.modelVersion === gradients.modelVersion && call.records >= 0 && this.last.reduced.records > 0) {
      return Promise.resolve(this.last.reduced);
    }
    if (rendezvousId !== this.rendezvousId || !this.isFormed) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.waiting.get(workerId)?.resolve(undefined);
      this.waiting.set(workerId, { call, resolve, reject });
      this.finishStep();
    });
  }

  /** A worker is lost: the others ask for their ranks anew. */
  remove(workerId: number): void {
    if (this.members.delete(workerId)) this.regroup();
  }

  /** All have begun anew from a version: they have to come again. */
  reset(): void {
    this.members.clear();
    this.isFormed = false;
    this.last = undefined;
    this.regroup();
  }

  /** Lets go of all who wait. */
  regroup(): void {
    this.rendezvousId++;
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const { resolve } of all) resolve(undefined);
  }

  private finishStep(): void {
    if (this.waiting.size < this.members.size) return;
    const all = this.workerIds.map((workerId) => this.waiting.get(workerId) as Waiting);
    this.waiting.clear();
    try {
      const reduced = meanGradients(all.map(({ call }) => call));
      const modelVersion = all[0]?.call.gradients.modelVersion ?? 0;
      this.last = { modelVersion, reduced };
      for (const { resolve } of all) resolve(reduced);
    } catch (error) {
      for (const { reject } of all) reject(error);
    }
  }
}
