// What runs in the browser: opens what it is told to and reports. The library comes as any page would bundle it.
import { inspect, isCairnError, listTensors, openTensors, verify } from "../../dist/index.js";
import { BlobFiles, useBrotliWasm } from "../../dist/platform/browser/index.js";
import { HttpFiles } from "../../dist/platform/http/index.js";

/** The files of a case as dropped ones: [path in the store, address here]. */
async function dropped(files) {
  const entries = await Promise.all(
    files.map(async ([path, url]) => {
      const bytes = await (await fetch(url)).arrayBuffer();
      return [path, new File([bytes], path.slice(path.lastIndexOf("/") + 1))];
    }),
  );
  return new BlobFiles(entries);
}

/** The files that an input element holds. */
const chosen = (id) => BlobFiles.of(document.getElementById(id).files);

function storeOf({ files, input }) {
  if (input !== undefined) return chosen(input);
  return files === undefined ? new HttpFiles() : dropped(files);
}

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Lists and hashes all tensors, and reads one again to be hashed by the browser itself. */
async function readTensors(files, path) {
  const { detection, tensors } = await openTensors(files, path);
  try {
    const list = [];
    for await (const { key, dtype, shape, sha256 } of listTensors(tensors, { sha256: true })) {
      list.push({ key, dtype, shape, sha256 });
    }
    let last = null;
    if (list.length > 0) {
      const data = await tensors.data(list.at(-1).key);
      last = hex(await crypto.subtle.digest("SHA-256", new Uint8Array(await data.read(0, data.size))));
    }
    return { format: detection.format, tensors: list, last };
  } finally {
    await tensors.close();
  }
}

async function look(files, path) {
  const { ok, findings } = await verify(files, path);
  const { root, close } = await inspect(files, path);
  const children = (await root.children?.())?.length ?? 0;
  await close();
  return { ok, findings: findings.map(({ code }) => code), kind: root.kind, children };
}

/** Runs a case; an error of the library is a result too. */
async function run(one) {
  try {
    if (one.brotliWasm !== undefined) useBrotliWasm(one.brotliWasm);
    const files = await storeOf(one);
    const read = await readTensors(files, one.path);
    return { ...read, ...(one.look ? await look(files, one.path) : {}) };
  } catch (error) {
    if (isCairnError(error)) return { error: error.code, file: error.file };
    throw error;
  }
}

/** What of Node a page has: nothing. */
const shims = () => ["process", "Buffer", "require", "global", "__dirname"].filter((name) => name in globalThis);

globalThis.cairnTest = { run, shims };
