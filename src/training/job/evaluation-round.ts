import type { TensorMessage } from "../messages.js";
import type { Evaluated, MetricFunction } from "../model/metric-functions.js";
import type { BatchOutputs } from "../model/trainable-model.js";

/** What the model gave for one range. */
export interface RangeOutputs {
  readonly outputs: BatchOutputs;
  readonly labels: TensorMessage;
}

/** A range of evaluation records. */
export interface EvaluationPart {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}

/** The evaluation of one saved version: which ranges are to be done, and what the model gave for those that are. */
export class EvaluationRound {
  readonly round: number;
  readonly modelVersion: number;
  readonly path: string;
  private readonly parts: readonly EvaluationPart[];
  private readonly open: number[];
  private readonly doing = new Map<number, number>();
  private readonly handedIn = new Map<number, RangeOutputs>();
  private readonly done = new Map<number, RangeOutputs>();

  /** The evaluation of the version at `path` with `size` records, `partSize` at a time. */
  constructor(
    version: { readonly round: number; readonly modelVersion: number; readonly path: string },
    size: number,
    partSize: number,
  ) {
    this.round = version.round;
    this.modelVersion = version.modelVersion;
    this.path = version.path;
    this.parts = Array.from({ length: Math.ceil(size / partSize) }, (_, index) => {
      return { index, start: index * partSize, end: Math.min(size, (index + 1) * partSize) };
    });
    this.open = this.parts.map(({ index }) => index);
  }

  /** Whether all ranges are done. */
  get isDone(): boolean {
    return this.done.size === this.parts.length;
  }

  /** Gives a worker a range; undefined when none is open. */
  take(workerId: number): EvaluationPart | undefined {
    const index = this.open.shift();
    if (index === undefined) return undefined;
    this.doing.set(index, workerId);
    return this.parts[index];
  }

  /** Takes what a worker's model gave; it counts once the task is reported as done. */
  handIn(workerId: number, outputs: RangeOutputs): void {
    for (const [index, owner] of this.doing) if (owner === workerId) this.handedIn.set(index, outputs);
  }

  /** A range is done. */
  complete(index: number): void {
    const outputs = this.handedIn.get(index);
    if (outputs === undefined) this.giveBack(index);
    else if (this.doing.delete(index)) this.done.set(index, outputs);
  }

  /** A range was not done. */
  giveBack(index: number): void {
    if (!this.doing.delete(index)) return;
    this.handedIn.delete(index);
    this.open.push(index);
    this.open.sort((a, b) => a - b);
  }

  /** Takes back what workers have that are lost. */
  recover(isLost: (workerId: number) => boolean): void {
    for (const [index, workerId] of [...this.doing]) if (isLost(workerId)) this.giveBack(index);
  }

  /** The metrics over all records in their order. */
  metrics(functions: ReadonlyMap<string, MetricFunction>): Record<string, number> {
    const evaluated = this.joined();
    return Object.fromEntries(Array.from(functions, ([name, metric]) => [name, metric(evaluated)]));
  }

  private joined(): Evaluated {
    const ranges = this.parts.map(({ index }) => this.done.get(index) as RangeOutputs);
    const names = [...(ranges[0]?.outputs.keys() ?? [])];
    const outputs = Object.fromEntries(
      names.map((name) => [
        name,
        joinFloats(ranges.map((range) => range.outputs.get(name)?.values ?? new Float32Array(0))),
      ]),
    );
    return {
      labels: joinFloats(ranges.map(({ labels }) => new Float32Array(labels.content.slice().buffer))),
      output: outputs[names[0] ?? ""] ?? new Float32Array(0),
      outputs,
      count: this.parts.at(-1)?.end ?? 0,
    };
  }
}

function joinFloats(lists: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(lists.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const list of lists) {
    joined.set(list, at);
    at += list.length;
  }
  return joined;
}
