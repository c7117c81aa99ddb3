import type { DType } from "../../tensor/dtype.js";
import { WEIGHT_DTYPES } from "./model-json.js";

/** Why TF.js cannot hold a tensor, or undefined when it can. */
export function refusedWeight({ dtype }: { readonly dtype: DType }): string | undefined {
  if (WEIGHT_DTYPES.some((one) => one === dtype)) return undefined;
  return `TF.js has no ${dtype}, only ${WEIGHT_DTYPES.join(", ")}`;
}
