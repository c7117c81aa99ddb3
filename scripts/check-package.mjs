// Checks the package as it would be published: its contents, its types from every kind of consumer, its public API.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
let failed = 0;
for (const [name, command, args] of [
  ["publint", "npx", ["--no-install", "publint", "--strict"]],
  ["attw", "npx", ["--no-install", "attw", "--pack", ".", "--profile", "esm-only"]],
  ["api", process.execPath, ["scripts/api-report.mjs", "--check"]],
]) {
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8" });
  console.log(`${name}: ${result.status === 0 ? "passed" : "FAILED"}`);
  if (result.status === 0) continue;
  failed++;
  console.log(result.stdout + result.stderr);
}
process.exit(failed === 0 ? 0 : 1);
