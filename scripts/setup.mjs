// Makes a fresh clone ready: installs what package-lock.json names and builds, each only when it has not been done.
// Uses nothing but Node itself.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (path) => join(root, path);

function run(what, command, args, undo) {
  if (what !== "bundling") console.error(`${what} …`);
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    shell: process.platform === "win32",
  });
  if (result.status === 0) return;
  undo?.();
  console.error(`${what} failed.`);
  process.exit(result.status ?? 1);
}

function stampOf(paths) {
  const hash = createHash("sha256");
  for (const path of paths) hash.update(path).update(readFileSync(at(path)));
  return hash.digest("hex");
}

function filesUnder(path) {
  return readdirSync(at(path), { recursive: true, encoding: "utf8" })
    .map((name) => join(path, name))
    .filter((name) => statSync(at(name)).isFile())
    .sort();
}

function isDone(stampPath, stamp) {
  return existsSync(at(stampPath)) && readFileSync(at(stampPath), "utf8") === stamp;
}

const installStamp = stampOf(["package-lock.json"]);
if (!isDone("node_modules/.cairn-install", installStamp)) {
  run("installing packages", "npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
  writeFileSync(at("node_modules/.cairn-install"), installStamp);
}

const buildStamp = stampOf(["package.json", "tsconfig.json", "scripts/bundle-cli.mjs", ...filesUnder("src")]);
if (!isDone("dist/.cairn-build", buildStamp)) {
  // The last build comes back when this one fails.
  const last = at(".cache/last-build");
  rmSync(last, { recursive: true, force: true });
  mkdirSync(at(".cache"), { recursive: true });
  if (existsSync(at("dist"))) renameSync(at("dist"), last);
  run("building", process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", "tsconfig.json"], () => {
    rmSync(at("dist"), { recursive: true, force: true });
    if (existsSync(last)) renameSync(last, at("dist"));
  });
  rmSync(last, { recursive: true, force: true });
  run("bundling", process.execPath, [at("scripts/bundle-cli.mjs")]);
  mkdirSync(at("dist"), { recursive: true });
  writeFileSync(at("dist/.cairn-build"), buildStamp);
}
