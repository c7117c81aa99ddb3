// Bundles the command line to dist/bin, so that a command starts in the time of a few files instead of two hundred.
import { chmodSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(join(root, "dist/bin"), { recursive: true, force: true });
await build({
  absWorkingDir: root,
  entryPoints: { cairn: "dist/cli/main.js" },
  outdir: "dist/bin",
  bundle: true,
  // What a command does not use is in files that it does not load.
  splitting: true,
  chunkNames: "[name]-[hash]",
  platform: "node",
  target: "node20",
  format: "esm",
  // Packages with native or WebAssembly parts, or in CommonJS, stay packages.
  external: [
    "@aws-sdk/client-s3",
    "@node-rs/crc32",
    "highwayhasher",
    "@foxglove/wasm-zstd",
    "fzstd",
    "snappyjs",
    "commander",
    "@tensorflow/tfjs-core",
    "@tensorflow/tfjs-layers",
    "@tensorflow/tfjs-backend-cpu",
    "yaml",
  ],
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: "none",
  logLevel: "warning",
});
chmodSync(join(root, "dist/bin/cairn.js"), 0o755);
