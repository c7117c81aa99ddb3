import { UsageError } from "../errors.js";

/** Changes `count` numbers of a parameter by its gradient. */
export type UpdateKernel = (
  /** The values, then each slot; all from `start`. */
  arrays: readonly Float32Array[],
  start: number,
  gradients: Float32Array,
  /** Where in `gradients` those of these numbers begin. */
  from: number,
  count: number,
) => void;

/** What a parameter keeps beside its values. */
export interface OptimizerSlot {
  /** As Keras calls it: a table's slot is `{table}-{name}` in ElasticDL. */
  readonly name: string;
  /** What it begins with. */
  readonly initialValue: number;
}

/** An optimizer: what it keeps for each number, and how a gradient changes it. All arithmetic is in float32, as TensorFlow's. */
export interface Optimizer {
  readonly type: "SGD" | "Adam" | "Adagrad";
  /** Learning rate when no push says one. */
  readonly learningRate: number;
  readonly slots: readonly OptimizerSlot[];
  /** All settings, as text that {@link parseOptimizer} takes. */
  readonly args: string;
  /** The kernel for one step; `step` counts from 1 and is shared by all parameters, as `iterations` in Keras. */
  kernel(learningRate: number, step: number): UpdateKernel;
}

const { fround, sqrt } = Math;

type Settings = Readonly<Record<string, number | boolean>>;

interface OptimizerKind {
  readonly type: Optimizer["type"];
  /** Every setting, with what it is when not given: Keras's defaults. */
  readonly defaults: Settings;
  make(settings: Settings): Pick<Optimizer, "slots" | "kernel">;
}

const KINDS: readonly OptimizerKind[] = [
  { type: "SGD", defaults: { learning_rate: 0.01, momentum: 0, nesterov: false }, make: makeSgd },
  {
    type: "Adam",
    defaults: { learning_rate: 0.001, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-7, amsgrad: false },
    make: makeAdam,
  },
  {
    type: "Adagrad",
    defaults: { learning_rate: 0.001, initial_accumulator_value: 0.1, epsilon: 1e-7 },
    make: makeAdagrad,
  },
];

/**
 * The optimizer of a type and of settings as ElasticDL writes them: `learning_rate=0.1;momentum=0.0;nesterov=false;`.
 * A setting that is left out is Keras's default.
 * @throws {@link UsageError} (`usage`) for an unknown type or setting, one given twice, or a value out of range
 */
export function parseOptimizer(type: string, args = ""): Optimizer {
  const kind = KINDS.find((known) => known.type.toLowerCase() === type.trim().toLowerCase());
  if (kind === undefined) {
    throw new UsageError("usage", "no such optimizer", { expected: "SGD, Adam or Adagrad", actual: type });
  }
  const settings = parseSettings(kind, args);
  return {
    type: kind.type,
    learningRate: settings.learning_rate as number,
    args: Object.entries(settings)
      .map(([key, value]) => `${key}=${value};`)
      .join(""),
    ...kind.make(settings),
  };
}

// elasticdl/go/pkg/ps/optimizer.go, parseOptArgs: `key=value` each followed by `;`.
function parseSettings(kind: OptimizerKind, args: string): Settings {
  const settings: Record<string, number | boolean> = { ...kind.defaults };
  const seen = new Set<string>();
  for (const part of args.split(";").filter((text) => text.trim() !== "")) {
    const [key = "", value = "", rest] = part.split("=").map((text) => text.trim());
    const usual = Object.hasOwn(kind.defaults, key) ? kind.defaults[key] : undefined;
    if (usual === undefined || rest !== undefined || seen.has(key)) {
      throw new UsageError("usage", `setting of ${kind.type}`, {
        expected: `${Object.keys(kind.defaults).join(", ")}, each once and as key=value`,
        actual: part,
      });
    }
    seen.add(key);
    settings[key] = typeof usual === "boolean" ? parseBoolean(key, value) : parseNumber(key, value);
  }
  return settings;
}

function parseBoolean(key: string, text: string): boolean {
  if (/^true$/i.test(text)) return true;
  if (/^false$/i.test(text)) return false;
  throw new UsageError("usage", `setting "${key}"`, { expected: "true or false", actual: text });
}

function parseNumber(key: string, text: string): number {
  const value = text === "" ? Number.NaN : Number(text);
  const isDecay = key === "momentum" || key.startsWith("beta_");
  if (Number.isFinite(value) && value >= 0 && !(isDecay && value > 1) && !(key.startsWith("beta_") && value === 1)) {
    return value;
  }
  throw new UsageError("usage", `setting "${key}"`, {
    expected: isDecay ? "a number from 0 to 1" : "a number from 0",
    actual: text,
  });
}

// tensorflow/core/kernels/training_ops.cc, ApplyGradientDescent and ApplyMomentum: accum = accum * momentum + grad.
function makeSgd({ momentum, nesterov }: Settings): Pick<Optimizer, "slots" | "kernel"> {
  if (momentum === 0) return { slots: [], kernel: plainKernel };
  const decay = fround(momentum as number);
  return {
    slots: [{ name: "momentum", initialValue: 0 }],
    kernel: (learningRate) => momentumKernel(fround(learningRate), decay, nesterov as boolean),
  };
}

/** Four numbers a turn: a fifth faster than one, and all that a push of a dense variable does. */
function plainKernel(learningRate: number): UpdateKernel {
  const rate = fround(learningRate);
  return (arrays, start, gradients, from, count) => {
    const values = arrays[0] as Float32Array;
    const end = start + count;
    const shift = from - start;
    let i = start;
    // Storing rounds to float32, as fround does.
    for (; i < end - 3; i += 4) {
      values[i] = (values[i] as number) - fround(rate * (gradients[i + shift] as number));
      values[i + 1] = (values[i + 1] as number) - fround(rate * (gradients[i + 1 + shift] as number));
      values[i + 2] = (values[i + 2] as number) - fround(rate * (gradients[i + 2 + shift] as number));
      values[i + 3] = (values[i + 3] as number) - fround(rate * (gradients[i + 3 + shift] as number));
    }
    for (; i < end; i++) values[i] = (values[i] as number) - fround(rate * (gradients[i + shift] as number));
  };
}

function momentumKernel(rate: number, decay: number, isNesterov: boolean): UpdateKernel {
  return (arrays, start, gradients, from, count) => {
    const [values, velocities] = arrays as readonly [Float32Array, Float32Array];
    for (let i = 0; i < count; i++) {
      const gradient = gradients[from + i] as number;
      const velocity = fround(fround((velocities[start + i] as number) * decay) + gradient);
      velocities[start + i] = velocity;
      const direction = isNesterov ? fround(gradient + fround(velocity * decay)) : velocity;
      values[start + i] = fround((values[start + i] as number) - fround(rate * direction));
    }
  };
}

// tensorflow/core/kernels/training_ops.cc, ApplyAdam and ApplyAdamWithAmsgrad; keras/optimizer_v2/adam.py,
// _prepare_local: the learning rate is corrected for the step, every operation in float32, and epsilon is added to the root of the uncorrected second moment (Kingma and Ba, section 2, "epsilon hat").
function makeAdam(settings: Settings): Pick<Optimizer, "slots" | "kernel"> {
  const { beta_1: beta1, beta_2: beta2, epsilon, amsgrad } = settings as Record<string, number>;
  const names = settings.amsgrad === true ? ["m", "v", "vhat"] : ["m", "v"];
  return {
    slots: names.map((name) => ({ name, initialValue: 0 })),
    kernel: (learningRate, step) => {
      const [decay1, decay2] = [fround(beta1 as number), fround(beta2 as number)];
      const correction = fround(fround(sqrt(fround(1 - fround(decay2 ** step)))) / fround(1 - fround(decay1 ** step)));
      const rates: AdamRates = {
        rate: fround(fround(learningRate) * correction),
        keep1: fround(1 - decay1),
        keep2: fround(1 - decay2),
        epsilon: fround(epsilon as number),
      };
      return (amsgrad as unknown as boolean) ? amsgradKernel(rates) : adamKernel(rates);
    },
  };
}

interface AdamRates {
  readonly rate: number;
  readonly keep1: number;
  readonly keep2: number;
  readonly epsilon: number;
}

function adamKernel({ rate, keep1, keep2, epsilon }: AdamRates): UpdateKernel {
  return (arrays, start, gradients, from, count) => {
    const [values, means, squares] = arrays as readonly [Float32Array, Float32Array, Float32Array];
    for (let i = 0; i < count; i++) {
      const at = start + i;
      const gradient = gradients[from + i] as number;
      const [mean, square] = [means[at] as number, squares[at] as number];
      const newMean = fround(mean + fround(fround(gradient - mean) * keep1));
      const newSquare = fround(square + fround(fround(fround(gradient * gradient) - square) * keep2));
      means[at] = newMean;
      squares[at] = newSquare;
      values[at] = fround(
        (values[at] as number) - fround(fround(newMean * rate) / fround(fround(sqrt(newSquare)) + epsilon)),
      );
    }
  };
}

function amsgradKernel({ rate, keep1, keep2, epsilon }: AdamRates): UpdateKernel {
  return (arrays, start, gradients, from, count) => {
    const [values, means, squares, greatest] = arrays as readonly [
      Float32Array,
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    for (let i = 0; i < count; i++) {
      const at = start + i;
      const gradient = gradients[from + i] as number;
      const [mean, square] = [means[at] as number, squares[at] as number];
      const newMean = fround(mean + fround(fround(gradient - mean) * keep1));
      const newSquare = fround(square + fround(fround(fround(gradient * gradient) - square) * keep2));
      const most = Math.max(greatest[at] as number, newSquare);
      means[at] = newMean;
      squares[at] = newSquare;
      greatest[at] = most;
      values[at] = fround(
        (values[at] as number) - fround(fround(newMean * rate) / fround(fround(sqrt(most)) + epsilon)),
      );
    }
  };
}

// tensorflow/core/kernels/training_ops.cc, ApplyAdagradV2.
function makeAdagrad({
  initial_accumulator_value: initialValue,
  epsilon,
}: Settings): Pick<Optimizer, "slots" | "kernel"> {
  const small = fround(epsilon as number);
  return {
    slots: [{ name: "accumulator", initialValue: fround(initialValue as number) }],
    kernel: (learningRate) => adagradKernel(fround(learningRate), small),
  };
}

function adagradKernel(rate: number, epsilon: number): UpdateKernel {
  return (arrays, start, gradients, from, count) => {
    const [values, sums] = arrays as readonly [Float32Array, Float32Array];
    for (let i = 0; i < count; i++) {
      const at = start + i;
      const gradient = gradients[from + i] as number;
      const sum = fround((sums[at] as number) + fround(gradient * gradient));
      sums[at] = sum;
      values[at] = fround(
        (values[at] as number) - fround(fround(rate * gradient) / fround(fround(sqrt(sum)) + epsilon)),
      );
    }
  };
}
