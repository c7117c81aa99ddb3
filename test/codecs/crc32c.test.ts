import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { combineCrc, crc32c, maskCrc, portableCrc32c, prepareCrc32c, unmaskCrc } from "../../src/codecs/crc32c.js";

const text = (value: string) => new TextEncoder().encode(value);
const filled = (length: number, at: (i: number) => number) => Uint8Array.from({ length }, (_, i) => at(i));

// Source: RFC 3720, appendix B.4 (its checksums are printed as bytes, least significant first), and the check value of
// CRC-32C in the "Catalogue of parametrised CRC algorithms".
const KNOWN: [string, Uint8Array, number][] = [
  ["123456789", text("123456789"), 0xe3069283],
  ["nothing", new Uint8Array(0), 0],
  ["32 zeros", new Uint8Array(32), 0x8a9136aa],
  ["32 ones", filled(32, () => 0xff), 0x62a8ab43],
  ["counting up", filled(32, (i) => i), 0x46dd794e],
  ["counting down", filled(32, (i) => 31 - i), 0x113fdb5c],
];

describe("CRC-32C", () => {
  it.each(KNOWN)("gives the published checksum of %s", (_, bytes, crc) => {
    expect(portableCrc32c(bytes)).toBe(crc);
    expect(crc32c(bytes)).toBe(crc);
  });

  it("is the same natively and in JavaScript, in one call and in several", async () => {
    await prepareCrc32c(2 ** 20);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2000 }), fc.nat(2000), (bytes, at) => {
        const whole = portableCrc32c(bytes);
        expect(crc32c(bytes)).toBe(whole);
        expect(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at)))).toBe(whole);
        expect(portableCrc32c(bytes.subarray(at), portableCrc32c(bytes.subarray(0, at)))).toBe(whole);
      }),
    );
  });

  it("can be combined from the checksums of parts", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (a, b) => {
        const joined = crc32c(b, crc32c(a));
        expect(combineCrc(crc32c(a), crc32c(b), b.length)).toBe(joined);
      }),
    );
  });

  it("is masked as TensorFlow does it, and unmasked again", () => {
    // The masked checksum of nothing, which is stored for every empty tensor.
    expect(maskCrc(0)).toBe(0xa282ead8);
    // Source: tensorflow/core/lib/hash/crc32c_test.cc masks "foo" to something else than itself, and back.
    fc.assert(fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (crc) => unmaskCrc(maskCrc(crc)) === crc));
    expect(maskCrc(portableCrc32c(text("foo")))).not.toBe(portableCrc32c(text("foo")));
  });
});
