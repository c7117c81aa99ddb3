import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { toIds } from "../../src/training/ids.js";
import { emptyModel, type ModelMessage, type TensorMessage } from "../../src/training/messages.js";
import { parseOptimizer } from "../../src/training/optimizers.js";
import { Parameters } from "../../src/training/parameters.js";
import { PserverService, type SgdOptions } from "../../src/training/pserver-service.js";
import { fixturePath } from "../support/fixtures.js";

interface Step {
  accepted?: boolean;
  version?: number;
  error?: string;
  message?: string;
  dense: Record<string, number[]>;
  rows: Record<string, [ids: string[], rows: number[][]]>;
  dense_after: Record<string, number[]>;
  tables_after: Record<string, Record<string, number[]>>;
  grad_version: number;
  learning_rate: number;
  saved?: string[];
  slot_tables: string[];
}

interface Trace {
  config: Record<string, boolean | number>;
  optimizer: string;
  pull_dense: { initialized: boolean; request_version: number; variables: string[]; version: number }[];
  steps: Step[];
}

const traces = JSON.parse(readFileSync(fixturePath("elasticdl/sgd_traces.json"), "utf8")) as Record<string, Trace>;

const tensor = (values: number[], shape = [values.length]): TensorMessage => ({
  dtype: 1,
  shape,
  content: new Uint8Array(Float32Array.from(values).buffer),
});

/** The model that the traces begin with: its version is one before the first answer of an accepted push. */
function firstModel(trace: Trace): ModelMessage {
  const first = trace.steps[0] as Step;
  const waits = (trace.config.grads_to_wait as number | undefined) ?? 1;
  const model = emptyModel();
  const hasTables = trace.steps.some((step) => Object.keys(step.tables_after).length > 0);
  model.modelVersion = first.version === undefined ? 0 : first.version - (waits === 1 ? 1 : 0);
  if (trace.steps.some((step) => "w" in step.dense_after)) model.denseParameters.set("w", tensor([1, 2]));
  if (hasTables) model.tableInfos.push({ name: "e", dim: 2, initializer: "zeros", dtype: 1 });
  return model;
}

function gradientsOf(step: Step): ModelMessage {
  const model = emptyModel();
  model.modelVersion = step.grad_version;
  for (const [name, values] of Object.entries(step.dense)) model.denseParameters.set(name, tensor(values));
  for (const [name, [ids, rows]] of Object.entries(step.rows)) {
    const shape = [rows.length, rows[0]?.length ?? 0];
    model.embeddingTables.set(name, { tensor: tensor(rows.flat(), shape), ids: toIds(ids.map(BigInt)) });
  }
  return model;
}

function stateOf(parameters: Parameters, step: Step): Pick<Step, "dense_after" | "tables_after"> {
  const dense = Array.from(parameters.dense, ([name, { arrays }]) => [name, Array.from(arrays[0] as Float32Array)]);
  const tables = Object.entries(step.tables_after).map(([name, rows]) => [
    name,
    Object.fromEntries(Object.keys(rows).map((id) => [id, Array.from(parameters.table(name).row(BigInt(id)))])),
  ]);
  return { dense_after: Object.fromEntries(dense), tables_after: Object.fromEntries(tables) };
}

describe("the servicer does what ElasticDL's did", () => {
  const withTraces = Object.entries(traces);
  it.each(withTraces)("%s", (_name, trace) => {
    const { config } = trace;
    const optimizer =
      trace.optimizer === "Adam"
        ? parseOptimizer("Adam", "learning_rate=0.1")
        : parseOptimizer("SGD", "learning_rate=0.5");
    const parameters = new Parameters({ optimizer });
    const updates: number[] = [];
    const service = new PserverService(parameters, {
      useAsync: config.use_async as boolean | undefined,
      gradsToWait: config.grads_to_wait as number | undefined,
      syncVersionTolerance: config.sync_version_tolerance as number | undefined,
      lrStalenessModulation: config.lr_staleness_modulation as boolean | undefined,
      onUpdate: (version) => void updates.push(version),
    } satisfies SgdOptions);
    service.pushModel(firstModel(trace));
    for (const step of trace.steps) {
      const push = () =>
        service.pushGradients({ gradients: gradientsOf(step), learningRate: Math.fround(step.learning_rate) });
      if (step.error !== undefined) {
        expect(push).toThrow(expect.objectContaining({ summary: step.message }));
        expect(push).toThrow(expect.toSatisfy((error) => isCairnError(error)));
      } else expect(push()).toEqual({ accepted: step.accepted, modelVersion: step.version });
      const { dense_after, tables_after } = step;
      expect(stateOf(parameters, step)).toEqual({ dense_after, tables_after });
      if (step.saved !== undefined) expectSaves(step.saved, updates);
      for (const slot of step.slot_tables) {
        const [table = "", name] = slot.split("-");
        expect(parameters.table(table)).toBeDefined();
        expect(optimizer.slots.map((one) => one.name)).toContain(name);
      }
    }
    for (const pull of trace.pull_dense) {
      const answer = service.pullDenseParameters(pull.request_version);
      expect([answer.initialized, answer.modelVersion, [...answer.denseParameters.keys()]]).toEqual([
        pull.initialized,
        pull.version,
        pull.variables,
      ]);
    }
  });

  it("has a trace for every rule", () => expect(withTraces).toHaveLength(10));
});

/** The versions that a server which saves every so many steps, as the trace's did, has saved are among those it reached. */
function expectSaves(saved: string[], updates: number[]): void {
  for (const name of saved) expect(updates).toContain(Number(name.slice("version-".length)));
}
