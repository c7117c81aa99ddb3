// The Python libraries that benchmarks compare with, where there is an environment that has them.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
/** That of `bench/setup-peers.mjs`, and that of the interoperability tests. */
const PYTHONS = [at("../../.cache/peers/bin/python"), at("../../.cache/interop/venv/bin/python")];
const SCRIPT = at("./peers.py");

/** The Python that has a library, or undefined. */
export function pythonWith(library) {
  const has = (python) => {
    const code = `import importlib.util, sys; sys.exit(importlib.util.find_spec("${library}") is None)`;
    return existsSync(python) && spawnSync(python, ["-c", code]).status === 0;
  };
  return PYTHONS.find(has);
}

/** Runs one job of a library and gives what it took. */
export function runPeer(python, library, { job, path, count, bytes }) {
  const args = [SCRIPT, library, job, path, String(count), String(bytes)];
  const { status, stderr } = spawnSync(python, args, { encoding: "utf8", maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${library} ${job} failed with ${status}: ${stderr}`);
  return JSON.parse(stderr.slice(stderr.lastIndexOf("{")));
}
