/**
 * HighwayHash-64, the hash of Riegeli's headers and chunk data. This form is plain JavaScript, on 32-bit halves; it is
 * used for headers, which are a few bytes, and wherever {@link loadHasher} finds nothing faster.
 * Source: the published definition of HighwayHash (google/highwayhash, highwayhash/c/highwayhash.c).
 */

/** A hash that takes its bytes in pieces. */
export interface Hasher64 {
  /** Adds bytes. */
  update(bytes: Uint8Array): void;
  /** Ends the hash and gives it as an unsigned 64-bit number. The hasher cannot be used again. */
  digest(): bigint;
}

// Lanes as pairs of 32-bit halves, low first.
const INIT_MUL0 = [0xfe4cce2f, 0xdbe6d5d5, 0x299f31d0, 0xa4093822, 0x03707344, 0x13198a2e, 0x85a308d3, 0x243f6a88];
const INIT_MUL1 = [0xcb0ef593, 0x3bd39e10, 0xb5f18a8c, 0xc0acf169, 0x34e90c6c, 0xbe5466cf, 0x38d01377, 0x452821e6];

/** HighwayHash-64 in plain JavaScript. */
export class PortableHasher implements Hasher64 {
  private readonly v0 = new Uint32Array(8);
  private readonly v1 = new Uint32Array(8);
  private readonly mul0 = new Uint32Array(8);
  private readonly mul1 = new Uint32Array(8);
  private readonly pending = new Uint8Array(32);
  private readonly lanes = new Uint32Array(8);
  private readonly lastPacket = new Uint8Array(32);
  private pendingLength = 0;

  private readonly key = new Uint32Array(8);

  /** Starts a hash with a key of 32 bytes: four little-endian 64-bit words. */
  constructor(key: Uint8Array) {
    const view = new DataView(key.buffer, key.byteOffset, 32);
    for (let i = 0; i < 8; i++) this.key[i] = view.getUint32(i * 4, true);
    this.restart();
  }

  /** Starts another hash with the same key. */
  restart(): void {
    const { v0, v1, mul0, mul1, key } = this;
    this.pendingLength = 0;
    mul0.set(INIT_MUL0);
    mul1.set(INIT_MUL1);
    for (let i = 0; i < 8; i++) {
      v0[i] = (mul0[i] as number) ^ (key[i] as number);
      v1[i] = (mul1[i] as number) ^ (key[i ^ 1] as number);
    }
  }

  /** See {@link Hasher64.update}. */
  update(bytes: Uint8Array): void {
    let at = 0;
    if (this.pendingLength > 0) {
      at = Math.min(32 - this.pendingLength, bytes.length);
      this.pending.set(bytes.subarray(0, at), this.pendingLength);
      this.pendingLength += at;
      if (this.pendingLength < 32) return;
      this.packet(this.pending, 0);
      this.pendingLength = 0;
    }
    for (; at + 32 <= bytes.length; at += 32) this.packet(bytes, at);
    this.pending.set(bytes.subarray(at));
    this.pendingLength = bytes.length - at;
  }

  /** See {@link Hasher64.digest}. */
  digest(): bigint {
    this.finish();
    return (BigInt(this.lanes[1] as number) << 32n) | BigInt(this.lanes[0] as number);
  }

  /** Ends the hash and writes it, little-endian, to 8 bytes of `target`; quicker than {@link PortableHasher.digest}. */
  digestInto(target: Uint8Array, offset: number): void {
    this.finish();
    for (let i = 0; i < 8; i++) target[offset + i] = (this.lanes[i >> 2] as number) >>> ((i & 3) * 8);
  }

  /** Leaves the hash in the first lane, low half first. */
  private finish(): void {
    if (this.pendingLength > 0) this.remainder(this.pending, this.pendingLength);
    for (let round = 0; round < 4; round++) this.permuteAndUpdate();
    const { v0, v1, mul0, mul1, lanes } = this;
    const low = (v0[0] as number) + (v1[0] as number) + (mul0[0] as number) + (mul1[0] as number);
    lanes[0] = low;
    lanes[1] =
      (v0[1] as number) + (v1[1] as number) + (mul0[1] as number) + (mul1[1] as number) + Math.floor(low / 2 ** 32);
  }

  private packet(bytes: Uint8Array, at: number): void {
    const { lanes } = this;
    for (let i = 0, p = at; i < 8; i++, p += 4) {
      lanes[i] =
        (bytes[p] as number) |
        ((bytes[p + 1] as number) << 8) |
        ((bytes[p + 2] as number) << 16) |
        ((bytes[p + 3] as number) << 24);
    }
    this.absorb();
  }

  /** Mixes `lanes` in. Long and flat: this is the inner loop. */
  private absorb(): void {
    const { v0, v1, mul0, mul1, lanes } = this;
    for (let i = 0; i < 8; i += 2) {
      const j = i + 1;
      // v1 += mul0 + lane
      let low = (v1[i] as number) + (mul0[i] as number) + (lanes[i] as number);
      v1[j] = (v1[j] as number) + (mul0[j] as number) + (lanes[j] as number) + ((low / 0x100000000) | 0);
      v1[i] = low;
      // mul0 ^= low32(v1) * high32(v0)
      let a = v1[i] as number;
      let b = v0[j] as number;
      mul0[i] = (mul0[i] as number) ^ Math.imul(a, b);
      mul0[j] = (mul0[j] as number) ^ multiplyHigh(a, b);
      // v0 += mul1
      low = (v0[i] as number) + (mul1[i] as number);
      v0[j] = (v0[j] as number) + (mul1[j] as number) + ((low / 0x100000000) | 0);
      v0[i] = low;
      // mul1 ^= low32(v0) * high32(v1)
      a = v0[i] as number;
      b = v1[j] as number;
      mul1[i] = (mul1[i] as number) ^ Math.imul(a, b);
      mul1[j] = (mul1[j] as number) ^ multiplyHigh(a, b);
    }
    addZippered(v1, v0, 0);
    addZippered(v1, v0, 4);
    addZippered(v0, v1, 0);
    addZippered(v0, v1, 4);
  }

  private remainder(rest: Uint8Array, length: number): void {
    const { v0, v1 } = this;
    for (let i = 0; i < 8; i += 2) {
      const low = (v0[i] as number) + length;
      v0[i + 1] = (v0[i + 1] as number) + length + (low > 0xffffffff ? 1 : 0);
      v0[i] = low;
    }
    for (let i = 0; i < 8; i++) v1[i] = ((v1[i] as number) << length) | ((v1[i] as number) >>> (32 - length));
    const packet = this.lastPacket;
    packet.fill(0);
    const whole = length & ~3;
    packet.set(rest.subarray(0, whole));
    const tail = length & 3;
    if (length & 16) {
      packet.set(rest.subarray(length - 4, length), 28);
    } else if (tail > 0) {
      packet[16] = rest[whole] as number;
      packet[17] = rest[whole + (tail >> 1)] as number;
      packet[18] = rest[whole + tail - 1] as number;
    }
    this.packet(packet, 0);
  }

  private permuteAndUpdate(): void {
    const { v0, lanes } = this;
    for (let i = 0; i < 8; i++) lanes[i] = v0[((i + 4) & 7) ^ 1] as number;
    this.absorb();
  }
}

/** The upper half of the 64-bit product of two unsigned 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  const carry = a0 * b1 + (middle & 0xffff);
  return a1 * b1 + Math.floor(middle / 0x10000) + Math.floor(carry / 0x10000);
}

/** target lanes += the byte permutation ("zipper merge") of source lanes; one pair of lanes, four halves from `at`. */
function addZippered(source: Uint32Array, target: Uint32Array, at: number): void {
  const s0 = source[at] as number;
  const s1 = source[at + 1] as number;
  const s2 = source[at + 2] as number;
  const s3 = source[at + 3] as number;
  // The 16 bytes of a pair: s0 holds 0..3, s1 4..7, s2 8..11, s3 12..15.
  // Low lane takes bytes 3,12,2,5,14,1,15,0; high lane 11,4,10,13,9,6,8,7.
  const z0 = (s0 >>> 24) | ((s3 & 0xff) << 8) | (s0 & 0xff0000) | ((s1 & 0xff00) << 16);
  const z1 = ((s3 >>> 16) & 0xff) | (s0 & 0xff00) | ((s3 >>> 24) << 16) | (s0 << 24);
  const z2 = (s2 >>> 24) | ((s1 & 0xff) << 8) | (s2 & 0xff0000) | ((s3 & 0xff00) << 16);
  const z3 = ((s2 >>> 8) & 0xff) | ((s1 >>> 8) & 0xff00) | ((s2 & 0xff) << 16) | (s1 & 0xff000000);
  let low = (target[at] as number) + (z0 >>> 0);
  target[at + 1] = (target[at + 1] as number) + (z1 >>> 0) + (low > 0xffffffff ? 1 : 0);
  target[at] = low;
  low = (target[at + 2] as number) + (z2 >>> 0);
  target[at + 3] = (target[at + 3] as number) + (z3 >>> 0) + (low > 0xffffffff ? 1 : 0);
  target[at + 2] = low;
}
