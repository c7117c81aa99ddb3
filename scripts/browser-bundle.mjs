// Bundles files for browsers and says what in them only Node has. Used by check-browser.mjs and by the browser tests.
import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = fileURLToPath(new URL("..", import.meta.url));

const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
/** Marks what {@link bundleForBrowser} has asked esbuild about. */
const SEEN = {};

/**
 * Bundles with the condition "browser" and no shim. `nodeImports` has a line for each import of a module of Node, with
 * the file that has it.
 */
export async function bundleForBrowser(options) {
  const nodeImports = [];
  const findNodeImports = {
    name: "find-node-imports",
    setup({ onResolve, resolve }) {
      onResolve({ filter: /.*/ }, async ({ path, importer, resolveDir, kind, pluginData }) => {
        if (pluginData === SEEN || (!path.startsWith("node:") && !builtinModules.includes(path))) return undefined;
        // A package may say what stands for a module of Node in browsers.
        const found = await resolve(path, { importer, resolveDir, kind, pluginData: SEEN });
        if (found.errors.length === 0 && !found.external) return found;
        nodeImports.push(`${importer.replace(root, "")} imports ${path}`);
        return { path, external: true };
      });
    },
  };
  const { metafile } = await build({
    absWorkingDir: root,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    conditions: ["browser"],
    target: "es2022",
    minify: true,
    legalComments: "none",
    metafile: true,
    logLevel: "error",
    plugins: [findNodeImports],
    // Whoever uses these has them.
    external: Object.keys(peerDependencies),
    ...options,
  });
  return { metafile, nodeImports };
}

/** The subpaths of the package that work in browsers, with the files that they lead to. */
export function browserSubpaths(exports) {
  return Object.entries(exports).filter(
    ([, target]) => target.endsWith(".js") && !/^\.\/dist\/(platform\/node|training|cli|viewer)\//.test(target),
  );
}

/** The WebAssembly that has to lie beside a bundle, which esbuild does not copy. */
export const BROTLI_WASM = join(root, "node_modules/brotli-dec-wasm/pkg/brotli_dec_wasm_bg.wasm");
