// What every target shares: files in memory, and a reader of all that a path holds. Only a CairnError is an answer to
// foreign bytes; whatever else is thrown goes through to the fuzzer, as a finding.
import { MemoryStore } from "../../dist/bytes/memory-store.js";
import { CairnError } from "../../dist/errors.js";
import { detectFormat } from "../../dist/formats/registry.js";

/** Nodes of an outline that are asked for their children. */
const MAX_NODES = 300;
/** Tensors that are read, and bytes of each: a small file may announce many and large ones. */
const MAX_TENSORS = 100;
const MAX_READ_BYTES = 1 << 16;

/** Files in memory, by their paths. */
export function storeOf(files) {
  return new MemoryStore(Object.entries(files));
}

/** Does some work, for which a typed error is an answer too. */
export async function allowed(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
    if (error.code === "usage" && error.message === "") throw new TypeError("an error without words");
    return undefined;
  }
}

/** Looks at all that a path holds, in every way that there is: outline, check, tensors and regions of them. */
export async function readEverything(files, path) {
  const found = await allowed(() => detectFormat(files, path));
  if (found === undefined) return;
  const { format, detection } = found;
  await allowed(async () => {
    const outline = await format.outline(detection);
    try {
      await walk(outline.root);
    } finally {
      await outline.close();
    }
  });
  await allowed(async () => {
    for await (const event of format.verify(detection)) void event;
  });
  await allowed(async () => {
    const tensors = await format.openTensors?.(detection);
    if (tensors === undefined) return;
    try {
      await readTensors(tensors);
    } finally {
      await tensors.close();
    }
  });
}

async function walk(root) {
  const waiting = [root];
  for (let i = 0; i < MAX_NODES && waiting.length > 0; i++) {
    const node = waiting.shift();
    await allowed(async () => waiting.push(...((await node.children?.()) ?? [])));
  }
}

async function readTensors(tensors) {
  let count = 0;
  for await (const { key, shape, embedding } of tensors.tensors()) {
    if (++count > MAX_TENSORS) break;
    await allowed(() => start(tensors.data(key)));
    await allowed(() =>
      start(
        tensors.data(
          key,
          shape.map((size) => ({ start: size >> 1, end: size })),
        ),
      ),
    );
    if (embedding !== undefined) await allowed(async () => (await tensors.ids?.(key))?.length);
  }
  await tensors.verify();
}

async function start(source) {
  const data = await source;
  const length = Math.min(data.size, MAX_READ_BYTES);
  if ((await data.read(0, length)).length !== length) throw new TypeError("a short read");
}

/** Cuts fuzzed bytes into parts: each has its length in two bytes before it, and the last is what is left. */
export function partsOf(data, count) {
  const parts = [];
  let rest = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  while (parts.length < count - 1) {
    const length = rest.length < 2 ? 0 : Math.min(rest[0] | (rest[1] << 8), rest.length - 2);
    parts.push(rest.subarray(2, 2 + length));
    rest = rest.subarray(Math.min(rest.length, 2 + length));
  }
  return [...parts, rest];
}

/** The other way round. */
export function joinParts(parts) {
  const bytes = parts.flatMap((part, i) =>
    i === parts.length - 1 ? [part] : [Uint8Array.of(part.length & 255, part.length >> 8), part],
  );
  return Buffer.concat(bytes);
}
