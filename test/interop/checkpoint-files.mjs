// Checkpoints that cairn wrote, tensor by tensor, for TensorFlow to read: the fixtures under another sharding, merged from
// parts, and put in the place of another.
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { mergeCheckpoints, openCheckpoint, parseSliceSpec, writeCheckpoint } from "cairn/checkpoint";
import { localFiles as files } from "cairn/node";

/** Dtypes whose slices TensorFlow 2.18 does not put together: it says "Dtype half not supported." */
const NOT_JOINED = /^(float16|uint16|uint32|uint64|string|float8_.*|qint16|quint16)$/;
const CPU = "/job:localhost/replica:0/task:0/device:CPU:0";

function prefixesUnder(directory) {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".index"))
    .map((name) => name.slice(0, -".index".length))
    .sort();
}

async function sha256(source) {
  return createHash("sha256")
    .update(await source.read(0, source.size))
    .digest("hex");
}

const hexOf = (key) => (key.startsWith("hex:") ? key.slice(4) : Buffer.from(key).toString("hex"));

/** What TensorFlow has to read: each tensor, or where it cannot join the slices, each slice. */
async function valuesOf(reader) {
  const values = [];
  for await (const { key, dtype, shape, slices } of reader.entries()) {
    if (dtype === "variant") continue;
    const keyHex = hexOf(key);
    for (const { extents } of slices) {
      const spec = `${shape.join(" ")} ${extents}`;
      const { region } = parseSliceSpec(spec);
      const part = region.map(({ start, end }) => end - start);
      values.push({ keyHex, dtype, shape: part, spec, sha256: await sha256(await reader.data(key, region)) });
    }
    if (slices.length > 0 && NOT_JOINED.test(dtype)) continue;
    values.push({ keyHex, dtype, shape, spec: "", sha256: await sha256(await reader.data(key)) });
  }
  return values;
}

/** Every tensor and slice of a checkpoint, dealt out to shards. Those of fixed width are cut in two where they can be. */
async function dealt(reader, shardCount, isCut) {
  const shards = Array.from({ length: shardCount }, () => ({ task: CPU, slices: [] }));
  let next = 0;
  const deal = (slice) => shards[next++ % shardCount].slices.push(slice);
  for await (const { key, dtype, shape } of reader.entries()) {
    const tensor = await reader.lazyTensor(key);
    const whole = shape.map((size) => ({ start: 0, end: size }));
    if (!isCut || dtype === "variant" || (shape[0] ?? 0) < 2 || shape.includes(0)) {
      deal({ key, sliceSpec: "", fullShape: shape, region: whole, tensor });
      continue;
    }
    const middle = Math.ceil(shape[0] / 2);
    for (const range of [
      { start: 0, end: middle },
      { start: middle, end: shape[0] },
    ]) {
      const region = [range, ...whole.slice(1)];
      const sizes = region.map(({ start, end }) => end - start);
      const data = () => reader.data(key, region);
      const { size: byteLength } = await data();
      const rest = whole.slice(1).map(() => "-");
      const sliceSpec = `${shape.join(" ")} ${[`${range.start},${range.end - range.start}`, ...rest].join(":")}`;
      deal({ key, sliceSpec, fullShape: shape, region, tensor: { dtype, shape: sizes, byteLength, data } });
    }
  }
  return { description: "dealt out", shards: shards.filter(({ slices }) => slices.length > 0), warnings: [] };
}

/** Adds the cases; `fixtures` is the directory of TensorFlow's checkpoints. */
export async function checkpointFileCases(cases, fixtures, work) {
  for (const name of prefixesUnder(fixtures)) {
    const reader = await openCheckpoint(join(fixtures, name), { files });
    const at = (suffix) => join(work, "files", `${name}-${suffix}`);
    const add = async (what, prefix) => {
      const written = await openCheckpoint(prefix, { files });
      cases.push({
        kind: "checkpoint_values",
        name: `TensorFlow reads ${name}, ${what} by cairn`,
        prefix,
        values: await valuesOf(written),
      });
      await written.close();
    };
    if (name !== "many/many") {
      await writeCheckpoint(files, at("cut"), await dealt(reader, 3, true));
      await add("cut and dealt out", at("cut"));
    }
    const plan = await dealt(reader, 4, false);
    await writeCheckpoint(files, at("replaced"), await dealt(reader, 2, false));
    await writeCheckpoint(files, at("replaced"), plan, { overwrite: true });
    await add("put in another's place", at("replaced"));
    const parts = [];
    for (const [i, shard] of plan.shards.entries()) {
      parts.push(join(`${at("merged")}_temp`, `part-${i}`));
      await writeCheckpoint(files, parts[i], { ...plan, shards: [shard] });
    }
    await mergeCheckpoints(files, parts, at("merged"), { move: true });
    await add("merged", at("merged"));
    await reader.close();
  }
}
