// How long split, merge, verify and a look take beside a plain read and write of the same bytes, and in how much memory.
//
// node bench/split-merge.mjs [--bytes 450e6] [--rounds 5] [--dir /dev/shm] [--compression none,auto,…] [--json FILE]
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeModel } from "./support/make-model.mjs";
import { measure, printTable } from "./support/measure.mjs";

const { values: options } = parseArgs({
  options: {
    bytes: { type: "string", default: "450e6" },
    rounds: { type: "string", default: "5" },
    dir: { type: "string", default: existsSync("/dev/shm") ? "/dev/shm" : tmpdir() },
    compression: { type: "string", default: "none,auto" },
    json: { type: "string" },
  },
});

const bytes = Number(options.bytes);
const rounds = Number(options.rounds);
if (!(bytes >= 1e6 && Number.isInteger(rounds) && rounds >= 1)) {
  console.error("--bytes is a number from 1e6 on, --rounds a whole number from 1 on");
  process.exit(2);
}
/** A small model is cut too. */
const chunkSize = String(Math.floor(Math.min(100e6, bytes / 4)));

const folder = join(options.dir, `cairn-bench-${process.pid}`);
mkdirSync(folder, { recursive: true });
const at = (name) => join(folder, name);
const pb = at("model.pb");

try {
  console.log(`making a model of ${bytes / 1e6} MB in ${options.dir} …`);
  await makeModel(pb, { bytes });
  const results = [];
  for (const compression of options.compression.split(",")) {
    const cpb = at(`split-${compression}.cpb`);
    const back = at("back.pb");
    const jobs = [
      { name: "node", job: "node" },
      { name: "cp", job: "cp", source: pb, output: at("copy.pb") },
      { name: "plain", job: "plain", source: pb, output: at("copy.pb") },
      { name: "split", job: "split", source: pb, output: cpb, option: compression, chunkSize },
      { name: "merge", job: "merge", source: cpb, output: back },
      { name: "verify", job: "verify", source: cpb },
      { name: "signatures", job: "signatures", source: cpb },
      { name: "inspect", job: "inspect", source: cpb },
    ];
    const medians = measure(jobs, rounds);
    const { node, cp, plain } = medians;
    const rows = ["split", "merge", "verify", "signatures", "inspect"].map((work) => {
      const { ms, minMs, cpuMs, peakMB } = medians[work];
      const isCopy = work === "split" || work === "merge";
      return {
        work,
        "process ms": ms.toFixed(0),
        "best ms": minMs.toFixed(0),
        "less start ms": (ms - node.ms).toFixed(0),
        "cpu ms": cpuMs.toFixed(0),
        "/ plain": isCopy ? ((ms - node.ms) / (plain.ms - node.ms)).toFixed(2) : "",
        "/ cp": isCopy ? ((ms - node.ms) / cp.ms).toFixed(2) : "",
        "MB beyond node": (peakMB - node.peakMB).toFixed(0),
      };
    });
    const stored = statSync(cpb).size / statSync(pb).size;
    console.log(
      `\ncompression ${compression}: stored ${(stored * 100).toFixed(1)} %; node ${node.ms.toFixed(0)} ms, cp ${cp.ms.toFixed(0)} ms, plain ${(plain.ms - node.ms).toFixed(0)} ms less start`,
    );
    printTable(rows);
    results.push({ compression, bytes: statSync(pb).size, stored, medians });
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
