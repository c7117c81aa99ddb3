import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { makeProgram } from "../src/cli/program.js";
import { ERROR_CODES } from "../src/errors.js";
import * as limits from "../src/limits.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Inside the repository, so that `import "cairn"` means the package itself. */
const WORK = join(ROOT, ".cache", `docs-test-${process.pid}`);
/** What the pages call `my_model`. */
const MODEL = join(ROOT, "test/fixtures/cpb/models/bigconst");
/** What they call `run`: a directory with the checkpoint `ckpt-1`. */
const CHECKPOINTS = join(ROOT, "test/fixtures/checkpoints/keras_model");
/** What they call `classifier`: a model definition. */
const CLASSIFIER = join(ROOT, "examples/classifier");

const pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].concat(
  readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
    .sort(),
);
const runnablePages = pages.filter((page) => page === "README.md" || page.startsWith(join("docs", "guide")));

function read(page: string): string {
  return readFileSync(join(ROOT, page), "utf8");
}

interface Block {
  /** The words behind the fence: `js runnable`. */
  readonly info: string;
  readonly text: string;
  /** Line of the fence in the page, from 1. */
  readonly line: number;
}

function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let open: { info: string; line: number; lines: string[] } | undefined;
  for (const [i, line] of read(page).split("\n").entries()) {
    const fence = /^```(.*)$/.exec(line);
    if (open === undefined) {
      if (fence !== null) open = { info: (fence[1] ?? "").trim(), line: i + 1, lines: [] };
    } else if (fence !== null) {
      blocks.push({ info: open.info, text: open.lines.join("\n"), line: open.line });
      open = undefined;
    } else open.lines.push(line);
  }
  return blocks;
}

function withoutBlocks(page: string): string {
  return read(page).replace(/^```[\s\S]*?^```$/gm, "");
}

/** Runs a program and gives what it printed on standard output; fails with what it printed elsewhere. */
function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, NO_COLOR: "1", CAIRN: cairnPath() };
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, env, encoding: "utf8" }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${command} failed:\n${stdout}${stderr}`));
    });
  });
}

function cairnPath(): string {
  const { bin } = JSON.parse(read("package.json")) as { bin: { cairn: string } };
  return join(ROOT, bin.cairn);
}

/** A shell script that prints each `$ command` of a block and then what the command prints, as a terminal shows it. */
function shellScript(block: string): string {
  const commands = block.split("\n").flatMap((line) => (line.startsWith("$ ") ? [line.slice(2)] : []));
  const lines = commands.map(
    (command) => `printf '%s\\n' '$ ${command.replaceAll("'", "'\\''")}'
(exit $code); { ${command}; } 2>&1; code=$?`,
  );
  return `cairn() { "${process.execPath}" "$CAIRN" "$@"; }\ncode=0\n${lines.join("\n")}\nexit 0\n`;
}

/** A line of progress, which work of more than a second shows: on a slow machine that is any work. */
const PROGRESS_LINE = /^[a-z]+ {2}.*\d \w+\/s\b.*\n/gm;

/** Compares output with what a page shows; there, a line `[…]` stands for any lines. */
function expectOutput(output: string, shown: string): void {
  const actual = output.replace(PROGRESS_LINE, "");
  const lines = shown.split("\n").map((line) => (line === "[…]" ? "(?:.*\\n)*?" : `${escapeForPattern(line)}\\n`));
  if (!new RegExp(`^${lines.join("")}$`).test(`${actual.trimEnd()}\n`)) expect(actual.trimEnd()).toBe(shown);
}

function escapeForPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

async function runPage(page: string): Promise<number> {
  const folder = join(WORK, page.replaceAll(/\W/g, "-"));
  mkdirSync(folder, { recursive: true });
  cpSync(MODEL, join(folder, "my_model"), { recursive: true });
  cpSync(CHECKPOINTS, join(folder, "run"), { recursive: true });
  cpSync(CLASSIFIER, join(folder, "classifier"), { recursive: true });
  const blocks = blocksOf(page);
  let count = 0;
  for (const [i, { info, text, line }] of blocks.entries()) {
    if (!info.endsWith(" runnable")) continue;
    count++;
    try {
      if (info === "console runnable") expectOutput(await run("sh", ["-c", shellScript(text)], folder), text);
      else if (info === "js runnable") {
        const file = join(folder, `block-${line}.mjs`);
        writeFileSync(file, text);
        const output = await run(process.execPath, [file], folder);
        const next = blocks[i + 1];
        if (next?.info === "text output") expectOutput(output, next.text);
      } else throw new Error(`no way to run a block of "${info}"`);
    } catch (error) {
      if (error instanceof Error) error.message = `${page}:${line}: ${error.message}`;
      throw error;
    }
  }
  return count;
}

describe("what the README and the guide show", () => {
  afterAll(() => rmSync(WORK, { recursive: true, force: true }));

  // The blocks of a page run in its order and in one folder; the pages run beside one another.
  it.concurrent.each(runnablePages)("runs and prints what %s says", async (page) => {
    const count = await runPage(page);
    expect(count).toBeGreaterThan(0);
  });
});

describe("docs/errors.md", () => {
  it("has exactly the codes of ERROR_CODES", () => {
    const listed = [...read(join("docs", "errors.md")).matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, code]) => code);
    expect(listed.sort()).toEqual(Object.keys(ERROR_CODES).sort());
  });
});

describe("docs/limits.md", () => {
  it("has every limit of limits.ts", () => {
    const listed = [...read(join("docs", "limits.md")).matchAll(/^\| `(MAX_[A-Z_]+)` \|/gm)].map(([, name]) => name);
    expect(Object.keys(limits).filter((name) => !listed.includes(name))).toEqual([]);
  });
});

describe("links", () => {
  it.each(pages)("lead somewhere from %s", (page) => {
    const targets = [...withoutBlocks(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target as string);
    const broken = targets.filter((target) => !/^(https?|mailto):/.test(target) && !leadsSomewhere(page, target));
    expect(broken).toEqual([]);
  });
});

function leadsSomewhere(page: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? page : relative(ROOT, join(ROOT, dirname(page), path));
  if (!existsSync(join(ROOT, file))) return false;
  return anchor === undefined || anchorsOf(file).includes(anchor);
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): string[] {
  return [...withoutBlocks(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(" ", "-"),
  );
}

describe("the command line in README and docs", () => {
  const program = makeProgram("0.0.0");
  const flagsOf = new Map(
    program.commands.map((command) => [
      command.name(),
      ["--help", ...command.options.flatMap(({ long, short }) => [long, short])],
    ]),
  );
  for (const command of program.commands) {
    for (const alias of command.aliases()) flagsOf.set(alias, flagsOf.get(command.name()) ?? []);
  }
  const allFlags = new Set(["--version", ...[...flagsOf.values()].flat()]);
  const documented = pages.filter((page) => page === "README.md" || page.startsWith("docs"));

  it.each(documented)("has the flags that %s names", (page) => {
    const unknown = [...withoutOtherPrograms(page).matchAll(/(?<![\w-])--[a-z][a-z\d-]*/g)]
      .map(([flag]) => flag)
      .filter((flag) => !allFlags.has(flag));
    const misplaced = [...read(page).matchAll(/\bcairn ([a-z]+)([^`\n|]*)/g)].flatMap(([, verb = "", rest = ""]) => {
      const known = flagsOf.get(verb);
      const flags = known === undefined ? [] : [...rest.matchAll(/(?<=\s)--?[a-z][a-z\d-]*/g)].map(([flag]) => flag);
      return flags.filter((flag) => !known?.includes(flag)).map((flag) => `${verb} ${flag}`);
    });
    expect([...unknown, ...misplaced]).toEqual([]);
  });

  /** A page without the code spans that call another program, whose flags are its own. */
  function withoutOtherPrograms(page: string): string {
    return read(page).replace(/`(?:npm|npx|node|protoc) [^`\n]*`/g, "");
  }

  it("has every command in the README", () => {
    const missing = program.commands
      .map((command) => command.name())
      .filter((name) => !read("README.md").includes(`cairn ${name}`));
    expect(missing).toEqual([]);
  });
});
