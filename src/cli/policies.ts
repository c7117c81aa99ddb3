import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { NotFoundError, UsageError } from "../errors.js";
import type { ShardingCallback } from "../sharding/index.js";

/** Policies that have a name on the command line. */
const NAMED_POLICIES = "by-task, by-device, max-shard-size";

/**
 * The sharding callback that a command was told: by name, or by the path of a module whose default export is one.
 * A size alone means `max-shard-size`; neither means none.
 * @throws {@link UsageError} (`usage`), {@link NotFoundError} (`not-found`)
 */
export async function loadPolicy(name?: string, maxShardSize?: number): Promise<ShardingCallback | undefined> {
  const sharding = await import("../sharding/index.js");
  const policy = name ?? (maxShardSize === undefined ? undefined : "max-shard-size");
  if (policy === undefined) return undefined;
  if (policy === "max-shard-size") {
    if (maxShardSize !== undefined) return new sharding.MaxShardSizePolicy({ maxShardSize });
    throw new UsageError("usage", "the policy max-shard-size needs --max-shard-size");
  }
  if (/\.[cm]?js$/.test(policy)) return loadModule(policy, maxShardSize);
  if (maxShardSize !== undefined) {
    throw new UsageError("usage", `the policy ${policy} takes no --max-shard-size`);
  }
  if (policy === "by-task") return new sharding.ShardByTaskPolicy();
  if (policy === "by-device") return new sharding.ShardByDevicePolicy();
  throw new UsageError("usage", `no policy "${policy}"`, {
    expected: `${NAMED_POLICIES}, or the path of a .js file`,
  });
}

async function loadModule(path: string, maxShardSize: number | undefined): Promise<ShardingCallback> {
  const { policyFromModule } = await import("../sharding/index.js");
  const url = pathToFileURL(resolve(path)).href;
  let module: { readonly default?: unknown };
  try {
    module = await import(url);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ERR_MODULE_NOT_FOUND" && message.includes(resolve(path))) {
      throw new NotFoundError("not-found", "no such policy", { file: path, cause });
    }
    throw new UsageError("usage", `the policy cannot be loaded: ${message}`, { file: path, cause });
  }
  return policyFromModule(module, path, maxShardSize === undefined ? {} : { maxShardSize });
}
