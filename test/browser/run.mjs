// Opens models and checkpoints in a real Chromium: bundles the library as a page would, with no shim for Node, drops
// files on it and gives it addresses, and compares what it reads with what Node reads. Needs Chromium.
import { deepStrictEqual } from "node:assert";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BROTLI_WASM, bundleForBrowser, root } from "../../scripts/browser-bundle.mjs";
import { makeCases } from "./cases.mjs";
import { launchChromium } from "./chromium.mjs";
import { serve } from "./server.mjs";

const PAGE = `<!doctype html><meta charset="utf-8"><title>cairn</title>
<input type="file" id="file" multiple><input type="file" id="folder" webkitdirectory>
<script type="module" src="/bundle/page.js"></script>`;

let passed = 0;
let failed = 0;
async function test(name, work) {
  try {
    await work();
    passed++;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n${error.stack ?? error}`);
  }
}

const work = mkdtempSync(join(tmpdir(), "cairn-browser-"));
const fixtures = join(root, "test/fixtures");
let server;
let browser;
try {
  const cases = await makeCases(fixtures, work);
  const bundle = join(work, "bundle");
  const { nodeImports } = await bundleForBrowser({
    entryPoints: { page: join(root, "test/browser/page.mjs") },
    outdir: bundle,
  });
  copyFileSync(BROTLI_WASM, join(bundle, "brotli_dec_wasm_bg.wasm"));
  writeFileSync(join(work, "index.html"), PAGE);
  server = await serve((path) => {
    if (path === "/") return join(work, "index.html");
    if (path.includes("..")) return undefined;
    const [, folder, ...rest] = path.split("/");
    const at = { bundle, work, fixtures }[folder];
    return at === undefined ? undefined : join(at, ...rest);
  });
  browser = await launchChromium();
  console.log(`Chromium ${browser.version()}`);
  await runAll(cases, nodeImports);
} finally {
  await browser?.close();
  server?.close();
  rmSync(work, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

/** A new page with the library loaded; what it says of errors ends up in `errors`. */
async function openPage(errors = []) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(server.origin);
  await page.waitForFunction("globalThis.cairnTest !== undefined");
  return page;
}

function run(page, one) {
  return page.evaluate((given) => globalThis.cairnTest.run(given), one);
}

async function runAll(cases, nodeImports) {
  const errors = [];
  const page = await openPage(errors);

  await test("the bundle has nothing of Node, and neither has the page", async () => {
    deepStrictEqual(nodeImports, []);
    deepStrictEqual(await page.evaluate("cairnTest.shims()"), []);
  });

  await test("tensors of every family are among the cases", async () => {
    const families = cases.filter(({ expected }) => expected.last !== null).map(({ expected }) => expected.format);
    deepStrictEqual([...new Set(families)].sort(), ["checkpoint", "elasticdl", "safetensors", "saved-model"]);
  });

  for (const { name, path, files, look, remote, expected } of cases) {
    await test(name, async () => {
      const given = remote === undefined ? { path, files, look } : { path: server.origin + remote };
      const { ok, findings, kind, children, ...read } = await run(page, given);
      deepStrictEqual(read, expected);
      if (!look) return;
      deepStrictEqual({ ok, findings: findings.filter((code) => code !== "ignored-file") }, { ok: true, findings: [] });
      deepStrictEqual([typeof kind, children > 0], ["string", true]);
    });
  }

  const brotli = cases.find(({ path }) => path === "brotli/m.cpb");
  await test("a file that a person chose", async () => {
    await page.setInputFiles("#file", join(work, "brotli/m.cpb"));
    deepStrictEqual(await run(page, { input: "file", path: "m.cpb" }), brotli.expected);
  });

  await test("a folder that a person chose", async () => {
    await page.setInputFiles("#folder", join(work, "chosen"));
    deepStrictEqual(await run(page, { input: "folder", path: "chosen" }), brotli.expected);
  });

  await test("a damaged file is found damaged, and its other tensors are read", async () => {
    const files = [["m.cpb", "/work/damaged/m.cpb"]];
    const { ok, findings, tensors } = await run(page, { path: "m.cpb", files, look: true });
    deepStrictEqual({ ok, findings }, { ok: false, findings: ["chunk-data"] });
    const whole = brotli.expected.tensors;
    const lost = whole.filter(({ sha256 }, i) => tensors[i].sha256 !== sha256);
    deepStrictEqual([lost.length, tensors.find(({ key }) => key === lost[0].key).sha256], [1, undefined]);
  });

  await test("an address where nothing is, is refused", async () => {
    const path = `${server.origin}/work/nothing.safetensors`;
    deepStrictEqual(await run(page, { path }), { error: "not-found", file: path });
  });

  await test("without the WebAssembly of Brotli that is said, and with it the file is read", async () => {
    const other = await openPage(errors);
    const { path, files, expected } = brotli;
    deepStrictEqual((await run(other, { path, files, brotliWasm: "/nothing.wasm" })).error, "unsupported-compression");
    const brotliWasm = "/bundle/brotli_dec_wasm_bg.wasm";
    deepStrictEqual(await run(other, { path, files, brotliWasm }), expected);
  });

  await test("a file on a server that gives ranges is read by ranges only", async () => {
    const path = "/fixtures/cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb";
    const asked = server.requests.filter((request) => request.path === path);
    deepStrictEqual([asked.length > 0, asked.every(({ range }) => range !== undefined)], [true, true]);
  });

  await test("no error went past the tests", async () => deepStrictEqual(errors, []));
}
