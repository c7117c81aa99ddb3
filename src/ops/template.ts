import { UsageError } from "../errors.js";
import type { Format, Place } from "../formats/format.js";
import { ShardableTensor } from "../sharding/index.js";
import type { TensorSource } from "../tensor/tensor-source.js";
import { type ChosenTensors, cannotHold, type SkippedTensor } from "./choose-tensors.js";

/** @throws {@link UsageError} (`usage`) when a template is missing, or the format has no use for one */
export function checkTemplate(format: Format, file: string, template: Place | undefined): void {
  if (template === undefined && format.needsTemplate) {
    throw new UsageError("usage", `${format.id} is written with a template`, {
      file,
      hint: "Name a model of the same structure with --template: all but the values is copied from it.",
    });
  }
  if (template !== undefined && format.fitTemplate === undefined) {
    throw new UsageError("usage", `${format.id} takes no template`, { file, hint: "Leave --template away." });
  }
}

/** What {@link fitTemplate} goes by. */
export interface FitOptions {
  readonly template?: Place | undefined;
  readonly skipUnsupported?: boolean | undefined;
}

/**
 * Gives tensors the names that they have in a template, and leaves away those that it has no place for.
 * @throws PlanError (`invalid-plan`) for one that it has no place for, unless these may be left away
 */
export async function fitTemplate(
  chosen: ChosenTensors,
  source: TensorSource,
  format: Format,
  { template, skipUnsupported }: FitOptions,
): Promise<ChosenTensors> {
  if (template === undefined || format.fitTemplate === undefined) return chosen;
  const known = chosen.tensors.map(({ checkpointKey, tensor: { dtype, shape } }, i) => {
    return { key: checkpointKey, sourceKey: chosen.sourceKeys[i] as string, dtype, shape };
  });
  const names = await format.fitTemplate(template, { tensors: known, source });
  const tensors: ShardableTensor[] = [];
  const left: SkippedTensor[] = [];
  for (const { checkpointKey, tensor } of chosen.tensors) {
    const name = names.get(checkpointKey);
    if (name !== undefined) tensors.push(new ShardableTensor({ checkpointKey: name, tensor }));
    else left.push({ key: checkpointKey, reason: "the template has no place for it" });
  }
  if (left.length > 0 && !skipUnsupported) throw cannotHold(format, left);
  return { ...chosen, tensors, skipped: [...chosen.skipped, ...left] };
}
