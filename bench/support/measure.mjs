// Runs jobs in turn, several rounds of all, and gives the median of each.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const CHILD = fileURLToPath(new URL("./child.mjs", import.meta.url));

/** Runs one job of child.mjs, or `cp`; the output is removed first, so that each writes new pages. */
export function runOnce({ job, source = "", output = "", option = "none", chunkSize = "100MB" }) {
  if (output !== "" && existsSync(output)) rmSync(output);
  const startMs = performance.now();
  if (job === "cp") {
    const { status } = spawnSync("cp", [source, output]);
    if (status !== 0) throw new Error(`cp failed with ${status}`);
    return { ms: performance.now() - startMs, cpuMs: Number.NaN, peakMB: Number.NaN };
  }
  const { status, stderr } = spawnSync(process.execPath, [CHILD, job, source, output, option, chunkSize], {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`${job} failed with ${status}: ${stderr}`);
  return JSON.parse(stderr.slice(stderr.lastIndexOf("{")));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/** Runs every job `rounds` times, in turn, and gives the medians by name. A job with a `run` of its own is run by that. */
export function measure(jobs, rounds) {
  const runs = new Map(jobs.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    // Each round begins with another job, so that none always gets the memory that was not used lately, which is slower.
    const first = round % jobs.length;
    for (const one of [...jobs.slice(first), ...jobs.slice(0, first)])
      runs.get(one.name).push((one.run ?? runOnce)(one));
  }
  const medians = {};
  for (const [name, list] of runs) {
    medians[name] = Object.fromEntries(
      ["ms", "cpuMs", "peakMB", "reads"].map((key) => [key, median(list.map((run) => run[key]))]),
    );
    medians[name].minMs = Math.min(...list.map(({ ms }) => ms));
  }
  return medians;
}

/** Prints rows as columns of text. */
export function printTable(rows) {
  const columns = Object.keys(rows[0]);
  const cells = [columns, ...rows.map((row) => columns.map((column) => String(row[column])))];
  const widths = columns.map((_, i) => Math.max(...cells.map((row) => row[i].length)));
  for (const row of cells)
    console.log(row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  "));
}
