import { describe, expect, it } from "vitest";
import { shouldStop } from "../../../src/training/job/early-stop.js";
import { EvaluationRound } from "../../../src/training/job/evaluation-round.js";
import { bestMetricOf } from "../../../src/training/job/job-options.js";
import { METRICS } from "../../../src/training/model/metric-functions.js";
import { floats } from "../../support/training.js";

const record = (mode: "max" | "min", ...values: (number | undefined)[]) => ({
  best: { metric: "m", mode },
  versions: values.map((m, i) => ({
    version: 10 * (i + 1),
    metrics: m === undefined ? {} : ({ m } as Record<string, number>),
  })),
});

describe("early stopping", () => {
  it.each([
    [record("max", 1, 2, 3), 1, false],
    [record("max", 1, 3, 2), 1, true],
    [record("max", 1, 3, 2), 2, false],
    [record("max", 1, 3, 2, 2), 2, true],
    [record("min", 1, 3, 2), 2, true],
    // To be as good as before is not to be better.
    [record("min", 1, 1, 1), 2, true],
    [record("min", undefined, undefined, undefined), 2, true],
    [record("min", undefined, 5), 2, false],
    [record("min", 1, 2, 3, 4, 5), 0, false],
  ])("%j with patience %i: %s", (given, patience, expected) => {
    expect(shouldStop(given, patience)).toBe(expected);
  });
});

const version = { round: 1, modelVersion: 5, path: "v" };
const outputs = (...values: number[]) => ({
  outputs: new Map([["out", { values: Float32Array.from(values), shape: [values.length] }]]),
  labels: floats(values.map((value) => value + 1)),
});

describe("an evaluation", () => {
  it("has the records in their order, whoever hands them in when", () => {
    const round = new EvaluationRound(version, 5, 2);
    const [first, second, third] = [round.take(0), round.take(1), round.take(2)];
    expect(round.take(3)).toBeUndefined();
    expect([first, second, third].map((part) => [part?.start, part?.end])).toEqual([
      [0, 2],
      [2, 4],
      [4, 5],
    ]);
    round.handIn(2, outputs(5));
    round.complete(2);
    round.handIn(0, outputs(1, 2));
    round.recover((workerId) => workerId === 0);
    round.complete(0);
    expect(round.isDone).toBe(false);
    expect(round.take(1)?.index).toBe(0);
    round.giveBack(1);
    round.handIn(1, outputs(1, 2));
    round.complete(0);
    expect(round.take(4)?.index).toBe(1);
    round.handIn(4, outputs(3, 4));
    round.complete(1);
    expect(round.isDone).toBe(true);
    const seen: number[][] = [];
    const metrics = round.metrics(
      new Map([["n", ({ output, labels, count }) => seen.push([...output], [...labels], [count])]]),
    );
    expect(seen).toEqual([[1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [5]]);
    expect(metrics).toEqual({ n: 3 });
  });

  it("does not count a range without outputs", () => {
    const round = new EvaluationRound(version, 1, 2);
    round.take(0);
    round.complete(0);
    expect(round.isDone).toBe(false);
    expect(round.take(0)?.index).toBe(0);
  });
});

describe("ready metrics", () => {
  const compute = (name: string, labels: number[], output: number[], count = labels.length) =>
    METRICS.get(name)?.compute({
      labels: Float32Array.from(labels),
      output: Float32Array.from(output),
      outputs: {},
      count,
    });

  // Of auc: sklearn.metrics.roc_auc_score's own example, 0.75; ties count half.
  it.each([
    ["mse", [1, 2], [2, 4], 2, 2.5],
    ["rmse", [1, 2], [2, 4], 2, Math.sqrt(2.5)],
    ["mae", [1, 2], [2, 0], 2, 1.5],
    ["log_loss", [1, 0], [0.5, 0.5], 2, Math.log(2)],
    ["binary_accuracy", [1, 0, 1], [0.9, 0.2, 0.1], 3, 2 / 3],
    ["accuracy", [2, 0], [0.1, 0.2, 0.7, 0.1, 0.8, 0.1], 2, 0.5],
    ["accuracy", [0, 1, 1, 0], [0.3, 0.7, 0.2, 0.8], 2, 0.5],
    ["auc", [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 4, 0.75],
    ["auc", [0, 1], [0.5, 0.5], 2, 0.5],
    ["auc", [1, 1], [0.5, 0.5], 2, Number.NaN],
  ])("%s of %j and %j", (name, labels, output, count, expected) => {
    const value = compute(name, labels, output, count);
    if (Number.isNaN(expected)) expect(value).toBeNaN();
    else expect(value).toBeCloseTo(expected, 6);
  });
});

describe("the best metric", () => {
  it("is the first unless said, and ready ones know their mode", () => {
    expect(bestMetricOf(undefined, ["auc", "mse"])).toEqual({ metric: "auc", mode: "max" });
    expect(bestMetricOf("mse", ["auc", "mse"])).toEqual({ metric: "mse", mode: "min" });
    expect(bestMetricOf("own:max", ["own"])).toEqual({ metric: "own", mode: "max" });
    expect(() => bestMetricOf("own", ["own"])).toThrow(/own:min or own:max/);
    expect(() => bestMetricOf("other:min", ["own"])).toThrow(/one of own/);
    expect(() => bestMetricOf(undefined, [])).toThrow(/a metric in the model definition/);
  });
});
