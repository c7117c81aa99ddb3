// Serves files on loopback, with ranges and ETags as web servers do.
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".wasm": "application/wasm" };
/** No script but ours, none from text, and WebAssembly: a strict page can use the library. */
const POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";

/** Serves the paths that `find` knows as the files it gives for them. */
export async function serve(find) {
  const requests = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const file = find(path);
    requests.push({ path, range: request.headers.range });
    if (file === undefined || !statSync(file, { throwIfNoEntry: false })?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    const bytes = readFileSync(file);
    const headers = {
      "content-type": TYPES[extname(file)] ?? "application/octet-stream",
      "content-security-policy": POLICY,
      "accept-ranges": "bytes",
      etag: `"${createHash("sha256").update(bytes).digest("hex").slice(0, 16)}"`,
    };
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
    if (from === undefined) {
      response.writeHead(200, { ...headers, "content-length": bytes.length }).end(sent(request, bytes));
      return;
    }
    const start = Number(from);
    const end = Math.min(to === "" ? bytes.length : Number(to) + 1, bytes.length);
    if (start >= bytes.length) {
      response.writeHead(416, { ...headers, "content-range": `bytes */${bytes.length}` }).end();
      return;
    }
    const range = { "content-range": `bytes ${start}-${end - 1}/${bytes.length}`, "content-length": end - start };
    response.writeHead(206, { ...headers, ...range }).end(sent(request, bytes.subarray(start, end)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, requests, close: () => server.close() };
}

function sent({ method }, bytes) {
  return method === "HEAD" ? undefined : bytes;
}
