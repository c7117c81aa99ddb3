// Runs every benchmark. Figures are ratios within one run; machines differ.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

for (const name of ["split-merge", "checkpoints", "parameter-server"]) {
  const script = fileURLToPath(new URL(`./${name}.mjs`, import.meta.url));
  const { status } = spawnSync(process.execPath, [script, ...process.argv.slice(2)], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
