import { UsageError } from "../errors.js";

/** An id of a row, an int64: beyond 2^53 only a bigint can be one. */
export type Id = number | bigint;

/**
 * Ids in the form in which they are kept and sent.
 * @throws {@link UsageError} (`usage`) for what is no int64
 */
export function toIds(ids: readonly Id[] | BigInt64Array): BigInt64Array {
  if (ids instanceof BigInt64Array) return ids;
  return BigInt64Array.from(ids, (id) => {
    const isWhole = typeof id === "bigint" || Number.isSafeInteger(id);
    const wide = isWhole ? BigInt(id) : 0n;
    if (isWhole && BigInt.asIntN(64, wide) === wide) return wide;
    throw new UsageError("usage", "no id of a row", { expected: "an int64; beyond 2^53 a bigint", actual: String(id) });
  });
}

/** Ids as pairs of signed 32-bit words, low word first: no bigint is made for any of them. */
export function idWords(ids: BigInt64Array): Int32Array {
  return new Int32Array(ids.buffer, ids.byteOffset, ids.length * 2);
}
