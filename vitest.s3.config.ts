import { mergeConfig } from "vitest/config";
import base from "./vitest.config.js";

/** The tests that need a real S3 server; `test/s3/run.mjs` starts one. */
export default mergeConfig(
  { ...base, test: { ...base.test, include: [], exclude: [] } },
  { test: { include: ["test/s3/**/*.test.ts"] } },
);
