// Writes the report of the public API of each subpath to etc/, or with --check fails when a report is out of date or an
// export has no doc comment.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const check = process.argv.includes("--check");
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const temporary = join(root, ".cache/api");
rmSync(temporary, { recursive: true, force: true });
mkdirSync(temporary, { recursive: true });
mkdirSync(join(root, "etc"), { recursive: true });

let failed = 0;
for (const [subpath, target] of Object.entries(exports)) {
  // The generated schemas have no doc comments of ours, and the proto files are their report.
  if (!target.endsWith(".js") || subpath === "./tensorflow") continue;
  const name = subpath === "." ? "cairn" : `cairn-${subpath.slice(2)}`;
  const config = {
    mainEntryPointFilePath: join(root, target.replace(/\.js$/, ".d.ts")),
    projectFolder: root,
    apiReport: {
      enabled: true,
      reportFileName: `${name}.api.md`,
      reportFolder: join(root, "etc"),
      reportTempFolder: temporary,
    },
    docModel: { enabled: false },
    dtsRollup: { enabled: false },
    tsdocMetadata: { enabled: false },
    compiler: {
      overrideTsconfig: {
        compilerOptions: {
          target: "ES2022",
          lib: ["ES2023"],
          module: "NodeNext",
          moduleResolution: "NodeNext",
          skipLibCheck: true,
          types: ["node"],
          strict: true,
        },
      },
    },
    messages: {
      compilerMessageReporting: { default: { logLevel: "none" } },
      extractorMessageReporting: { default: { logLevel: "none" } },
      tsdocMessageReporting: { default: { logLevel: "none" } },
    },
  };
  const configPath = join(temporary, `${name}.json`);
  writeFileSync(configPath, JSON.stringify(config));
  const args = ["run", "-c", configPath, ...(check ? [] : ["--local"])];
  const bin = join(root, "node_modules/@microsoft/api-extractor/bin/api-extractor");
  const result = spawnSync(process.execPath, [bin, ...args], { cwd: root, encoding: "utf8" });
  const undocumented = findUndocumented(join(root, "etc", `${name}.api.md`));
  if (result.status === 0 && undocumented.length === 0) continue;
  failed++;
  for (const line of undocumented) console.error(`${subpath}: no doc comment: ${line}`);
  if (result.status === 0) continue;
  const lines = `${result.stdout}${result.stderr}`.split("\n").filter((line) => /error|warning|changed/i.test(line));
  console.error(`${subpath}:\n${lines.slice(0, 40).join("\n")}`);
}
console.log(failed === 0 ? "every export is documented and reported" : `${failed} subpaths fail`);
process.exit(failed === 0 ? 0 : 1);

/** Exports and methods without a doc comment; a property may say enough by its name. */
function findUndocumented(path) {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line, i) => {
    const before = lines[i - 1]?.trim() ?? "";
    if (before === "// @public (undocumented)") return true;
    return before === "// (undocumented)" && /^\s*(static |abstract |protected )*\w+\(/.test(line);
  });
}
