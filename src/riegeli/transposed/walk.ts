/**
 * A list of states and how often each is followed by each other one, in the order of decoding, which goes from the
 * end of the list to its begin. Edges are numbered.
 */
export class Walk {
  /** The states, in the order of the records. */
  readonly steps: Uint32Array;
  readonly stateCount: number;
  /** How often each state occurs. */
  readonly frequencies: Uint32Array;
  /** `edgeOfStep[i]` is the edge that leads to `steps[i]`. The first state of the walk has none. */
  readonly edgeOfStep: Uint32Array;
  /** The state that each edge leads to. */
  readonly targets: number[] = [];
  /** How often each edge is taken. */
  readonly counts: number[] = [];
  private readonly edgesOfState: number[][] = [];

  /** Counts the steps. There has to be one at least. */
  constructor(steps: Uint32Array, stateCount: number) {
    this.steps = steps;
    this.stateCount = stateCount;
    this.frequencies = new Uint32Array(stateCount);
    this.edgeOfStep = new Uint32Array(steps.length);
    this.countSteps();
  }

  /** The state that decoding begins with. */
  get first(): number {
    return this.steps[this.steps.length - 1] as number;
  }

  /** The state that decoding ends with. */
  get last(): number {
    return this.steps[0] as number;
  }

  /** The edges from a state. */
  edgesFrom(state: number): readonly number[] {
    return this.edgesOfState[state] ?? [];
  }

  /** The only state that can follow `state`; undefined when there are several, or when the walk ends there. */
  onlySuccessor(state: number): number | undefined {
    const edges = this.edgesOfState[state];
    return edges?.length === 1 && state !== this.last ? this.targets[edges[0] as number] : undefined;
  }

  private countSteps(): void {
    const { steps, stateCount, frequencies, edgeOfStep, targets, counts } = this;
    const known = new Map<number, number>();
    // The edge that was taken last from a state is most often the one that is taken next.
    const recent = new Int32Array(stateCount).fill(-1);
    let from = this.first;
    frequencies[from] = 1;
    for (let i = steps.length - 2; i >= 0; i--) {
      const to = steps[i] as number;
      let edge = recent[from] as number;
      if (edge < 0 || targets[edge] !== to) {
        const key = from * stateCount + to;
        edge = known.get(key) ?? this.addEdge(from, to);
        known.set(key, edge);
        recent[from] = edge;
      }
      counts[edge] = (counts[edge] as number) + 1;
      edgeOfStep[i] = edge;
      frequencies[to] = (frequencies[to] as number) + 1;
      from = to;
    }
  }

  private addEdge(from: number, to: number): number {
    const edge = this.targets.push(to) - 1;
    this.counts.push(0);
    const edges = this.edgesOfState[from];
    if (edges === undefined) this.edgesOfState[from] = [edge];
    else edges.push(edge);
    return edge;
  }
}
