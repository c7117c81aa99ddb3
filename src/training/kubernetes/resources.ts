import { UsageError } from "../../errors.js";
import { parseSettings } from "./volumes.js";

// Kubernetes, resource.Quantity, without exponents.
const QUANTITY = /^\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/;

/** Amounts of what a container takes, by name. */
export type Amounts = Readonly<Record<string, string>>;

/** Checks an amount such as `500m`, `2` or `10Gi`. @throws {@link UsageError} (`usage`) */
export function checkQuantity(text: string, flag: string): string {
  if (QUANTITY.test(text)) return text;
  throw new UsageError("usage", `${flag}: an amount is as 500m, 2 or 10Gi`, { actual: text });
}

/**
 * Parses amounts such as `cpu=1,memory=4096Mi`; `gpu` stands for those of NVIDIA, as in ElasticDL.
 * @throws {@link UsageError} (`usage`)
 */
export function parseResources(text: string, flag: string): Amounts {
  const isKnown = (key: string) => /^(cpu|memory|gpu|ephemeral-storage|disk|[a-z0-9.-]+\/[\w.-]+)$/.test(key);
  // elasticdl_client/common/k8s_resource.py: disk and gpu have other names in Kubernetes.
  const names: Record<string, string> = { gpu: "nvidia.com/gpu", disk: "ephemeral-storage" };
  const entries = Object.entries(parseSettings(text, flag, isKnown));
  return Object.fromEntries(entries.map(([key, amount]) => [names[key] ?? key, checkQuantity(amount, flag)]));
}

/** Parses variables of the environment, as `A=1,B=two`. @throws {@link UsageError} (`usage`) */
export function parseEnvs(text: string, flag: string): { readonly name: string; readonly value: string }[] {
  const settings = parseSettings(text, flag, (key) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key));
  return Object.entries(settings).map(([name, value]) => ({ name, value }));
}
