import { wordsOf } from "./partition.js";

/** Values of one digit of the radix sort, 2^16, and those of its high digit. */
const RADIX_BITS = 16;
const RADIX = 2 ** RADIX_BITS;
const DIGITS = 64 / RADIX_BITS;

/**
 * The places of ids in ascending order: `ids[order[0]]` is the smallest. Equal ids keep their order. A radix sort with
 * digits of 16 bits; digits that are the same in all ids cost nothing, so small ids take one or two rounds.
 */
export function sortedOrder(ids: BigInt64Array): Uint32Array {
  const words = wordsOf(ids);
  let order = new Uint32Array(ids.length);
  for (let i = 0; i < order.length; i++) order[i] = i;
  if (isAscending(words)) return order;
  let other = new Uint32Array(ids.length);
  const counts = new Uint32Array(RADIX);
  for (let digit = 0; digit < DIGITS; digit++) {
    if (!countDigit(words, digit, counts)) continue;
    let sum = 0;
    for (let value = 0; value < RADIX; value++) {
      const count = counts[value] as number;
      counts[value] = sum;
      sum += count;
    }
    for (const index of order) {
      const value = digitOf(words, index, digit);
      const place = counts[value] as number;
      counts[value] = place + 1;
      other[place] = index;
    }
    [order, other] = [other, order];
  }
  return order;
}

/** Digit `digit` of an id, lowest first; the sign is turned so that negative ids come first. */
function digitOf(words: Uint32Array, index: number, digit: number): number {
  const word = words[2 * index + (digit >> 1)] as number;
  if (digit === DIGITS - 1) return (word >>> 16) ^ 0x8000;
  return digit & 1 ? word >>> 16 : word & 0xffff;
}

/** Counts how often each value of a digit occurs; false when there is only one value. */
function countDigit(words: Uint32Array, digit: number, counts: Uint32Array): boolean {
  counts.fill(0);
  const total = words.length / 2;
  for (let index = 0; index < total; index++) {
    const value = digitOf(words, index, digit);
    counts[value] = (counts[value] as number) + 1;
  }
  return total > 0 && counts[digitOf(words, 0, digit)] !== total;
}

function isAscending(words: Uint32Array): boolean {
  for (let i = 2; i < words.length; i += 2) {
    const [highBefore, high] = [(words[i - 1] as number) | 0, (words[i + 1] as number) | 0];
    if (high < highBefore || (high === highBefore && (words[i] as number) < (words[i - 2] as number))) return false;
  }
  return true;
}

/** Whether two ids of a list are the same. */
export function isSameId(words: Uint32Array, a: number, b: number): boolean {
  return words[2 * a] === words[2 * b] && words[2 * a + 1] === words[2 * b + 1];
}

/**
 * The places of ids in ascending order, of equal ones the last only: ElasticDL lets what it reads later win.
 * `dropped` are the places that are left out.
 */
export function uniqueOrder(ids: BigInt64Array): { readonly order: Uint32Array; readonly dropped: readonly number[] } {
  const order = sortedOrder(ids);
  const words = wordsOf(ids);
  const dropped: number[] = [];
  let count = 0;
  for (let i = 0; i < order.length; i++) {
    const index = order[i] as number;
    const next = order[i + 1];
    if (next !== undefined && isSameId(words, index, next)) dropped.push(index);
    else order[count++] = index;
  }
  return { order: order.subarray(0, count), dropped };
}
