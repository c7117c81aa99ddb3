// One job in a process of its own, so that memory and start are its own too. Prints what it took as JSON.
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";

const [, , job, source, output, option = "none", chunkSize = "100MB"] = process.argv;

const jobs = {
  /** Nothing: Node's own start and memory. */
  node: async () => {},

  /** A plain read and write of the same bytes. */
  plain: async () => {
    const from = openSync(source, "r");
    const to = openSync(output, "w");
    const buffer = Buffer.allocUnsafe(1 << 20);
    for (let count = readSync(from, buffer); count > 0; count = readSync(from, buffer)) writeSync(to, buffer, 0, count);
    closeSync(from);
    closeSync(to);
  },

  split: () =>
    cairn("split", source, output, "--max-chunk-size", chunkSize, "--compression", option, "--force", "--quiet"),
  merge: () => cairn("merge", source, output, "--force", "--quiet"),
  verify: () => cairn("verify", source, "--quiet"),
  inspect: () => cairn("inspect", source, "--json"),

  reshard: () => cairn("reshard", source, output, "--max-shard-size", chunkSize, "--force", "--quiet"),
  "merge-checkpoints": () => cairn("merge-checkpoints", ...source.split(","), output, "--force", "--quiet"),
  convert: () => cairn("convert", source, output, "--to", option, "--force", "--quiet"),

  signatures: async () => {
    const { openSavedModel } = await import("cairn/saved-model");
    const { localFiles } = await import("cairn/node");
    const model = await openSavedModel(source, { files: localFiles });
    const [metaGraph] = await model.metaGraphs();
    if ((await metaGraph.signatures()).length === 0) throw new Error("no signatures");
    await model.close();
  },
};

/** The command line in this process. */
async function cairn(...args) {
  process.argv = [process.argv[0], "cairn", ...args];
  await import("../../dist/bin/cairn.js");
  if (process.exitCode) throw new Error(`exit code ${process.exitCode}`);
}

await jobs[job]();
const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
const took = { ms: performance.now(), cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMB: peakKB(maxRSS) / 1024 };
process.stderr.write(JSON.stringify(took));

/** The peak of resident memory. Linux counts that of the parent before the start in maxRSS, but not in VmHWM. */
function peakKB(maxRSS) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
  } catch {
    return maxRSS;
  }
}
