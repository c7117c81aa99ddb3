import type { DType } from "../../tensor/dtype.js";
import { wholeRegion } from "../../tensor/region.js";
import type { LoadedIndex, PlacedEntry } from "./checkpoint-index.js";
import type { PlacedBoxEntry } from "./entry-sources.js";
import { encodeSliceKey } from "./ordered-code.js";
import { checkSlice, missingSlice } from "./stored-entry.js";
import { checkCoverage, checkOverlap, formatExtents, regionOfSlice } from "./tensor-slices.js";

/**
 * The slices of a tensor, which have been checked to be all of it.
 * @throws CorruptionError (`slice-coverage`, `bundle-entry`)
 */
export function slicesOf(index: LoadedIndex, placed: PlacedEntry, dtype: DType): PlacedBoxEntry[] {
  const { entry, place, rawKey } = placed;
  const boxes = entry.slices.map((extents) => {
    const region = regionOfSlice(extents, entry.shape, place);
    const slice = index.slices.get(encodeSliceKey(rawKey, extents));
    if (slice === undefined) throw missingSlice(placed, formatExtents(extents));
    return { region, entry: checkSlice(slice, placed, region, dtype) };
  });
  const regions = boxes.map(({ region }) => region);
  checkOverlap(regions, place);
  checkCoverage(regions, wholeRegion(entry.shape), entry.shape, place);
  return boxes;
}
