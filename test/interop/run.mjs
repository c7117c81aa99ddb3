// Lets the real systems read what cairn wrote: makes a Python environment with TensorFlow 2.18 and NumPy, builds a
// program around TensorFlow's own merger, and runs every case. Needs Python 3.9 to 3.12 and g++.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { getTensor, listTensors, npySource, openTensors } from "cairn";
import { copySource } from "cairn/bytes";
import { reshardVersion } from "cairn/elasticdl";
import { localFiles } from "cairn/node";
import { mergeModel, openSavedModel, splitModel } from "cairn/saved-model";
import { checkpointFileCases } from "./checkpoint-files.mjs";
import { checkpointCases, restoreResults } from "./checkpoints.mjs";
import { safetensorsCases } from "./safetensors.mjs";
import { savedModelCases } from "./saved-models.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const here = join(root, "test/interop");
const cache = join(root, ".cache/interop");
const work = join(cache, "work");
const python = join(cache, "venv/bin/python");
const merger = join(cache, "merger");
const MODELS = ["tiny", "bigconst", "manyfns", "vocab", "keras", "frozen", "floatval"];

function prepare() {
  mkdirSync(cache, { recursive: true });
  const stamp = join(cache, "ready");
  const wanted = readFileSync(join(here, "requirements.txt"), "utf8") + readFileSync(join(here, "merger.cc"), "utf8");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  console.log("making a Python environment with TensorFlow …");
  execFileSync("python3", ["-m", "venv", join(cache, "venv")], { stdio: "inherit" });
  execFileSync(
    python,
    ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", join(here, "requirements.txt")],
    {
      stdio: "inherit",
    },
  );
  const code = "import tensorflow as tf; print(tf.sysconfig.get_include()); print(tf.sysconfig.get_lib())";
  const [include, lib] = execFileSync(python, ["-c", code], {
    encoding: "utf8",
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: "3" },
  })
    .trim()
    .split("\n");
  const libraries = ["-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2"];
  const flags = ["-O1", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=1", `-I${include}`, `-L${lib}`, `-Wl,-rpath,${lib}`];
  execFileSync("g++", [...flags, join(here, "merger.cc"), "-o", merger, ...libraries], { stdio: "inherit" });
  writeFileSync(stamp, wanted);
}

const fixture = (...path) => join(root, "test/fixtures/cpb", ...path);

/** Splits a model with many sizes and compressions; what was split is a case for TensorFlow's merger. */
async function splitCases(cases) {
  for (const name of MODELS) {
    for (const [maxChunkSize, options] of [
      [200, { compression: "none" }],
      [500, { compression: "brotli" }],
      [1000, { compression: "zstd" }],
      [3000, { compression: "snappy" }],
      [5000, { compression: "auto" }],
      [5000, { compression: "auto", transpose: true }],
      [60_000, { compression: "auto" }],
    ]) {
      const label = `${name} at ${maxChunkSize} B, ${options.compression}${options.transpose ? ", transposed" : ""}`;
      const source = fixture("models", name, "saved_model.pb");
      const prefix = join(work, `split-${cases.length}`);
      const plan = await splitModel(source, `${prefix}.cpb`, { source: localFiles, target: localFiles, maxChunkSize });
      if (plan.isSplit) {
        await plan.write(options);
        cases.push({
          kind: "merges",
          name: `TensorFlow merges ${label}`,
          merger,
          type: "tensorflow.SavedModel",
          prefix,
          source,
        });
      }
      await plan.close();
    }
  }
}

/** Models that were split by TensorFlow and merged by cairn load in TensorFlow. */
async function loadCases(cases) {
  for (const [name, cpb] of [
    ["tiny", "tiny__1000_zstd3"],
    ["bigconst", "bigconst__40000_zstd3"],
    ["manyfns", "manyfns__3000_default"],
    ["vocab", "vocab__4000_uncompressed"],
    ["keras", "keras__4000_default"],
  ]) {
    const split = join(work, `${name}-split`);
    const merged = join(work, `${name}-merged`);
    const target = { source: localFiles, target: localFiles };
    const plan = await splitModel(fixture("models", name), split, { ...target, maxChunkSize: 4000 });
    await plan.write({});
    await plan.close();
    execFileSync("cp", [fixture("cpb", cpb, "saved_model.cpb"), join(split, "saved_model.cpb")]);
    const merge = await mergeModel(split, merged, target);
    await merge.write({});
    await merge.close();
    const model = await openSavedModel(merged, { files: localFiles });
    const [metaGraph] = await model.metaGraphs();
    const signatures = (await metaGraph.signatures())
      .map((signature) => signature.name)
      .filter((one) => !one.startsWith("__"));
    await model.close();
    cases.push({
      kind: "loads",
      name: `TensorFlow loads ${name}, split by TensorFlow and merged by cairn`,
      path: merged,
      signatures,
    });
  }
}

/** Constants as cairn reads them, from the .pb and from a .cpb of it. */
async function constantCases(cases) {
  for (const name of MODELS) {
    const source = fixture("models", name, "saved_model.pb");
    for (const path of [source, join(work, `constants-${name}.cpb`)]) {
      if (path !== source) {
        const plan = await splitModel(source, path, { source: localFiles, target: localFiles, maxChunkSize: 1000 });
        await plan.write({});
        await plan.close();
      }
      const { tensors } = await openTensors(localFiles, path);
      const listed = [];
      for await (const tensor of listTensors(tensors, { sha256: true })) listed.push(tensor);
      cases.push({ kind: "constants", name: `constants of ${basename(path)} of ${name}`, source, tensors: listed });
      if (path === source) await npyCases(cases, name, tensors, listed);
      await tensors.close();
    }
  }
}

async function npyCases(cases, model, tensors, listed) {
  for (const { key, dtype, shape, sha256 } of listed) {
    if (dtype === "string") continue;
    const path = join(work, `array-${cases.length}.npy`);
    const sink = await localFiles.create(path);
    await copySource(npySource(await getTensor(tensors, key)), sink);
    await sink.close();
    cases.push({ kind: "npy", name: `NumPy reads ${key} of ${model}`, path, shape, sha256 });
  }
}

/** Training checkpoints of ElasticDL, repartitioned by cairn, in both layouts. */
async function elasticdlCases(cases) {
  const at = (...path) => join(root, "test/fixtures/elasticdl", ...path);
  const expected = JSON.parse(readFileSync(at("expected.json"), "utf8"));
  const { whole } = expected.model_a;
  const edge = expected.edge.negative_and_empty.whole;
  for (const [source, version, { dense, tables }] of [
    [at("model_a/ps3/version-300"), 300, whole],
    [at("model_a/ps5/version-500"), 500, whole],
    [at("edge/negative_and_empty/version-7"), 7, edge],
  ]) {
    for (const psNum of [1, 2, 5, 8, 33]) {
      for (const layout of ["design", "elasticdl"]) {
        const out = join(work, `training-${cases.length}`);
        const { path } = await reshardVersion(localFiles, source, out, { psNum, layout });
        const name = `ElasticDL reads version ${version} for ${psNum} servers, ${layout} names`;
        cases.push({ kind: "elasticdl", name, path, version, dense, tables });
      }
    }
  }
}

/** Trainings on cairn's parameter servers by a worker in Python. */
function serverCases(cases) {
  const settings = [
    ["SGD", "SGD", "learning_rate=0.1;"],
    ["momentum", "SGD", "learning_rate=0.1;momentum=0.9;nesterov=true;"],
    ["Adam", "Adam", "learning_rate=0.01;"],
    ["amsgrad", "Adam", "learning_rate=0.01;amsgrad=true;"],
    ["Adagrad", "Adagrad", "learning_rate=0.1;"],
  ];
  for (const [optimizer, type, args] of settings) {
    const servers = {
      node: process.execPath,
      cli: join(root, "dist/bin/cairn.js"),
      path: join(work, `servers-${optimizer}`),
    };
    cases.push({
      kind: "parameter_servers",
      name: `grpcio trains with ${optimizer}`,
      optimizer,
      type,
      args,
      ...servers,
    });
  }
}

prepare();
rmSync(work, { recursive: true, force: true });
mkdirSync(work, { recursive: true });
const cases = [];
await splitCases(cases);
await loadCases(cases);
await constantCases(cases);
await elasticdlCases(cases);
await safetensorsCases(cases, join(root, "test/fixtures/safetensors"), work);
await savedModelCases(cases, join(root, "test/fixtures"), work);
serverCases(cases);
await checkpointCases(cases, work);
await checkpointFileCases(cases, join(root, "test/fixtures/checkpoints"), work);
writeFileSync(join(work, "cases.json"), JSON.stringify(cases));
const { stdout, stderr, status } = spawnSync(python, [join(here, "check.py"), join(work, "cases.json")], {
  encoding: "utf8",
  maxBuffer: 2 ** 28,
});
const results = stdout
  .trim()
  .split("\n")
  .filter(Boolean)
  .map((line) => JSON.parse(line));
const missing = cases.length - results.length;
results.push(...(await restoreResults(python, here, work)));
const failed = results.filter(({ problem }) => problem !== null);
for (const { name, problem } of failed) console.log(`FAILED ${name}: ${problem}`);
if (status !== 0 || missing > 0) console.log(`${missing} cases did not run\n${stderr.slice(-2000)}`);
console.log(`${results.length - failed.length} passed, ${failed.length + missing} failed`);
process.exit(failed.length + missing > 0 ? 1 : 0);
