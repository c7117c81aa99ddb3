// Makes a Python environment with what the benchmarks compare with: safetensors, and on request TensorFlow, which is large.
//
// node bench/setup-peers.mjs [--tensorflow]
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { tensorflow: { type: "boolean", default: false } } });
const venv = fileURLToPath(new URL("../.cache/peers", import.meta.url));
const packages = ["safetensors==0.8.0", "numpy<2.1", ...(values.tensorflow ? ["tensorflow-cpu==2.18.1"] : [])];
const run = (command, args) => execFileSync(command, args, { stdio: "inherit" });
run("python3", ["-m", "venv", venv]);
run(`${venv}/bin/python`, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
console.log(`${venv}: ${packages.join(", ")}`);
