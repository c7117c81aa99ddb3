// Makes SavedModels of any size as `.pb` files, without ever holding one: half of the constants random floats, half
// repetitive, small nodes and functions around them.
import { open } from "node:fs/promises";

const utf8 = new TextEncoder();

function varint(value) {
  const bytes = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}

function join(...parts) {
  return new Uint8Array(Buffer.concat(parts.map((part) => (typeof part === "string" ? utf8.encode(part) : part))));
}

function field(number, payload) {
  const bytes = typeof payload === "string" ? utf8.encode(payload) : payload;
  return join(varint(number * 8 + 2), varint(bytes.length), bytes);
}

const number = (fieldNumber, value) => join(varint(fieldNumber * 8), varint(value));

/** A message whose contents are written piece by piece: its head now, the rest when it is written. */
function streamed(fieldNumber, parts) {
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  const head = join(varint(fieldNumber * 8 + 2), varint(size));
  return { size: head.length + size, parts: [{ size: head.length, bytes: head }, ...parts] };
}

const plain = (bytes) => ({ size: bytes.length, bytes });

const entry = (name, value) => field(5, join(field(1, name), field(2, value)));

function smallNode(i) {
  return join(
    field(1, `model/layer_${(i * 7919) % 997}/block_${i % 31}/MatMul_${i}`),
    field(2, "MatMul"),
    field(3, `model/layer_${(i * 31) % 997}/ReadVariableOp_${i}`),
    field(3, `model/layer_${(i * 37) % 997}/Relu_${i}`),
    entry("T", number(6, 1)),
    entry("transpose_a", number(5, 0)),
    entry("transpose_b", number(5, i & 1)),
  );
}

function constant(name, elements, kind) {
  const shape = field(2, number(1, elements));
  const rest = join(number(1, 1), field(2, shape));
  const content = { size: elements * 4, content: kind };
  const tensor = streamed(8, [plain(rest), ...streamed(4, [content]).parts, ...[]]);
  const value = streamed(2, tensor.parts);
  const attr = streamed(5, [plain(field(1, "value")), ...value.parts]);
  const before = join(field(1, name), field(2, "Const"), entry("dtype", number(6, 1)));
  return [plain(before), ...attr.parts];
}

function functionDef(i, nodes) {
  const signature = join(
    field(1, `__inference_fn_${i}`),
    field(2, join(field(1, "x"), number(3, 1))),
    field(3, join(field(1, "y"), number(3, 1))),
  );
  const body = Array.from({ length: nodes }, (_, k) => field(3, smallNode(i * 1000 + k)));
  return join(field(1, signature), ...body, field(4, join(field(1, "y"), field(2, "MatMul_0:product:0"))));
}

/**
 * Writes a model of about `bytes` bytes.
 * @param {string} path
 * @param {{ bytes: number, nodes?: number, functions?: number, constantBytes?: number }} options
 * @returns {Promise<number>} its exact size
 */
export async function makeModel(path, { bytes, nodes = 100_000, functions = 200, constantBytes = 8 << 20 }) {
  const nodeParts = [];
  let batch = [];
  for (let i = 0; i < nodes; i++) {
    batch.push(field(1, smallNode(i)));
    if (batch.length === 1000 || i === nodes - 1) {
      nodeParts.push(plain(join(...batch)));
      batch = [];
    }
  }
  const library = field(2, join(...Array.from({ length: functions }, (_, i) => field(1, functionDef(i, 20)))));
  const small = nodeParts.reduce((sum, part) => sum + part.size, 0) + library.length;
  const count = Math.max(1, Math.round((bytes - small) / constantBytes));
  const constantParts = [];
  for (let i = 0; i < count; i++) {
    const kind = i % 2 === 0 ? { random: i } : { repeat: i };
    constantParts.push(
      ...streamed(1, constant(`model/weights_${i}/Const`, Math.floor(constantBytes / 4) + i, kind)).parts,
    );
  }
  const graph = streamed(2, [...nodeParts, ...constantParts, plain(library), plain(field(4, number(1, 1882)))]);
  const signature = join(
    field(1, join(field(1, "x"), field(2, join(field(1, "serving_default_x:0"), number(2, 1))))),
    field(2, join(field(1, "y"), field(2, join(field(1, "StatefulPartitionedCall:0"), number(2, 1))))),
    field(3, "tensorflow/serving/predict"),
  );
  const meta = join(field(4, "serve"), field(5, "2.18.1"));
  const metaGraph = streamed(2, [
    plain(field(1, meta)),
    ...graph.parts,
    plain(field(5, join(field(1, "serving_default"), field(2, signature)))),
  ]);
  const all = [plain(number(1, 1)), ...metaGraph.parts];
  const file = await open(path, "w");
  let total = 0;
  for (const part of all) {
    if (part.bytes) await file.write(part.bytes);
    else await writeContent(file, part.size, part.content);
    total += part.size;
  }
  await file.close();
  return total;
}

async function writeContent(file, size, kind) {
  const block = new Float32Array(1 << 18);
  let done = 0;
  let state = (kind.random ?? kind.repeat) * 2654435761 + 12345;
  while (done < size) {
    if (kind.random !== undefined || done === 0) {
      for (let i = 0; i < block.length; i++) {
        if (kind.random === undefined) block[i] = ((i + kind.repeat) % 1000) * 0.001;
        else {
          state = (Math.imul(state, 1664525) + 1013904223) | 0;
          const a = (state >>> 8) / 16777216 + 1e-9;
          block[i] = Math.sqrt(-2 * Math.log(a)) * Math.cos(i);
        }
      }
    }
    const bytes = new Uint8Array(block.buffer, 0, Math.min(block.byteLength, size - done));
    await file.write(bytes);
    done += bytes.length;
  }
}
