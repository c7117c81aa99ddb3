/**
 * FarmHash's Fingerprint64 of 65 bytes and more, by which TensorFlow knows the parts of a SavedModel.
 * Source: the published definition of FarmHash (google/farmhash, farmhash.h, farmhashna::Hash64).
 */

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const MASK = (1n << 64n) - 1n;
const SEED = 81n;
/** What is hashed at a time. */
const BLOCK_BYTES = 64;

type Pair = readonly [first: bigint, second: bigint];

/** Products and sums are taken modulo 2^64. */
const wrap = (value: bigint): bigint => value & MASK;
const shiftMix = (value: bigint): bigint => value ^ (value >> 47n);

function rotate(value: bigint, shift: bigint): bigint {
  return wrap((value >> shift) | (value << (64n - shift)));
}

function hashPair(u: bigint, v: bigint, multiplier: bigint): bigint {
  const a = shiftMix(wrap((u ^ v) * multiplier));
  return wrap(shiftMix(wrap((v ^ a) * multiplier)) * multiplier);
}

/** The state between two blocks. */
interface State {
  x: bigint;
  y: bigint;
  z: bigint;
  v: Pair;
  w: Pair;
}

/**
 * The fingerprint of `bytes`, an unsigned 64-bit number; undefined below 65 bytes, for which FarmHash has other rules: no
 * file that is fingerprinted here is so short.
 */
export function fingerprint64(bytes: Uint8Array): bigint | undefined {
  const { length } = bytes;
  if (length <= BLOCK_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  const y = wrap(SEED * K1 + 113n);
  const state: State = {
    x: wrap(SEED * K2 + view.getBigUint64(0, true)),
    y,
    z: wrap(shiftMix(wrap(y * K2 + 113n)) * K2),
    v: [0n, 0n],
    w: [0n, 0n],
  };
  const end = Math.floor((length - 1) / BLOCK_BYTES) * BLOCK_BYTES;
  for (let at = 0; at < end; at += BLOCK_BYTES) mix(state, view, at, { multiplier: K1, weight: 1n });
  // The last block reaches back, so that it is whole.
  const multiplier = wrap(K1 + ((state.z & 0xffn) << 1n));
  const rest = BigInt((length - 1) % BLOCK_BYTES);
  const first = wrap(state.w[0] + rest);
  const sum = wrap(state.v[0] + first);
  state.v = [sum, state.v[1]];
  state.w = [wrap(first + sum), state.w[1]];
  mix(state, view, length - BLOCK_BYTES, { multiplier, weight: 9n });
  const { x, z, v, w } = state;
  const left = wrap(hashPair(v[0], w[0], multiplier) + shiftMix(state.y) * K0 + z);
  return hashPair(left, wrap(hashPair(v[1], w[1], multiplier) + x), multiplier);
}

function mix(
  state: State,
  view: DataView,
  at: number,
  { multiplier, weight }: { multiplier: bigint; weight: bigint },
): void {
  const { v, w } = state;
  const word = (offset: number) => view.getBigUint64(at + offset, true);
  const x = wrap(rotate(wrap(state.x + state.y + v[0] + word(8)), 37n) * multiplier) ^ wrap(w[1] * weight);
  const rotated = wrap(rotate(wrap(state.y + v[1] + word(48)), 42n) * multiplier);
  const y = wrap(rotated + v[0] * weight + word(40));
  const z = wrap(rotate(wrap(state.z + w[0]), 33n) * multiplier);
  state.v = hash32(view, at, [wrap(v[1] * multiplier), wrap(x + w[0])]);
  state.w = hash32(view, at + 32, [wrap(z + w[1]), wrap(y + word(16))]);
  state.x = z;
  state.y = y;
  state.z = x;
}

/** Mixes 32 bytes with two seeds. */
function hash32(view: DataView, at: number, [seedA, seedB]: Pair): Pair {
  const word = (offset: number) => view.getBigUint64(at + offset, true);
  const a = wrap(seedA + word(0));
  const sum = wrap(a + word(8) + word(16));
  const b = wrap(rotate(wrap(seedB + a + word(24)), 21n) + rotate(sum, 44n));
  return [wrap(sum + word(24)), wrap(b + a)];
}
