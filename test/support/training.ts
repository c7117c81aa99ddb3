import { toIds } from "../../src/training/ids.js";
import {
  emptyModel,
  type GradientsMessage,
  type ModelMessage,
  type TensorMessage,
} from "../../src/training/messages.js";
import type { Parameters } from "../../src/training/parameters.js";

/** A float32 tensor as a message. */
export function floats(values: ArrayLike<number>, shape: number[] = [values.length]): TensorMessage {
  return { dtype: 1, shape, content: new Uint8Array(Float32Array.from(values).buffer) };
}

/** The floats in bytes. */
export function numbers(bytes: Uint8Array): number[] {
  return Array.from(new Float32Array(Uint8Array.from(bytes).buffer));
}

/** Numbers that look random and are the same each time. */
export function wave(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898 + seed * 78.233));
}

const sizeOf = (shape: number[]): number => shape.reduce((a, b) => a * b, 1);

/** A model to push: dense variables by shape, embedding tables by width. */
export function model(
  parts: { dense?: Record<string, number[]>; tables?: Record<string, number> },
  modelVersion = 0,
): ModelMessage {
  const message = { ...emptyModel(), modelVersion };
  for (const [name, shape] of Object.entries(parts.dense ?? {})) {
    message.denseParameters.set(name, floats(wave(sizeOf(shape), name.length), shape));
  }
  for (const [name, dim] of Object.entries(parts.tables ?? {})) {
    message.tableInfos.push({ name, dim, initializer: "uniform", dtype: 1 });
  }
  return message;
}

/** Gradients to push: dense ones by shape, rows by ids and width. */
export function gradients(
  parts: { dense?: Record<string, number[]>; rows?: Record<string, [ids: bigint[], dim: number]> },
  seed: number,
  modelVersion = 0,
): GradientsMessage {
  const message = { ...emptyModel(), modelVersion };
  for (const [name, shape] of Object.entries(parts.dense ?? {})) {
    message.denseParameters.set(name, floats(wave(sizeOf(shape), seed), shape));
  }
  for (const [name, [ids, dim]] of Object.entries(parts.rows ?? {})) {
    const tensor = floats(wave(ids.length * dim, seed), [ids.length, dim]);
    message.embeddingTables.set(name, { tensor, ids: toIds(ids) });
  }
  return { gradients: message, learningRate: 0 };
}

/** All that a server knows: of each variable and row the values, then the slots. */
export interface ModelState {
  modelVersion: number;
  step: number;
  learningRate: number;
  dense: Record<string, number[][]>;
  tables: Record<string, Record<string, number[][]>>;
}

/** The state of parameters, copied. */
export function stateOf(parameters: Parameters): ModelState {
  const { modelVersion, step, learningRate, dense, tables } = parameters;
  return {
    modelVersion,
    step,
    learningRate,
    dense: Object.fromEntries(
      Array.from(dense, ([name, { arrays }]) => [name, arrays.map((array) => Array.from(array))]),
    ),
    tables: Object.fromEntries(
      Array.from(tables, ([name, table]) => {
        const rows: Record<string, number[][]> = {};
        for (let row = 0; row < table.rowCount; row++) {
          const block = table.blocks[Math.floor(row / table.rowsPerBlock)];
          const id = new BigInt64Array(block?.ids.buffer as SharedArrayBuffer)[row % table.rowsPerBlock];
          const start = table.offsetOf(row);
          rows[String(id)] = table.arraysOf(row).map((array) => Array.from(array.subarray(start, start + table.dim)));
        }
        return [name, rows];
      }),
    ),
  };
}
