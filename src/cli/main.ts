#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { runProgram } from "./program.js";

// Whoever reads the output may stop early, as `head` does; that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit();
  throw error;
});

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
await runProgram(process.argv.slice(2), version);
