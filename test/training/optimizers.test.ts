import "@tensorflow/tfjs-backend-cpu";
import { type Optimizer as TfOptimizer, tensor1d, train, variable } from "@tensorflow/tfjs-core";
import { describe, expect, it } from "vitest";
import { parseOptimizer } from "../../src/training/optimizers.js";
import { wave } from "../support/training.js";

const STEPS = 20;
const COUNT = 50;

/** What an optimizer of cairn makes of a fixed series of gradients. */
function ours(type: string, args: string): number[] {
  const optimizer = parseOptimizer(type, args);
  const arrays = [
    wave(COUNT, 1),
    ...optimizer.slots.map(({ initialValue }) => new Float32Array(COUNT).fill(initialValue)),
  ];
  for (let step = 1; step <= STEPS; step++) {
    optimizer.kernel(optimizer.learningRate, step)(arrays, 0, wave(COUNT, 10 + step), 0, COUNT);
  }
  return Array.from(arrays[0] as Float32Array);
}

function tensorflows(optimizer: TfOptimizer): number[] {
  const value = variable(tensor1d(wave(COUNT, 1)), true, "w");
  for (let step = 1; step <= STEPS; step++) optimizer.applyGradients({ w: tensor1d(wave(COUNT, 10 + step)) });
  const values = Array.from(value.dataSync());
  value.dispose();
  return values;
}

describe("optimizers", () => {
  it.each<[string, string, () => TfOptimizer]>([
    ["SGD", "learning_rate=0.1;momentum=0.0;nesterov=false;", () => train.sgd(0.1)],
    ["SGD", "learning_rate=0.1;momentum=0.9;nesterov=false;", () => train.momentum(0.1, 0.9)],
    ["SGD", "learning_rate=0.1;momentum=0.9;nesterov=true;", () => train.momentum(0.1, 0.9, true)],
    [
      "Adam",
      "learning_rate=0.01;beta_1=0.8;beta_2=0.99;epsilon=0.0000001;amsgrad=false",
      () => train.adam(0.01, 0.8, 0.99, 1e-7),
    ],
    ["Adagrad", "learning_rate=0.1;initial_accumulator_value=0.1;epsilon=0.0000001", () => train.adagrad(0.1, 0.1)],
  ])("%s with %s does what TF.js's does", (type, args, make) => {
    const [mine, theirs] = [ours(type, args), tensorflows(make())];
    const start = wave(COUNT, 1);
    expect(Math.max(...mine.map((value, i) => Math.abs(value - (theirs[i] as number))))).toBeLessThan(2e-5);
    expect(mine.some((value, i) => Math.abs(value - (start[i] as number)) > 0.001)).toBe(true);
  });

  it("AMSGrad steps by the learning rate at first, and never by more than its greatest second moment allows", () => {
    const optimizer = parseOptimizer("Adam", "learning_rate=0.1;amsgrad=true");
    expect(optimizer.slots.map(({ name }) => name)).toEqual(["m", "v", "vhat"]);
    const arrays = Array.from({ length: 4 }, () => new Float32Array(1));
    optimizer.kernel(0.1, 1)(arrays, 0, Float32Array.of(1), 0, 1);
    // ElasticDL's Go server applies it twice: -0.234.
    expect(arrays[0]?.[0]).toBeCloseTo(-0.1, 5);
    const afterLarge = [...(arrays[3] as Float32Array)];
    optimizer.kernel(0.1, 2)(arrays, 0, Float32Array.of(0), 0, 1);
    expect([...(arrays[3] as Float32Array)]).toEqual(afterLarge);
    expect(arrays[2]?.[0]).toBeLessThan(afterLarge[0] as number);
  });

  it("takes the first steps that are published for Adam and Adagrad", () => {
    // Kingma and Ba, section 2.1: the first step is the learning rate, whatever the gradient's size.
    for (const gradient of [1e-3, 1, 1e3]) {
      const arrays = [Float32Array.of(0), Float32Array.of(0), Float32Array.of(0)];
      parseOptimizer("Adam").kernel(0.001, 1)(arrays, 0, Float32Array.of(gradient), 0, 1);
      expect((arrays[0] as Float32Array)[0]).toBeCloseTo(-0.001, 5);
    }
    // Duchi et al.: gradient / sqrt(sum of squares): 3 / sqrt(0.1 + 9).
    const arrays = [Float32Array.of(0), Float32Array.of(0.1)];
    parseOptimizer("Adagrad").kernel(1, 1)(arrays, 0, Float32Array.of(3), 0, 1);
    expect((arrays[0] as Float32Array)[0]).toBeCloseTo(-3 / Math.sqrt(9.1), 6);
  });

  it("reads settings as ElasticDL writes them, and writes them so that it reads them", () => {
    for (const [type, args] of [
      ["SGD", "learning_rate=0.1;momentum=0.0;nesterov=false;"],
      ["adam", "learning_rate=0.1;beta_1=0.9;beta_2=0.999;epsilon=1e-07;amsgrad=True;"],
      ["Adagrad", ""],
    ] as const) {
      const optimizer = parseOptimizer(type, args);
      expect(parseOptimizer(optimizer.type, optimizer.args).args).toBe(optimizer.args);
    }
    expect(parseOptimizer("SGD", "learning_rate=0.1;momentum=0.0;nesterov=false;").learningRate).toBe(0.1);
  });

  it.each([
    ["Ftrl", ""],
    ["SGD", "learning_rate"],
    ["SGD", "learning_rate="],
    ["SGD", "learning_rate=x"],
    ["SGD", "learning_rate=-1"],
    ["SGD", "learning_rate=1;learning_rate=1"],
    ["SGD", "beta_1=0.9"],
    ["SGD", "momentum=1.5"],
    ["SGD", "nesterov=1"],
    ["Adam", "beta_1=1"],
    ["SGD", "toString=1"],
    ["SGD", "learning_rate=0=1"],
  ])("refuses %s with %j", (type, args) => {
    expect(() => parseOptimizer(type, args)).toThrow(expect.objectContaining({ code: "usage" }));
  });
});
