// Trains a recommender on this machine, kills a parameter server on the way, goes on with another number of them, and
// exports the best version: the second half of `npm start`. Every process is a command that you can run yourself.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const cairn = fileURLToPath(new URL("../dist/bin/cairn.js", import.meta.url));
const model = fileURLToPath(new URL("recommender/model.mjs", import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "cairn-training-"));
const at = (name) => join(folder, name);
/** What is printed of a path in the temporary folder. */
const short = (text) => text.replaceAll(`${folder}/`, "").replaceAll(model, "examples/recommender/model.mjs");

/** Runs a command of cairn, shows it and what it prints, and gives its standard output. */
function run(args, { onLine = () => {}, show = true } = {}) {
  if (show) console.log(short(`   $ cairn ${args.join(" ")}`));
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cairn, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    for (const stream of [child.stdout, child.stderr]) {
      let rest = "";
      stream.on("data", (data) => {
        if (stream === child.stdout) stdout += data;
        const lines = (rest + data).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (show) console.log(short(`   ${line}`));
          onLine(line);
        }
      });
    }
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`cairn ${args[0]} ended with ${code}`));
    });
  });
}

/** Ends a process of the training as a power cut would. Its number stands in its log. */
async function kill(name) {
  const log = await readFile(at(`ckpt.cairn/logs/${name}.log`), "utf8");
  const pid = Number([...log.matchAll(/^--- \S+, process (\d+)$/gm)].at(-1)?.[1]);
  process.kill(pid, "SIGKILL");
  console.log(`   (killed ${name}, process ${pid})`);
}

const options = ["--checkpoint-dir", at("ckpt"), "--checkpoint-steps", "20", "--evaluation-steps", "40"];
try {
  console.log("\n6. Train on 2 parameter servers with 2 workers, and kill a server when version 40 is saved");
  let killed;
  const onLine = (line) => {
    if (killed === undefined && line.includes("saved version 40")) killed = kill("ps-1");
  };
  await run(["train", model, "--num-ps", "2", "--num-workers", "2", "--max-step", "100", ...options], { onLine });
  await killed;

  console.log("\n7. Go on where it ended, on 3 servers");
  const resumed = ["--num-ps", "3", "--checkpoint-dir-for-init", "latest", "--keep-checkpoint-max", "3"];
  await run(["train", model, ...resumed, ...options]);

  console.log("\n8. See what is kept: the newest, and the one that was evaluated best");
  await run(["checkpoints", at("ckpt")]);

  console.log("\n9. Export the best one to safetensors, and to a TensorFlow checkpoint in shards of 4 kB");
  await run(["export", at("ckpt"), at("best.safetensors"), "--best", "--drop-slots"]);
  await run(["convert", at("best.safetensors"), at("best/ckpt"), "--to", "checkpoint", "--max-shard-size", "4kB"]);
  await run(["verify", at("best/ckpt")]);
  await run(["diff", at("best.safetensors"), at("best/ckpt")]);
} finally {
  await rm(folder, { recursive: true, force: true });
}
