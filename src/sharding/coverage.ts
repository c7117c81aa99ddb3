import { LimitError } from "../errors.js";
import { intersect } from "../tensor/gather.js";
import type { Region } from "../tensor/region.js";

/** A prime, 2^61 - 1: sums of weights are taken modulo it. */
const PRIME = 2n ** 61n - 1n;

/**
 * Tells whether two lists of regions cover the same elements the same number of times each; in time linear in their
 * number, whatever they look like.
 *
 * Which elements a sum of boxes covers is settled by the corners of the boxes with alternating signs. Each coordinate
 * of each dimension gets a random weight; a corner then weighs the product of its coordinates' weights, and the corners
 * of a box sum up to the product of (weight of end - weight of start). Equal covers have equal sums. Unequal ones have
 * equal sums with a probability of at most rank / 2^61 (Schwartz and Zippel), and nobody knows the weights beforehand.
 */
export function coverSame(a: readonly Region[], b: readonly Region[]): boolean {
  const [first] = a;
  if (first === undefined || b.length === 0) return a.length === b.length;
  const all = [...a, ...b];
  // A dimension of which all take the same range decides nothing.
  const dimensions = [...first.keys()].filter((i) => all.some((region) => !isSameRange(region[i], first[i])));
  if (dimensions.length === 0) return a.length === b.length;
  const weights = dimensions.map(() => new Map<number, bigint>());
  const sum = (regions: readonly Region[]): bigint => {
    let total = 0n;
    for (const region of regions) {
      let product = 1n;
      for (const [i, dimension] of dimensions.entries()) {
        const { start, end } = region[dimension] as Region[number];
        const known = weights[i] as Map<number, bigint>;
        product = (product * (weightOf(known, end) - weightOf(known, start))) % PRIME;
      }
      total += product;
    }
    return ((total % PRIME) + PRIME) % PRIME;
  };
  return sum(a) === sum(b);
}

function isSameRange(a: Region[number] | undefined, b: Region[number] | undefined): boolean {
  return a?.start === b?.start && a?.end === b?.end;
}

function weightOf(known: Map<number, bigint>, coordinate: number): bigint {
  let weight = known.get(coordinate);
  if (weight === undefined) {
    weight = BigInt(Math.floor(Math.random() * 2 ** 31)) * 2n ** 30n + BigInt(Math.floor(Math.random() * 2 ** 30));
    known.set(coordinate, weight);
  }
  return weight;
}

/** Pairs of regions that are compared at most, to find two that overlap. */
const MAX_COMPARED_PAIRS = 2 ** 22;

/**
 * Two of the regions that overlap, by index, or undefined when none do.
 * @throws {@link LimitError} (`limit`) when that takes too long to find out
 */
export function findOverlap(regions: readonly Region[]): readonly [number, number] | undefined {
  const dimension = mostVariedDimension(regions);
  const rangeOf = (index: number): Region[number] => regions[index]?.[dimension] ?? { start: 0, end: 1 };
  const order = [...regions.keys()].sort((a, b) => rangeOf(a).start - rangeOf(b).start);
  let open: number[] = [];
  let compared = 0;
  for (const index of order) {
    const { start } = rangeOf(index);
    open = open.filter((other) => rangeOf(other).end > start);
    compared += open.length;
    const other = open.find((one) => intersect(regions[one] as Region, regions[index] as Region) !== undefined);
    if (other !== undefined) return other < index ? [other, index] : [index, other];
    if (compared > MAX_COMPARED_PAIRS) {
      throw new LimitError("limit", "pairs of slices to be compared", { expected: `at most ${MAX_COMPARED_PAIRS}` });
    }
    open.push(index);
  }
  return undefined;
}

/** The dimension in which regions start at the most places: few lie side by side there. */
function mostVariedDimension(regions: readonly Region[]): number {
  const places = (regions[0] ?? []).map((_, i) => new Set(regions.map((region) => region[i]?.start)).size);
  return Math.max(0, places.indexOf(Math.max(...places)));
}
