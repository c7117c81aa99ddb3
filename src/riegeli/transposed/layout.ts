import { LimitError } from "../../errors.js";
import { MAX_TRANSPOSED_NODES } from "../../limits.js";
import type { State } from "./columns.js";
import { MAX_STEP } from "./format.js";
import type { Walk } from "./walk.js";

/*
 * How states become nodes.
 *
 * One transition byte leads from a node's next_node to one of the 64 nodes from there on. So the states that can follow
 * each other have to stand near each other:
 *
 * - Each state has a home. Homes are sorted by the message path that a state is reached from, since all that can
 *   follow a state is reached from the same path, and then by falling field number, since that is the order in which
 *   the fields of a message are met backward. Most often, all successors of a state are within one step.
 * - Where they are not, they are reached over stepping stones: level 1 has one for each 64 homes, level 2 one for each
 *   64 of level 1, and so on. A state's window is the part of the lowest level from where one step is enough.
 * - A state with frequent successors for which that is not good enough gets a list: copies of their nodes, most
 *   frequent first, and at its end a stepping stone to the window, if there are any others. The first of a list is
 *   reached by step 0, which takes a quarter of a byte when it is repeated.
 *
 * The nodes are: homes, level 1, level 2, …, lists. States that are reached over lists alone have no home.
 */

/** Bits of a node's index that one step tells: 2^6 is {@link MAX_STEP} + 1. */
const STEP_BITS = 6;

/** An edge that is taken less often stays out of a list. */
const MIN_LISTED_COUNT = 8;

/** Bytes that one more node takes in the header, about: tag, next node, subtype and buffer. */
const NODE_BYTES = 4;

/** A step 0 adds 1 to a byte that has room for three such. */
const REPEATED_STEP_BYTES = 0.25;

const NO_WINDOW = { level: -1, start: 0 };

/** Where the steps from a state begin: the level, and the place in it. */
interface Window {
  readonly level: number;
  readonly start: number;
}

/** The nodes of a chunk, and how to get from one to the next. */
export class NodeLayout {
  /** The state of each node; -1 for a stepping stone. */
  readonly nodes: number[] = [];
  /** The next node of each node as in the header, with the number of nodes added where the step is implicit. */
  readonly next: number[] = [];
  private readonly walk: Walk;
  private readonly states: readonly State[];
  /** Place of each state among the homes; -1 where it has none. */
  private readonly homes: Int32Array;
  /** A node of each state that has no home. */
  private readonly copies: Int32Array;
  /** The listed edges of each state. */
  private readonly lists: (readonly number[] | undefined)[];
  /** Place of each edge in the list of its state; -1 where it has none. */
  private readonly listPlaces: Int32Array;
  private readonly windows: Window[];
  private readonly levelStarts: number[] = [0];

  /** Lays out the nodes for a walk. @throws {@link LimitError} (`limit`) */
  constructor(walk: Walk, states: readonly State[]) {
    this.walk = walk;
    this.states = states;
    this.homes = new Int32Array(walk.stateCount).fill(-1);
    this.copies = new Int32Array(walk.stateCount).fill(-1);
    this.lists = new Array(walk.stateCount).fill(undefined);
    this.listPlaces = new Int32Array(walk.targets.length).fill(-1);
    this.windows = new Array(walk.stateCount).fill(NO_WINDOW);
    const order = this.orderOfHomes();
    order.forEach((state, i) => {
      this.homes[state] = i;
    });
    this.chooseLists();
    this.dropHomes(order);
    this.chooseWindows();
    this.addSteppingStones();
    const listStarts = this.addLists();
    this.setNextNodes(listStarts);
  }

  /** The node that decoding begins with. */
  get firstNode(): number {
    return this.nodeOf(this.walk.first);
  }

  /** Calls `step` with each step from `state` along `edge`, which is one of its edges. */
  forEachStep(state: number, edge: number, step: (distance: number) => void): void {
    const place = this.listPlaces[edge] as number;
    if (place >= 0) {
      step(place);
      return;
    }
    const list = this.lists[state];
    if (list !== undefined) step(list.length);
    const { level, start } = this.windows[state] as Window;
    const home = this.homes[this.walk.targets[edge] as number] as number;
    step((home >>> (level * STEP_BITS)) - start);
    for (let l = level - 1; l >= 0; l--) step((home >>> (l * STEP_BITS)) & MAX_STEP);
  }

  private orderOfHomes(): number[] {
    const { states } = this;
    const { frequencies, stateCount } = this.walk;
    const occurring = Array.from({ length: stateCount }, (_, state) => state).filter((s) => frequencies[s] !== 0);
    // Starts of messages have no field number, so they come last; all forms of a field come together.
    const rank = (state: number): number => (states[state]?.tag ?? 0) >>> 3;
    const path = (state: number): number => states[state]?.reachedFrom ?? 0;
    return occurring.sort(
      (a, b) =>
        path(a) - path(b) || rank(b) - rank(a) || (frequencies[b] as number) - (frequencies[a] as number) || a - b,
    );
  }

  private chooseLists(): void {
    for (let state = 0; state < this.walk.stateCount; state++) {
      if (this.walk.onlySuccessor(state) !== undefined) continue;
      const list = this.listOf(this.walk.edgesFrom(state));
      if (list === undefined) continue;
      this.lists[state] = list;
      list.forEach((edge, place) => {
        this.listPlaces[edge] = place;
      });
    }
  }

  /** The edges that are worth a list, most frequent first; undefined when none are. */
  private listOf(edges: readonly number[]): readonly number[] | undefined {
    const { counts } = this.walk;
    const sorted = edges.toSorted((a, b) => (counts[b] as number) - (counts[a] as number) || a - b);
    let length = sorted.findIndex((edge) => (counts[edge] as number) < MIN_LISTED_COUNT);
    // A node for the last one costs no more than the stepping stone to it.
    if (length < 0 || length === sorted.length - 1) length = sorted.length;
    if (length > MAX_STEP + 1 || (length > MAX_STEP && length < sorted.length)) length = MAX_STEP;
    if (length === 0) return undefined;
    const listed = sorted.slice(0, length);
    const others = sorted.slice(length);
    let cost = NODE_BYTES * (length + (others.length > 0 ? 1 : 0));
    listed.forEach((edge, place) => {
      cost += (counts[edge] as number) * (place === 0 ? REPEATED_STEP_BYTES : 1);
    });
    if (others.length > 0) cost += this.windowCost(others, 1);
    return cost < this.windowCost(edges, 0) ? listed : undefined;
  }

  /** Transition bytes for all steps along edges over their common window, with `more` bytes for each. */
  private windowCost(edges: readonly number[], more: number): number {
    const { level, start } = this.windowOf(edges);
    let cost = 0;
    for (const edge of edges) {
      const isRepeated = level === 0 && more === 0 && this.homeOfTarget(edge) === start;
      cost += (this.walk.counts[edge] as number) * (isRepeated ? REPEATED_STEP_BYTES : level + 1 + more);
    }
    return cost;
  }

  private windowOf(edges: readonly number[]): Window {
    let first = Number.MAX_SAFE_INTEGER;
    let last = 0;
    for (const edge of edges) {
      const home = this.homeOfTarget(edge);
      first = Math.min(first, home);
      last = Math.max(last, home);
    }
    let level = 0;
    for (; last - first > MAX_STEP; level++) {
      first >>>= STEP_BITS;
      last >>>= STEP_BITS;
    }
    return { level, start: first };
  }

  private homeOfTarget(edge: number): number {
    return this.homes[this.walk.targets[edge] as number] as number;
  }

  /** Takes their homes from the states that nothing leads to but lists. */
  private dropHomes(order: readonly number[]): void {
    const { walk, listPlaces } = this;
    const isListed = new Uint8Array(walk.stateCount);
    const isNeeded = new Uint8Array(walk.stateCount);
    const wanted = [walk.first];
    for (let state = 0; state < walk.stateCount; state++) {
      const successor = walk.onlySuccessor(state);
      if (successor !== undefined) {
        wanted.push(successor);
        continue;
      }
      for (const edge of walk.edgesFrom(state)) {
        const mark = (listPlaces[edge] as number) >= 0 ? isListed : isNeeded;
        mark[walk.targets[edge] as number] = 1;
      }
    }
    // Any node will do for these.
    for (const state of wanted) if (isListed[state] === 0) isNeeded[state] = 1;
    for (const state of order) {
      this.homes[state] = isNeeded[state] === 1 ? this.nodes.push(state) - 1 : -1;
    }
  }

  private chooseWindows(): void {
    for (let state = 0; state < this.walk.stateCount; state++) {
      if (this.walk.onlySuccessor(state) !== undefined) continue;
      const edges = this.walk.edgesFrom(state).filter((edge) => (this.listPlaces[edge] as number) < 0);
      if (edges.length > 0) this.windows[state] = this.windowOf(edges);
    }
  }

  private addSteppingStones(): void {
    let levelCount = 0;
    for (const { level } of this.windows) levelCount = Math.max(levelCount, level);
    let size = this.nodes.length;
    for (let level = 1; level <= levelCount; level++) {
      this.levelStarts.push(this.nodes.length);
      const below = this.levelStarts[level - 1] as number;
      size = Math.ceil(size / (MAX_STEP + 1));
      for (let i = 0; i < size; i++) this.addSteppingStone(below + i * (MAX_STEP + 1));
    }
  }

  private addSteppingStone(to: number): void {
    this.next[this.nodes.length] = to;
    this.nodes.push(-1);
  }

  /** Adds the lists and gives where each begins. */
  private addLists(): Int32Array {
    const listStarts = new Int32Array(this.walk.stateCount);
    this.lists.forEach((list, state) => {
      if (list === undefined) return;
      listStarts[state] = this.nodes.length;
      for (const edge of list) {
        const target = this.walk.targets[edge] as number;
        this.copies[target] = this.nodes.length;
        this.nodes.push(target);
      }
      const window = this.windows[state] as Window;
      if (window.level >= 0) this.addSteppingStone(this.startOf(window));
    });
    if (this.nodes.length <= MAX_TRANSPOSED_NODES) return listStarts;
    throw new LimitError("limit", "nodes of a transposed chunk", {
      expected: `at most ${MAX_TRANSPOSED_NODES}`,
      actual: this.nodes.length,
    });
  }

  private setNextNodes(listStarts: Int32Array): void {
    const { nodes, next, lists, walk } = this;
    nodes.forEach((state, node) => {
      if (state < 0) return;
      const successor = walk.onlySuccessor(state);
      if (successor !== undefined) next[node] = nodes.length + this.nodeOf(successor);
      else if (lists[state] !== undefined) next[node] = listStarts[state] as number;
      else next[node] = this.startOf(this.windows[state] as Window);
    });
  }

  private startOf({ level, start }: Window): number {
    return (this.levelStarts[level] ?? 0) + start;
  }

  private nodeOf(state: number): number {
    const home = this.homes[state] as number;
    return home >= 0 ? home : (this.copies[state] as number);
  }
}

/** The transition bytes of a walk. */
export function encodeTransitions(walk: Walk, layout: NodeLayout): Uint8Array {
  let bytes = new Uint8Array(1024);
  let size = 0;
  const put = (distance: number): void => {
    const last = size > 0 ? (bytes[size - 1] as number) : 3;
    if (distance === 0 && (last & 3) < 3) {
      bytes[size - 1] = last + 1;
      return;
    }
    if (size === bytes.length) {
      const larger = new Uint8Array(size * 2);
      larger.set(bytes);
      bytes = larger;
    }
    bytes[size++] = distance << 2;
  };
  const { steps, edgeOfStep } = walk;
  for (let i = steps.length - 1; i > 0; i--) {
    const state = steps[i] as number;
    if (walk.onlySuccessor(state) === undefined) layout.forEachStep(state, edgeOfStep[i - 1] as number, put);
  }
  return bytes.subarray(0, size);
}
