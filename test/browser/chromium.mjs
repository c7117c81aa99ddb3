// Finds a Chromium, or installs Debian's where that can be done.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const DEBIAN_PATH = "/usr/bin/chromium";

/** The path of a Chromium: that of the variable CHROMIUM, or Debian's. */
function findChromium() {
  const given = process.env.CHROMIUM;
  if (given !== undefined) {
    if (existsSync(given)) return given;
    throw new Error(`CHROMIUM is ${given}, and there is no such file`);
  }
  if (existsSync(DEBIAN_PATH)) return DEBIAN_PATH;
  if (process.getuid?.() === 0) {
    console.log("installing Chromium …");
    const install = ["install", "-y", "--no-install-recommends", "chromium"];
    for (const args of [["update", "-qq"], install])
      spawnSync("apt-get", args, { stdio: ["ignore", "ignore", "inherit"] });
    if (existsSync(DEBIAN_PATH)) return DEBIAN_PATH;
  }
  throw new Error(`no Chromium: install one, or set CHROMIUM to its path (looked for ${DEBIAN_PATH})`);
}

/** Starts Chromium without a window. */
export function launchChromium() {
  // Root has no sandbox to go into.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: findChromium(), args });
}
