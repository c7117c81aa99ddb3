import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { FORMATS } from "../src/formats/registry.js";

const SRC = fileURLToPath(new URL("../src", import.meta.url));

/** The layers, lowest first. A file may import from lower ranks and from its own folder, never sideways or up. */
const RANKS: Record<string, number> = {
  "errors.ts": 0,
  "limits.ts": 0,
  bytes: 0,
  codecs: 1,
  riegeli: 2,
  proto: 2,
  table: 2,
  tensor: 2,
  sharding: 3,
  splitter: 3,
  formats: 4,
  ops: 5,
  platform: 5,
  "index.ts": 6,
  tracking: 6,
  training: 6,
  cli: 7,
  viewer: 7,
};

/** Edges between folders of one rank that are allowed all the same. */
const SIDEWAYS: readonly [from: RegExp, to: RegExp][] = [
  [/^bytes\//, /^(errors|limits)\.ts$/],
  [/^(errors|limits)\.ts$/, /^(errors|limits)\.ts$/],
  // The registry names every format; within formats/ each folder is on its own, beside the files they share.
  [/^formats\/registry\.ts$/, /^formats\/[\w-]+\/index\.ts$/],
  [/^formats\/[\w-]+\//, /^formats\/[\w-]+\.ts$/],
  // variables/ of a SavedModel is a checkpoint.
  [/^formats\/saved-model\//, /^formats\/checkpoint\//],
];

/** Files that work with any format, also with one that is yet to be written. */
const NEUTRAL_FILES = /^(ops|viewer)\//;
/** What is in files of some format. */
const FORMAT_LAYERS = /^(formats|riegeli|proto|table|splitter)\//;
const PLUG_FILES = /^formats\/(registry|format|finding|text|versioned-directory)\.ts$/;
/** Names of formats; `checkpoint`, which is a common word too, where it is all of a text or begins another name. */
const FORMAT_NAMES = new RegExp(
  FORMATS.map(({ id }) => (id === "checkpoint" ? `["'\`]${id}["'\`]|\\b${id}Format` : id.replace("-", "[-_]?"))).join(
    "|",
  ),
  "gi",
);

/** Files that may use the names of a platform. */
const PLATFORM_FILES = /^(platform|training|cli|viewer)\//;

interface Import {
  readonly from: string;
  readonly to: string;
  readonly isType: boolean;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(
  (name) => name.endsWith(".ts") && !name.includes("/gen/"),
);

function importsOf(file: string): { local: Import[]; packages: string[] } {
  const text = readFileSync(join(SRC, file), "utf8");
  const local: Import[] = [];
  const packages: string[] = [];
  const pattern = /(?:^|\n)\s*(import|export)\s+(type\s+)?(?:[^"';]*?from\s+)?"([^"]+)"|import\("([^"]+)"\)/g;
  for (const [, , type, specifier, dynamic] of text.matchAll(pattern)) {
    const target = specifier ?? dynamic ?? "";
    if (target.startsWith(".")) {
      const to = normalize(join(dirname(file), target)).replace(/\.js$/, ".ts");
      local.push({ from: file, to, isType: type !== undefined });
    } else packages.push(target);
  }
  return { local, packages };
}

function layerOf(file: string): string {
  return file.includes("/") ? (file.split("/")[0] as string) : file;
}

/** The folder that counts as one module: one folder of formats/, else the layer. */
function moduleOf(file: string): string {
  const [layer, folder, rest] = file.split("/");
  if (layer === "formats" && rest !== undefined) return `formats/${folder}`;
  if (layer === "platform" && rest !== undefined) return `platform/${folder}`;
  return layer as string;
}

function breaksRule({ from, to }: Import): boolean {
  if (moduleOf(from) === moduleOf(to)) return false;
  const [rankFrom, rankTo] = [RANKS[layerOf(from)], RANKS[layerOf(to)]];
  if (rankFrom === undefined || rankTo === undefined) return true;
  if (rankTo < rankFrom) return false;
  return !SIDEWAYS.some(([a, b]) => a.test(from) && b.test(to));
}

describe("architecture", () => {
  const imports = files.flatMap((file) => importsOf(file).local);

  it("knows the layer of every file", () => {
    expect(files.filter((file) => RANKS[layerOf(file)] === undefined)).toEqual([]);
  });

  it("imports only from lower layers or the own folder", () => {
    const broken = imports.filter(breaksRule).map(({ from, to }) => `${from} imports ${to}: sideways or up`);
    expect(broken).toEqual([]);
  });

  it("has no import cycle at run time", () => {
    const edges = new Map<string, string[]>();
    for (const { from, to, isType } of imports) if (!isType) edges.set(from, [...(edges.get(from) ?? []), to]);
    const done = new Set<string>();
    const path: string[] = [];
    const visit = (file: string): void => {
      if (path.includes(file)) throw new Error(`cycle: ${[...path.slice(path.indexOf(file)), file].join(" -> ")}`);
      if (done.has(file)) return;
      path.push(file);
      for (const next of edges.get(file) ?? []) visit(next);
      path.pop();
      done.add(file);
    };
    for (const file of files) visit(file);
  });

  it("uses names of a platform only where a platform is", () => {
    const used = files
      .filter((file) => !PLATFORM_FILES.test(file))
      .flatMap((file) =>
        importsOf(file)
          .packages.filter((name) => name.startsWith("node:"))
          .map((name) => `${file} imports ${name}`),
      );
    const globals = files
      .filter((file) => !PLATFORM_FILES.test(file))
      .filter((file) => /\b(process|Buffer|document|require)\s*[.(]/.test(withoutTexts(file)))
      .map((file) => `${file} uses a global of a platform`);
    expect([...used, ...globals]).toEqual([]);
  });

  it("knows formats in ops/ and viewer/ by the plug alone", () => {
    const broken = imports
      .filter(({ from, to }) => NEUTRAL_FILES.test(from) && FORMAT_LAYERS.test(to) && !PLUG_FILES.test(to))
      .map(({ from, to }) => `${from} imports ${to}`);
    expect(broken).toEqual([]);
  });

  it("names no format in ops/ and viewer/", () => {
    const named = files
      .filter((file) => NEUTRAL_FILES.test(file))
      .flatMap((file) => (codeOf(file).match(FORMAT_NAMES) ?? []).map((name) => `${file} names ${name}`));
    expect(named).toEqual([]);
  });

  it("has no file that is named for nothing", () => {
    expect(files.filter((file) => /\/(utils?|misc|helpers?|common)\.ts$/.test(file))).toEqual([]);
  });
});

function codeOf(file: string): string {
  return readFileSync(join(SRC, file), "utf8")
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\/\/.*$/gm, "");
}

function withoutTexts(file: string): string {
  return codeOf(file).replace(/"[^"\n]*"|`[^`]*`/g, '""');
}
