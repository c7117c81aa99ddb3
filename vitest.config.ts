import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

export default defineConfig({
  resolve: {
    alias: {
      "#compression": path("./src/platform/node/compression.ts"),
      "#hashing": path("./src/platform/node/hashing.ts"),
    },
  },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/interop/**", "test/s3/**", "test/long/**"],
    testTimeout: 60_000,
    pool: "threads",
  },
});
