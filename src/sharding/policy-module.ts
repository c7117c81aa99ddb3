import { UsageError } from "../errors.js";
import { checkCallback, type ShardingCallback } from "./sharding-callback.js";

/**
 * The callback of a module that somebody wrote: its default export is a callback, a class of one, or a function that
 * gives one. A class or function is given `options`.
 * @throws {@link UsageError} (`usage`) when it is none of these
 */
export async function policyFromModule(
  module: { readonly default?: unknown },
  file: string,
  options: Readonly<Record<string, unknown>> = {},
): Promise<ShardingCallback> {
  const exported = module.default;
  if (exported === undefined) {
    throw new UsageError("usage", "a sharding policy without default export", { file, hint: HINT });
  }
  try {
    const policy: unknown = await makePolicy(exported, options);
    checkCallback(policy);
    return policy;
  } catch (cause) {
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError("usage", `default export: ${what}`, { file, cause, hint: HINT });
  }
}

function makePolicy(exported: unknown, options: object): unknown {
  if (isConstructor(exported)) return new exported(options);
  return typeof exported === "function" ? exported(options) : exported;
}

const HINT = "Write `export default class extends ShardingCallback`, with description and call(tensors).";

/** Whether a function is a class of callbacks; `call` of every function is not on its prototype object. */
function isConstructor(value: unknown): value is new (options: object) => unknown {
  return typeof value === "function" && typeof value.prototype?.call === "function";
}
