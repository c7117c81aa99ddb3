import { mergeConfig } from "vitest/config";
import base from "./vitest.config.js";

/** The suites that take minutes or gigabytes. */
export default mergeConfig(base, {
  test: { include: ["test/long/**/*.test.ts"], exclude: [], testTimeout: 1_800_000, hookTimeout: 1_800_000 },
});
