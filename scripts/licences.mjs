// Prints the packages that cairn needs at run time, with versions, licences and install scripts, as a table. Exit code 1
// when one has a script that runs when it is installed, a licence that is not on the list, or no pinned version.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ALLOWED = [
  "Apache-2.0",
  "MIT",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "ISC",
  "0BSD",
  "BlueOak-1.0.0",
  "(Apache-2.0 AND BSD-3-Clause)",
  "MIT OR Apache-2.0",
];
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const own = JSON.parse(readFileSync(at("package.json"), "utf8"));
const { packages } = JSON.parse(readFileSync(at("package-lock.json"), "utf8"));
const withDevelopment = process.argv.includes("--all");

const problems = [];
for (const [name, version] of Object.entries({ ...own.dependencies, ...own.devDependencies })) {
  if (!/^\d+\.\d+\.\d+/.test(version)) problems.push(`${name} is not pinned: ${version}`);
}
const rows = [];
for (const [path, facts] of Object.entries(packages)) {
  const isShown = withDevelopment || !(facts.dev || facts.devOptional || facts.peer);
  if (path === "" || !isShown) continue;
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
  const how = facts.optional ? "one of several binaries" : name in (own.dependencies ?? {}) ? "direct" : "indirect";
  rows.push([name, facts.version, facts.license ?? "none", how]);
  if (facts.dev || facts.peer || facts.devOptional) continue;
  if (facts.hasInstallScript) problems.push(`${name} runs a script when it is installed`);
  if (!ALLOWED.includes(facts.license)) problems.push(`${name} has the licence ${facts.license}`);
  if (facts.integrity === undefined) problems.push(`${name} has no hash in package-lock.json`);
}
console.log("| package | version | licence | how |\n| --- | --- | --- | --- |");
for (const row of rows.sort()) console.log(`| ${row.join(" | ")} |`);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
