import { describe, expect, it } from "vitest";
import {
  decodeFloat8E4m3fn,
  decodeFloat8E4m3fnuz,
  decodeFloat8E5m2,
  decodeFloat8E5m2fnuz,
  decodeFloat8E8m0fnu,
} from "../../src/codecs/small-floats.js";
import { readExpected } from "../support/fixtures.js";

// What ml_dtypes makes of each byte.
const { float8 } = readExpected<{ float8: Record<string, string[]> }>("safetensors/expected.json");

const DECODERS: Record<string, (bits: number) => number> = {
  float8_e4m3fn: decodeFloat8E4m3fn,
  float8_e4m3fnuz: decodeFloat8E4m3fnuz,
  float8_e5m2: decodeFloat8E5m2,
  float8_e5m2fnuz: decodeFloat8E5m2fnuz,
  float8_e8m0fnu: decodeFloat8E8m0fnu,
};

describe("floats of one byte", () => {
  it.each(Object.entries(DECODERS))("decodes every %s as ml_dtypes does", (name, decode) => {
    const expected = float8[name]?.map((text) => Number(text.replace("inf", "Infinity").replace("nan", "NaN")));
    expect(Array.from({ length: 256 }, (_, bits) => decode(bits))).toEqual(expected);
  });
});
