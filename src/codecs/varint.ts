/** Bytes that a varint of `value` takes, 1 to 8, for whole numbers up to 2^53 - 1. */
export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length++;
  return length;
}

/** Writes a varint (protobuf's base-128 form, least significant group first) and gives the offset behind it. */
export function writeVarint(target: Uint8Array, offset: number, value: number): number {
  let rest = value;
  let at = offset;
  while (rest >= 128) {
    target[at++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  target[at++] = rest;
  return at;
}

/** A varint of `value`, a whole number up to 2^53 - 1. */
export function encodeVarint(value: number): Uint8Array {
  const bytes = new Uint8Array(varintLength(value));
  writeVarint(bytes, 0, value);
  return bytes;
}

/** A varint of `value`, taken as an unsigned 64-bit number. */
export function encodeVarint64(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 128n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
