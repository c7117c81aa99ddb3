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
  let policy: unknown = exported;
  if (isConstructor(exported)) policy = new exported(options);
  else if (typeof exported === "function") policy = await exported(options);
  try {
    checkCallback(policy);
  } catch (cause) {
    const what = cause instanceof UsageError ? cause.message : String(cause);
    throw new UsageError("usage", `default export: ${what}`, { file, cause, hint: HINT });
  }
  return policy;
}

const HINT = "Write `export default class extends ShardingCallback`, with description and call(tensors).";

/** Whether a function is a class of callbacks; `call` of every function is not on its prototype object. */
function isConstructor(value: unknown): value is new (options: object) => unknown {
  return typeof value === "function" && typeof value.prototype?.call === "function";
}
