import { UsageError } from "../../errors.js";
import { formatShape, type Shape } from "../../tensor/shape.js";
import type { Place, TemplateTensors } from "../format.js";
import { matchWeights, readObjectGraph } from "./match-weights.js";
import { locateModelJson } from "./model.js";
import { readModelJson, type WeightSpec } from "./model-json.js";

/** Names in the message of an error. */
const SHOWN_NAMES = 10;

/**
 * The names that tensors have in the model of a template; see `Format.fitTemplate`. The state of its optimizer may stay
 * away.
 * @throws {@link UsageError} (`not-consumed`, `tensor-mismatch`)
 */
export async function fitTfjsTemplate(
  { files, path }: Place,
  { tensors, source }: TemplateTensors,
): Promise<ReadonlyMap<string, string>> {
  const model = await readModelJson(files, await locateModelJson(files, path));
  const candidates = new Map(tensors.map(({ key, sourceKey }) => [key, sourceKey]));
  const { keys, missing } = matchWeights(model, { keys: candidates, graph: await readObjectGraph(source) });
  checkMissing(missing, model.path);
  const bySourceKey = new Map(tensors.map((tensor) => [tensor.sourceKey, tensor]));
  const specs = new Map(model.groups.flatMap(({ weights }) => weights.map((spec) => [spec.name, spec] as const)));
  const names = new Map<string, string>();
  for (const [name, sourceKey] of keys) {
    const [spec, tensor] = [specs.get(name), bySourceKey.get(sourceKey)];
    if (spec === undefined || tensor === undefined) continue;
    checkFit(spec, tensor, model.path);
    names.set(tensor.key, name);
  }
  return names;
}

/** Makes sure that nothing is missing but the state of an optimizer. @throws {@link UsageError} (`not-consumed`) */
export function checkMissing(missing: readonly WeightSpec[], file: string): void {
  const names = missing.filter(({ group }) => group !== "optimizer").map(({ name }) => name);
  if (names.length === 0) return;
  const shown = names.slice(0, SHOWN_NAMES).join(", ");
  throw new UsageError("not-consumed", `${names.length} weights of the model have no tensor`, {
    file,
    actual: names.length > SHOWN_NAMES ? `${shown} and ${names.length - SHOWN_NAMES} more` : shown,
    hint: "Give the tensors the names of the weights with --rename.",
  });
}

/** Makes sure that a tensor can be a weight. @throws {@link UsageError} (`tensor-mismatch`) */
export function checkFit(
  spec: WeightSpec,
  tensor: { readonly key: string; readonly dtype: string; readonly shape: Shape },
  file: string,
): void {
  const form = ({ dtype, shape }: { readonly dtype: string; readonly shape: Shape }) =>
    `${dtype} ${formatShape(shape)}`;
  if (form(spec) === form(tensor)) return;
  throw new UsageError("tensor-mismatch", `"${tensor.key}" does not fit the weight "${spec.name}"`, {
    file,
    expected: form(spec),
    actual: form(tensor),
  });
}
