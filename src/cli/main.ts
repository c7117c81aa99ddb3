#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { runProgram } from "./program.js";
import { EXIT } from "./terminal.js";

// Whoever reads the output may stop early, as `head` does; that is no error, unless the output is the data itself, for
// which the exit code is set before.
process.stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
  if (code === "EPIPE") process.exit();
  process.stderr.write(`error: standard output: cannot write: ${message}\n`);
  process.exit(EXIT.output);
});
// Nobody listens any more.
process.stderr.on("error", () => {});

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
await runProgram(process.argv.slice(2), version);
