import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: "#compression", replacement: path("./src/platform/node/compression.ts") },
      { find: "#hashing", replacement: path("./src/platform/node/hashing.ts") },
      // For tests of what is public.
      { find: /^cairn$/, replacement: path("./src/index.ts") },
      { find: /^cairn\/bytes$/, replacement: path("./src/bytes/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/interop/**", "test/s3/**", "test/long/**"],
    testTimeout: 60_000,
    pool: "threads",
    // Vitest leaves a core to itself, of two that is half.
    maxWorkers: 2,
  },
});
