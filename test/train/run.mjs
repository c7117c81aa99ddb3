// Trains with real processes, kills some of them, and compares what comes out. `--long` kills 20 times instead of a few.
// Ends with one line: N passed, N failed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cairn = join(root, "dist/bin/cairn.js");
const model = join(root, "test/train/model.mjs");
const isLong = process.argv.includes("--long");
const only = process.argv.find((argument) => argument.startsWith("--only="))?.slice("--only=".length);
const folder = mkdtempSync(join(tmpdir(), "cairn-train-test-"));
/** A training that takes longer hangs. */
const LIMIT_MS = isLong ? 300_000 : 120_000;
let passed = 0;
let failed = 0;
let names = 0;

const newDir = () => join(folder, `ckpt-${names++}`);

/** Numbers from 0 to 1 by a seed (mulberry32). */
function randomBy(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Runs cairn; `onLine` is told what it says on standard error, and the process. */
function run(args, { onLine = () => {}, env = {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cairn, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr, line] = ["", "", ""];
    const timer = setTimeout(() => {
      child.kill("SIGTERM");
      reject(new Error(`no end within ${LIMIT_MS} ms: ${stderr.slice(-2000)}`));
    }, LIMIT_MS);
    child.stdout.on("data", (data) => {
      stdout += data;
    });
    child.stderr.on("data", (data) => {
      stderr += data;
      line += data;
      for (let end = line.indexOf("\n"); end >= 0; end = line.indexOf("\n")) {
        onLine(line.slice(0, end), child);
        line = line.slice(end + 1);
      }
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, stdout, stderr });
    });
  });
}

const train = (args, options) =>
  run(["train", model, "--minibatch-size", "8", "--checkpoint-steps", "10", ...args, "--json"], options);

function result({ code, stdout, stderr }) {
  assert.equal(code, 0, stderr.slice(-2000));
  return JSON.parse(stdout);
}

/** The number of a process by the first line of its log. */
function pidOf(directory, name) {
  try {
    const log = readFileSync(join(`${directory}.cairn`, "logs", `${name}.log`), "utf8");
    return Number([...log.matchAll(/^--- \S+, process (\d+)$/gm)].at(-1)?.[1]);
  } catch {
    return undefined;
  }
}

/** Sends SIGKILL to processes of a training, one after another, until it is over. */
async function disturb(directory, { names: victims, count, random, gapMs, isOver }) {
  let kills = 0;
  while (kills < count && !isOver()) {
    await new Promise((resolve) => setTimeout(resolve, gapMs * (0.5 + random())));
    const pid = pidOf(directory, victims[kills % victims.length]);
    if (!pid || isOver()) continue;
    try {
      process.kill(pid, "SIGKILL");
      kills++;
    } catch {
      // It has ended already, and the next one is in its place soon.
    }
  }
  return kills;
}

async function trainDisturbed(args, victims, options) {
  const directory = newDir();
  let isOver = false;
  const training = train(["--checkpoint-dir", directory, ...args]).finally(() => {
    isOver = true;
  });
  const kills = await disturb(directory, { names: victims, isOver: () => isOver, ...options });
  return { directory, kills, ...(await training) };
}

async function same(a, b) {
  const { code, stdout, stderr } = await run(["diff", a, b]);
  assert.equal(code, 0, `${a} and ${b} differ: ${stdout}${stderr}`);
}

async function test(name, work) {
  if (only !== undefined && !name.includes(only)) return;
  const startMs = Date.now();
  try {
    await work();
    passed++;
    console.log(`ok      ${name} (${((Date.now() - startMs) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}

const exact = ["--num-ps", "2", "--num-workers", "1", "--num-epochs", "3", "--shuffle", "--seed", "3"];
let undisturbed;

/** The end of an undisturbed training. */
async function reference() {
  undisturbed ??= result(await train(["--checkpoint-dir", newDir(), ...exact]));
  return undisturbed;
}

await test("the same seed gives the same model", async () => {
  const [first, second] = [await reference(), result(await train(["--checkpoint-dir", newDir(), ...exact]))];
  assert.equal(first.modelVersion, 150);
  await same(first.latest, second.latest);
});

await test("another number of servers gives the same model", async () => {
  const other = exact.with(1, "3");
  const { latest } = result(await train(["--checkpoint-dir", newDir(), ...other]));
  await same((await reference()).latest, latest);
});

await test("one process without servers gives the same model", async () => {
  const args = ["--strategy", "local", ...exact.slice(4)];
  const { latest } = result(await train(["--checkpoint-dir", newDir(), ...args]));
  assert.deepEqual(readdirSync(latest), ["variables-0-of-1.chkpt"]);
  await same((await reference()).latest, latest);
});

await test("workers that average their gradients go on when one is killed, and one saves", async () => {
  const directory = newDir();
  const args = ["--strategy", "allreduce", "--num-workers", "3", "--num-epochs", "9", "--evaluation-steps", "10"];
  let isKilled = false;
  const ended = await train(["--checkpoint-dir", directory, ...args], {
    onLine: (line) => {
      // The one that saves, too: another has the same model.
      if (isKilled || !line.startsWith("saved version")) return;
      isKilled = true;
      process.kill(pidOf(directory, "worker-0"), "SIGKILL");
    },
  });
  const { latest, metrics } = result(ended);
  assert.match(ended.stderr, /worker-0 ended with SIGKILL: the others go on/);
  assert.deepEqual(readdirSync(latest), ["variables-0-of-1.chkpt"]);
  assert.ok(metrics.mse < 0.2, `mse ${metrics.mse}`);
});

await test("when all of them are killed they begin again from the newest complete version", async () => {
  const directory = newDir();
  const args = ["--strategy", "allreduce", "--num-workers", "2", "--num-epochs", "6"];
  let isKilled = false;
  const ended = await train(["--checkpoint-dir", directory, ...args], {
    onLine: (line) => {
      if (isKilled || !line.startsWith("saved version")) return;
      isKilled = true;
      for (const name of ["worker-0", "worker-1"]) process.kill(pidOf(directory, name), "SIGKILL");
    },
  });
  const { latest, restarts } = result(ended);
  assert.match(ended.stderr, /all workers have ended: back to version \d+/);
  assert.equal(restarts.servers, 1);
  assert.deepEqual(readdirSync(latest), ["variables-0-of-1.chkpt"]);
});

await test(`servers that are killed ${isLong ? "20" : "3"} times give the same model`, async () => {
  const options = { count: isLong ? 20 : 3, random: randomBy(7), gapMs: 1500 };
  const disturbed = await trainDisturbed(exact, ["ps-0", "ps-1"], options);
  const { modelVersion, latest, restarts } = result(disturbed);
  console.log(`        ${disturbed.kills} kills, ${restarts.servers} rollbacks`);
  assert.ok(restarts.servers > 0);
  assert.equal(modelVersion, 150);
  await same((await reference()).latest, latest);
});

await test("a worker and the master that are killed give the same model", async () => {
  const options = { count: isLong ? 10 : 3, random: randomBy(11), gapMs: 1500 };
  const disturbed = await trainDisturbed(exact, ["worker-0", "master"], options);
  const { latest, restarts } = result(disturbed);
  console.log(`        ${disturbed.kills} kills, ${JSON.stringify(restarts)}`);
  assert.ok(restarts.workers > 0 && restarts.master > 0);
  await same((await reference()).latest, latest);
});

await test("training goes on from the newest complete version on other servers", async () => {
  const directory = newDir();
  result(await train(["--checkpoint-dir", directory, ...exact, "--max-step", "95"]));
  const shard = join(directory, "version_95", "variables-0-of-2.chkpt");
  truncateSync(shard, 100);
  const resumed = await train([
    "--checkpoint-dir",
    directory,
    ...exact.with(1, "3"),
    "--checkpoint-dir-for-init",
    "latest",
  ]);
  const { modelVersion, latest } = result(resumed);
  assert.match(resumed.stderr, /passed over .*version_95/);
  assert.match(resumed.stderr, /going on from version 90/);
  assert.equal(modelVersion, 150);
  await same((await reference()).latest, latest);
});

await test("a missing shard of the only version is an error, not a new model", async () => {
  const directory = newDir();
  result(await train(["--checkpoint-dir", directory, ...exact, "--max-step", "5", "--checkpoint-steps", "0"]));
  rmSync(join(directory, "version_5", "variables-1-of-2.chkpt"));
  const { code, stdout } = await train([
    "--checkpoint-dir",
    directory,
    ...exact,
    "--checkpoint-dir-for-init",
    "latest",
  ]);
  assert.equal(code, 3);
  assert.equal(JSON.parse(stdout).error.code, "no-complete-version");
});

await test("a training into a directory of another one is refused", async () => {
  const directory = join((await reference()).latest, "..");
  const { code, stdout } = await train(["--checkpoint-dir", directory, ...exact]);
  assert.equal(code, 2);
  assert.equal(JSON.parse(stdout).error.code, "exists");
});

await test("Ctrl-C ends all processes and keeps a complete version", async () => {
  const directory = newDir();
  const stopped = await train(["--checkpoint-dir", directory, ...exact, "--num-epochs", "200"], {
    onLine: (line, child) => line.startsWith("saved version") && child.kill("SIGINT"),
  });
  assert.equal(stopped.code, 130);
  for (const name of ["ps-0", "ps-1", "worker-0", "master"]) {
    assert.throws(() => process.kill(pidOf(directory, name), 0), { code: "ESRCH" }, `${name} is there still`);
  }
  const { code, stdout } = await run(["checkpoints", directory, "latest"]);
  assert.equal(code, 0);
  assert.match(stdout, /version_\d+/);
});

await test("saved versions are evaluated, the best is kept, and training stops when it gets no better", async () => {
  const directory = newDir();
  const args = [
    "--evaluation-steps",
    "10",
    "--best-metric",
    "mse:min",
    "--patience",
    "3",
    "--keep-checkpoint-max",
    "2",
  ];
  const output = join(folder, "best.safetensors");
  const big = ["--opt-type", "Adam", "--opt-args", "learning_rate=0.4", "--num-epochs", "20", "--output", output];
  const { best, reason, metrics } = result(await train(["--checkpoint-dir", directory, ...exact, ...args, ...big]));
  assert.match(reason, /no better/);
  assert.deepEqual(Object.keys(metrics), ["mse", "mae"]);
  const record = JSON.parse(readFileSync(`${directory}.cairn/metrics.json`, "utf8"));
  const least = Math.min(...record.versions.map(({ metrics: one }) => one.mse));
  const expected = record.versions.findLast(({ metrics: one }) => one.mse === least).version;
  assert.match(best, new RegExp(`version_${expected}$`));
  // Two, the best, and those that had not been evaluated when the last ones were saved.
  assert.ok(readdirSync(directory).length <= 3, readdirSync(directory).join(" "));
  const evaluated = JSON.parse((await run(["evaluate", model, "--checkpoint-dir-for-init", best, "--json"])).stdout);
  assert.equal(evaluated.metrics.mse, least);
});

await test("many workers end near where one does, whatever is killed", async () => {
  const args = ["--num-ps", "2", "--num-workers", "2", "--num-epochs", "3", "--use-async", "--evaluation-steps", "150"];
  const options = { count: isLong ? 10 : 2, random: randomBy(5), gapMs: 2500 };
  const disturbed = await trainDisturbed(args, ["ps-0", "ps-1", "worker-0", "worker-1"], options);
  const { metrics, restarts } = result(disturbed);
  console.log(`        ${disturbed.kills} kills, ${JSON.stringify(restarts)}, mse ${metrics.mse}`);
  assert.ok(metrics.mse < 0.2, `mse ${metrics.mse}`);
});

rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
