import { sha256 } from "@noble/hashes/sha2.js";
import { UsageError } from "../../errors.js";
import { MAX_PARAMETER_SERVERS } from "../../limits.js";
import { encodeKey } from "../../tensor/key.js";

/**
 * The parameter server, of `psNum`, that a dense variable belongs to. ElasticDL takes the SHA-256 of the name as 64 hex
 * digits and reads that text as a number in base 32, not 16; cairn has to do the same.
 * Source: elasticdl/python/common/hash_utils.py, string_to_id.
 * @throws {@link UsageError} (`usage`) when `psNum` is no count
 */
export function stringToId(name: string, psNum: number): number {
  return bytesToId(new TextEncoder().encode(name), psNum);
}

/** The same as {@link stringToId} for a key, which stands in hex when its bytes are no text. */
export function keyToId(key: string, psNum: number): number {
  return bytesToId(encodeKey(key), psNum);
}

/**
 * The parameter server, of `psNum`, that a row of an embedding table belongs to: the floor modulo, 0 and up for negative
 * ids too. Source: elasticdl/python/common/hash_utils.py, int_to_id.
 * @throws {@link UsageError} (`usage`) when `psNum` is no count
 */
export function intToId(id: bigint | number, psNum: number): number {
  checkPsNum(psNum);
  const count = BigInt(psNum);
  const rest = BigInt(id) % count;
  return Number(rest < 0n ? rest + count : rest);
}

/**
 * What {@link intToId} gives for each of many ids. No bigint is made.
 * @throws {@link UsageError} (`usage`) when `psNum` is no count
 */
export function partitionIds(ids: BigInt64Array, psNum: number): Uint32Array {
  checkPsNum(psNum);
  const words = wordsOf(ids);
  const owners = new Uint32Array(ids.length);
  if ((psNum & (psNum - 1)) === 0) {
    // In two's complement the low bits are the floor modulo, whatever the sign.
    for (let i = 0; i < owners.length; i++) owners[i] = (words[2 * i] as number) & (psNum - 1);
    return owners;
  }
  const highFactor = 2 ** 32 % psNum;
  for (let i = 0; i < owners.length; i++) {
    const high = ((words[2 * i + 1] as number) | 0) % psNum;
    // With at most 2^20 servers all of this stays below 2^53.
    owners[i] = ((high < 0 ? high + psNum : high) * highFactor + (words[2 * i] as number)) % psNum;
  }
  return owners;
}

/** 64-bit numbers as pairs of 32-bit words, low word first. */
export function wordsOf(ids: BigInt64Array): Uint32Array {
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length * 2);
}

/** Refuses what is no number of parameter servers. @throws {@link UsageError} (`usage`) */
export function checkPsNum(psNum: number): void {
  if (Number.isInteger(psNum) && psNum >= 1 && psNum <= MAX_PARAMETER_SERVERS) return;
  throw new UsageError("usage", "number of parameter servers", {
    expected: `1 to ${MAX_PARAMETER_SERVERS}`,
    actual: psNum,
  });
}

function bytesToId(name: Uint8Array, psNum: number): number {
  checkPsNum(psNum);
  let rest = 0;
  for (const byte of sha256(name)) rest = ((rest * 32 + (byte >> 4)) * 32 + (byte & 15)) % psNum;
  return rest;
}
