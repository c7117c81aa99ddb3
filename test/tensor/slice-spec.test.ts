import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { formatSliceSpec, parseSliceSpec } from "../../src/tensor/slice-spec.js";

const extent = fc
  .tuple(fc.nat(1000), fc.integer({ min: 1, max: 1000 }), fc.nat(1000))
  .map(([start, length, rest]) => ({ size: start + length + rest, start, end: start + length }));

describe("slice specs", () => {
  it("come back from their text", () => {
    fc.assert(
      fc.property(fc.array(extent, { minLength: 1, maxLength: 4 }), (extents) => {
        const slice = {
          fullShape: extents.map(({ size }) => size),
          region: extents.map(({ start, end }) => ({ start, end })),
        };
        expect(parseSliceSpec(formatSliceSpec(slice.fullShape, slice.region))).toEqual(slice);
      }),
    );
  });

  it("are written as TensorFlow writes them", () => {
    const region = [
      { start: 2, end: 4 },
      { start: 0, end: 5 },
    ];
    expect(formatSliceSpec([8, 5], region)).toBe("8 5 2,2:0,5");
    expect(formatSliceSpec([], [])).toBe("");
  });

  it("take - for a whole dimension and white space around", () => {
    expect(parseSliceSpec(" 8 5 2,2:- \n")).toEqual({
      fullShape: [8, 5],
      region: [
        { start: 2, end: 4 },
        { start: 0, end: 5 },
      ],
    });
  });

  it.each(["", " ", "\t\n"])("are of a whole tensor when empty: %j", (text) => {
    expect(parseSliceSpec(text)).toBeUndefined();
  });

  it("may take nothing of a dimension that has nothing", () => {
    expect(parseSliceSpec("0 3 0,0:0,3")?.region[0]).toEqual({ start: 0, end: 0 });
  });

  it.each([
    ["no extents", "8"],
    ["fewer extents than dimensions", "8 5 0,2"],
    ["more extents than dimensions", "8 0,2:0,1"],
    ["two spaces", "8  0,2"],
    ["a sign", "8 -1,2"],
    ["a fraction", "8 0,1.5"],
    ["hexadecimal digits", "8 0,0x2"],
    ["an extent without length", "8 0"],
    ["an extent of three numbers", "8 0,1,2"],
    ["an extent past the end", "8 7,2"],
    ["a length of nothing", "8 1,0"],
    ["numbers no double holds", "9007199254740993 0,1"],
    ["more elements than there can be", "9007199254740991 9007199254740991 0,1:0,1"],
    ["more digits than numbers have", `${"9".repeat(400)} 0,1`],
    ["more dimensions than tensors have", `${"1 ".repeat(255)}${Array(255).fill("-").join(":")}`],
  ])("are refused with %s", (_, text) => {
    let error: unknown;
    try {
      parseSliceSpec(text);
    } catch (caught) {
      error = caught;
    }
    expect(isCairnError(error, "slice-spec")).toBe(true);
  });

  it("are read or refused, whatever the text", () => {
    const text = fc.string({ unit: fc.constantFrom("0", "1", "9", " ", ",", ":", "-", "x"), maxLength: 20 });
    fc.assert(
      fc.property(text, (spec) => {
        try {
          const slice = parseSliceSpec(spec);
          if (slice !== undefined)
            expect(parseSliceSpec(formatSliceSpec(slice.fullShape, slice.region))).toEqual(slice);
        } catch (error) {
          if (!isCairnError(error, "slice-spec")) throw error;
        }
      }),
      { numRuns: 500 },
    );
  });
});
