// Fuzzes one reader, guided by coverage: npm run fuzz -- TARGET --seconds N. Targets are the files of test/fuzz. The fuzzer
// is no dependency: it is installed into .cache/fuzz when it is used first. Jazzer.js (libFuzzer) where its binary loads,
// which takes glibc 2.38 or macOS or Windows; jsfuzz elsewhere. Memory is limited to 512 MB above that of the instrumented code, one input to 40 s, on a machine that may be busy.
// Exit code 1 when something was found; the input is in .cache/fuzz/findings then, and reading it again shows the error.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const ENGINES = [
  { name: "jazzer", packageName: "@jazzer.js/core", version: "4.0.0", probe: "@jazzer.js/fuzzer" },
  { name: "jsfuzz", packageName: "jsfuzz", version: "1.0.15", probe: "jsfuzz/package.json" },
];
/** The instrumented code takes nearly 200 MB of it itself. */
const MEMORY_MB = 700;
const INPUT_SECONDS = 40;
/** Larger files make poor seeds: most bytes of them are data. */
const MAX_SEED_BYTES = 20_000;

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, ".cache/fuzz");
const targets = readdirSync(join(root, "test/fuzz"))
  .filter((name) => name.endsWith(".mjs") && name !== "read-everything.mjs")
  .map((name) => basename(name, ".mjs"));

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: "string", default: "60" }, engine: { type: "string" }, replay: { type: "string" } },
});
const [target] = positionals;
if (!targets.includes(target)) {
  console.error(
    `npm run fuzz -- TARGET --seconds N [--engine jazzer|jsfuzz]\n           TARGET --replay FILE\nTargets: ${targets.join(", ")}`,
  );
  process.exit(2);
}
const source = join(root, "test/fuzz", `${target}.mjs`);
const { fuzz, ...about } = await import(pathToFileURL(source));
if (values.replay !== undefined) {
  const at = values.replay;
  const paths = statSync(at).isDirectory() ? readdirSync(at).map((name) => join(at, name)) : [at];
  for (const path of paths) {
    console.log(path);
    await fuzz(readFileSync(path));
  }
  console.log("nothing wrong");
  process.exit(0);
}

const corpus = join(folder, "corpus", target);
const findings = join(folder, "findings", target);
for (const path of [corpus, findings]) mkdirSync(path, { recursive: true });
await writeSeeds();
const engine = chooseEngine();
const bundle = join(folder, `${target}.cjs`);
await build({
  entryPoints: [source],
  outfile: bundle,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  define: { "import.meta.url": "importMetaUrl" },
  banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
  external: [
    "@bufbuild/protobuf",
    "@bufbuild/protobuf/*",
    "highwayhasher",
    "@node-rs/crc32",
    "@foxglove/wasm-zstd",
    "@aws-sdk/client-s3",
    "@tensorflow/*",
  ],
  logLevel: "error",
});
const seconds = Number(values.seconds);
console.log(`${target}: ${seconds} s with ${engine.name} ${engine.version}, seeds in ${relative(root, corpus)}`);
process.exit(await run(engine));

/** The seeds of a target: fixtures that it names, its own texts, and what was found before. */
async function writeSeeds() {
  const kept = join(root, "test/fuzz/corpus", target);
  if (existsSync(kept)) for (const name of readdirSync(kept)) copyFileSync(join(kept, name), join(corpus, name));
  const put = (bytes) => {
    if (bytes === undefined || bytes.length > MAX_SEED_BYTES) return;
    writeFileSync(join(corpus, createHash("sha256").update(bytes).digest("hex").slice(0, 16)), bytes);
  };
  for (const text of about.texts ?? []) put(Buffer.from(text));
  for (const seed of about.seeds) {
    const at = join(root, "test/fixtures", seed);
    for (const name of readdirSync(at, { recursive: true, encoding: "utf8" })) {
      const path = join(at, name);
      if (!statSync(path).isFile() || !(about.only ?? /\.(riegeli|c?pb|pbtxt)$/).test(path)) continue;
      const bytes = new Uint8Array(readFileSync(path));
      // A damaged fixture cannot be taken apart.
      put(
        about.seedFrom === undefined
          ? bytes
          : await Promise.resolve(bytes)
              .then(about.seedFrom)
              .catch(() => {}),
      );
    }
  }
}

function chooseEngine() {
  const wanted = ENGINES.filter(({ name }) => values.engine === undefined || name === values.engine);
  for (const engine of wanted) {
    const at = join(folder, engine.name);
    if (!existsSync(join(at, "node_modules", engine.packageName))) {
      mkdirSync(at, { recursive: true });
      writeFileSync(join(at, "package.json"), "{}\n");
      const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
      spawnSync("npm", [...args, `${engine.packageName}@${engine.version}`], { cwd: at, stdio: "inherit" });
    }
    const loads = spawnSync(process.execPath, ["-e", `require("${engine.probe}")`], { cwd: at }).status === 0;
    if (loads) return { ...engine, at };
  }
  console.error("no fuzzer can be installed or loaded here");
  return process.exit(2);
}

function run({ name, at }) {
  const isJazzer = name === "jazzer";
  const command = isJazzer
    ? [
        join(at, "node_modules/@jazzer.js/core/dist/cli.js"),
        bundle,
        corpus,
        "-i",
        `${target}.cjs`,
        `--timeout=${INPUT_SECONDS * 1000}`,
        "--",
        `-max_total_time=${seconds}`,
        `-rss_limit_mb=${MEMORY_MB}`,
        `-artifact_prefix=${findings}/`,
      ]
    : [
        join(at, "node_modules/jsfuzz/build/src/index.js"),
        relative(findings, bundle),
        corpus,
        `--rss-limit-mb=${MEMORY_MB}`,
        `--timeout=${INPUT_SECONDS}`,
        "--versifier=false",
      ];
  const child = spawn(process.execPath, [`--max-old-space-size=${MEMORY_MB}`, ...command], {
    cwd: findings,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  let last = "";
  let isFound = false;
  // Instrumented lines, which an error may quote, are too long to be read.
  const lines = (data) =>
    String(data)
      .split("\n")
      .map((line) => line.slice(0, 200))
      .filter((line) => line !== "");
  const recent = [];
  const take = (data) => {
    for (const line of lines(data)) {
      isFound ||= /crash was written|MEMORY OOM|timeout reached|Worker exited|libFuzzer: |==ERROR/i.test(line);
      recent.push(line);
      if (recent.length > 30) recent.shift();
      if (line.startsWith("#")) last = line;
    }
  };
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  // jsfuzz knows no time limit.
  const timer = isJazzer ? undefined : setTimeout(() => child.kill("SIGKILL"), seconds * 1000);
  return new Promise((resolve) => {
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const isClean = !isFound && (code === 0 || signal === "SIGKILL");
      if (!isClean) console.log(recent.join("\n"));
      console.log(`${target}: ${last}`);
      console.log(isClean ? `${target}: nothing found` : `${target}: FOUND something, see ${relative(root, findings)}`);
      resolve(isClean ? 0 : 1);
    });
  });
}
