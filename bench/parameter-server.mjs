// Calls per second and server CPU per call of two parameter servers, beside two plain grpc-js servers that take and give
// messages of the same sizes without looking into them; pushes while a shard is saved; a restore.
//
// node bench/parameter-server.mjs [--seconds 3] [--server-rounds 3] [--dir /dev/shm] [--servers-json FILE]
import { fork, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ParameterServer, PserverClient, stringToId, toIds } from "cairn/elasticdl";
import { printTable } from "./support/measure.mjs";

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    "server-rounds": { type: "string", default: "3" },
    dir: { type: "string", default: existsSync("/dev/shm") ? "/dev/shm" : tmpdir() },
    "servers-json": { type: "string" },
  },
  // Run with the other benchmarks, it is given their options too.
  strict: false,
});

const PS = 2;
const DENSE_FLOATS = 1_310_720; // 5 MiB on each of two servers.
const [ROWS, DIM] = [1024, 64];
const CLI = fileURLToPath(new URL("../dist/bin/cairn.js", import.meta.url));
const ECHO = fileURLToPath(new URL("./support/grpc-echo.mjs", import.meta.url));
const folder = join(options.dir, `cairn-bench-ps-${process.pid}`);
const children = [];

/** Starts `cairn ps` and gives its address. */
function startServer(...args) {
  const child = spawn(process.execPath, [CLI, "ps", "--port", "0", "--json", "--quiet", "--use-async", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      if (text.trimEnd().endsWith("}")) resolve({ address: JSON.parse(text).address, pid: child.pid });
    });
    child.once("exit", () => reject(new Error("the server ended")));
  });
}

function startEcho() {
  const child = fork(ECHO);
  children.push(child);
  return new Promise((resolve) => {
    child.once("message", ({ port }) => resolve({ address: `127.0.0.1:${port}`, pid: child.pid }));
  });
}

/** CPU seconds that a process has used; NaN where /proc is not there. */
function cpuSeconds(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return Number.NaN;
  }
}

/** Runs calls one after another for some seconds. */
async function measureCalls(call, pids, seconds) {
  for (let i = 0; i < 3; i++) await call();
  const cpuBefore = pids.map(cpuSeconds);
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < seconds * 1000) {
    await call();
    calls++;
  }
  const elapsed = (performance.now() - start) / 1000;
  const cpu = pids.reduce((sum, pid, i) => sum + cpuSeconds(pid) - cpuBefore[i], 0);
  return { rate: calls / elapsed, cpuMs: (1000 * cpu) / calls };
}

const floats = (count, shape) => ({
  dtype: 1,
  shape,
  content: new Uint8Array(new Float32Array(count).fill(1e-6).buffer),
});
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

/** Names of variables that fall to each server in turn. */
function names() {
  const found = [];
  for (let i = 0; found.length < PS; i++) if (stringToId(`w${i}`, PS) === found.length) found.push(`w${i}`);
  return found;
}

async function compareCalls() {
  const servers = await Promise.all(
    Array.from({ length: PS }, (_, id) => startServer("--ps-id", `${id}`, "--num-ps", `${PS}`)),
  );
  const echoes = await Promise.all(Array.from({ length: PS }, startEcho));
  const client = new PserverClient(servers.map(({ address }) => address));
  const dense = new Map(names().map((name) => [name, floats(DENSE_FLOATS, [DENSE_FLOATS])]));
  const tableInfos = [{ name: "e", dim: DIM, initializer: "uniform", dtype: 1 }];
  await client.pushModel({ modelVersion: 0, tableInfos, denseParameters: dense, embeddingTables: new Map() });
  const ids = toIds(Array.from({ length: ROWS }, (_, i) => i * 7919));
  const rows = new Map([["e", { tensor: floats(ROWS * DIM, [ROWS, DIM]), ids }]]);
  const modelVersions = new Array(PS).fill(0);
  const { makeEchoClient } = await import("./support/grpc-echo.mjs");
  const plain = makeEchoClient(echoes.map(({ address }) => address));
  const [denseBytes, rowBytes] = [4 * DENSE_FLOATS + 40, (ROWS * DIM * 4) / PS + 40];
  const idBytes = (3 * ROWS) / PS;
  let last = new Map();
  const pullAgain = async () => {
    ({ dense: last } = await client.pullDenseParameters([], last));
  };
  const cases = [
    ["pull dense 10 MB", () => pullAgain(), () => plain(10, denseBytes)],
    ["push dense 10 MB", () => client.pushGradients({ dense, modelVersions }), () => plain(denseBytes, 4)],
    [`pull ${ROWS} x ${DIM} rows`, () => client.pullEmbeddingVectors("e", ids), () => plain(idBytes, rowBytes)],
    [
      `push ${ROWS} x ${DIM} rows`,
      () => client.pushGradients({ rows, modelVersions }),
      () => plain(rowBytes + idBytes, 4),
    ],
  ];
  const results = [];
  for (const [name, ours, theirs] of cases) {
    const runs = { cairn: [], "grpc-js": [] };
    for (let round = 0; round < Number(options["server-rounds"]); round++) {
      const seconds = Number(options.seconds);
      runs.cairn.push(
        await measureCalls(
          ours,
          servers.map(({ pid }) => pid),
          seconds,
        ),
      );
      runs["grpc-js"].push(
        await measureCalls(
          theirs,
          echoes.map(({ pid }) => pid),
          seconds,
        ),
      );
    }
    const rate = (who) => median(runs[who].map((run) => run.rate));
    const cpu = (who) => median(runs[who].map((run) => run.cpuMs));
    results.push({
      case: name,
      "cairn calls/s": rate("cairn").toFixed(0),
      "grpc-js calls/s": rate("grpc-js").toFixed(0),
      ratio: (rate("cairn") / rate("grpc-js")).toFixed(2),
      "cairn server ms": cpu("cairn").toFixed(2),
      "grpc-js server ms": cpu("grpc-js").toFixed(2),
    });
  }
  await client.close();
  plain.close();
  return results;
}

/** Pushes to a server that saves 36 MB again and again, and to one that does not, in turn. */
async function pushesDuringSaves() {
  const saving = await startServer(
    "--checkpoint-dir",
    join(folder, "saves"),
    "--checkpoint-steps",
    "150",
    "--keep-checkpoint-max",
    "2",
  );
  const still = await startServer();
  const clients = [saving, still].map(({ address }) => new PserverClient([address]));
  const tableInfos = [{ name: "e", dim: 64, initializer: "uniform", dtype: 1 }];
  const first = {
    modelVersion: 0,
    tableInfos,
    denseParameters: new Map([["w", floats(2_500_000, [2_500_000])]]),
    embeddingTables: new Map(),
  };
  const all = Array.from({ length: 100_000 }, (_, id) => id);
  const times = [[], []];
  for (const client of clients) {
    await client.pushModel(first);
    await client.pullEmbeddingVectors("e", all);
  }
  for (let step = 0; step < 3000; step++) {
    const ids = toIds(Array.from({ length: 256 }, (_, i) => (i * 389 + step * 104_729) % 100_000));
    const rows = new Map([["e", { tensor: floats(256 * 64, [256, 64]), ids }]]);
    for (const [which, client] of clients.entries()) {
      const start = performance.now();
      await client.pushGradients({ rows, modelVersions: [step] });
      times[which].push(performance.now() - start);
    }
  }
  for (const client of clients) await client.close();
  return ["saving all the time", "never saving"].map((name, which) => {
    const sorted = times[which].slice(300).sort((a, b) => a - b);
    const at = (share) => sorted[Math.floor(share * (sorted.length - 1))].toFixed(2);
    return { server: name, "p50 ms": at(0.5), "p90 ms": at(0.9), "p99 ms": at(0.99), "max ms": at(1) };
  });
}

async function restores() {
  const directory = join(folder, "restore");
  const common = { psId: 0, psNum: 1, port: 0, optimizerType: "SGD", checkpoint: { directory } };
  const server = await ParameterServer.start(common);
  const client = new PserverClient([`127.0.0.1:${server.port}`]);
  await client.pushEmbeddingTableInfos([{ name: "e", dim: 64, initializer: "uniform", dtype: 1 }]);
  await client.pullEmbeddingVectors(
    "e",
    Array.from({ length: 100_000 }, (_, id) => id),
  );
  server.parameters.isInitialized = true;
  await client.close();
  await server.close({ saveLast: true });
  const times = [];
  for (let round = 0; round < 7; round++) {
    const start = performance.now();
    const restored = await ParameterServer.start({ ...common, checkpointDirForInit: "latest" });
    times.push(performance.now() - start);
    await restored.close();
  }
  return {
    "restore 100,000 x 64 in process": `${median(times).toFixed(0)} ms`,
    best: `${Math.min(...times).toFixed(0)} ms`,
  };
}

mkdirSync(folder, { recursive: true });
try {
  const calls = await compareCalls();
  printTable(calls);
  const pushes = await pushesDuringSaves();
  console.log("\npushes of 256 rows, 36 MB saved every 150 of them");
  printTable(pushes);
  const restore = await restores();
  console.log("");
  printTable([restore]);
  if (options["servers-json"] !== undefined)
    writeFileSync(options["servers-json"], `${JSON.stringify({ calls, pushes, restore }, null, 2)}\n`);
} finally {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
