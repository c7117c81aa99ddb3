import { mergeConfig } from "vitest/config";
import base from "./vitest.config.js";

/** The suites that take minutes or gigabytes. */
export default mergeConfig(
  // Lists are joined when they are merged.
  { ...base, test: { ...base.test, include: [], exclude: [] } },
  { test: { include: ["test/long/**/*.test.ts"], testTimeout: 1_800_000, hookTimeout: 1_800_000 } },
);
