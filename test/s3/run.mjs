// Tests the S3 store against a real server, versitygw, which is built from the Go module proxy when it is not there yet.
// Ends with one line: N passed, N failed.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const VERSION = "v1.8.0";
const folder = join(root, ".cache", `versitygw-${VERSION}`);
const binary = join(folder, "versitygw");

if (!existsSync(binary)) {
  const { status } = spawnSync("go", ["install", `github.com/versity/versitygw/cmd/versitygw@${VERSION}`], {
    env: { ...process.env, GOBIN: folder },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status !== 0) {
    console.log(`no S3 server: "go install" of versitygw ${VERSION} ended with ${status ?? "no Go found"}`);
    console.log("0 passed, 1 failed");
    process.exit(1);
  }
}

const work = mkdtempSync(join(tmpdir(), "cairn-s3-"));
mkdirSync(join(work, "data", "cairn-test"), { recursive: true });
const port = await freePort();
const server = spawn(
  binary,
  ["--port", `127.0.0.1:${port}`, "--access", "test", "--secret", "testtest", "posix", join(work, "data")],
  { stdio: ["ignore", "ignore", "pipe"] },
);
let complaints = "";
server.stderr.on("data", (data) => {
  complaints += data;
});
let code = 1;
try {
  await untilReady(port);
  const report = join(work, "report.json");
  const vitest = spawn(
    process.execPath,
    [
      join(root, "node_modules/vitest/vitest.mjs"),
      "run",
      "--config",
      "vitest.s3.config.ts",
      "--reporter=default",
      "--reporter=json",
      `--outputFile=${report}`,
    ],
    {
      cwd: root,
      stdio: "inherit",
      env: {
        ...process.env,
        AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`,
        AWS_ACCESS_KEY_ID: "test",
        AWS_SECRET_ACCESS_KEY: "testtest",
        AWS_REGION: "us-east-1",
        CAIRN_S3_ROOT: "s3://cairn-test",
      },
    },
  );
  code = await new Promise((resolve) => vitest.on("close", resolve));
  const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"));
  console.log(`${numPassedTests} passed, ${numFailedTests} failed`);
} catch (error) {
  console.log(`${error}\n${complaints.slice(-2000)}\n0 passed, 1 failed`);
} finally {
  server.kill();
  rmSync(work, { recursive: true, force: true });
}
process.exit(code);

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port: free } = probe.address();
      probe.close(() => resolve(free));
    });
  });
}

async function untilReady(number) {
  for (let i = 0; i < 200; i++) {
    const isUp = await new Promise((resolve) => {
      const socket = connect(number, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      }).on("error", () => resolve(false));
    });
    if (isUp) return;
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the server did not come up");
}
