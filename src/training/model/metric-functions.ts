/** What a metric is made of: all records of an evaluation, in their order. */
export interface Evaluated {
  /** Row by row. */
  readonly labels: Float32Array;
  /** What the model gave, row by row; with several outputs the first. */
  readonly output: Float32Array;
  /** By the name of the output. */
  readonly outputs: Readonly<Record<string, Float32Array>>;
  /** How many records. */
  readonly count: number;
}

/** Measures a model by what it gave. */
export type MetricFunction = (given: Evaluated) => number;

/** A metric that is there. */
export interface ReadyMetric {
  /** Whether more or less of it is better. */
  readonly mode: "max" | "min";
  readonly compute: MetricFunction;
}

/** The ready metrics, by name. */
export const METRICS: ReadonlyMap<string, ReadyMetric> = new Map<string, ReadyMetric>([
  ["mse", { mode: "min", compute: meanSquare }],
  ["rmse", { mode: "min", compute: (given) => Math.sqrt(meanSquare(given)) }],
  [
    "mae",
    { mode: "min", compute: ({ labels, output }) => mean(labels, (label, i) => Math.abs(label - at(output, i))) },
  ],
  ["log_loss", { mode: "min", compute: logLoss }],
  ["binary_accuracy", { mode: "max", compute: binaryAccuracy }],
  ["accuracy", { mode: "max", compute: accuracy }],
  ["auc", { mode: "max", compute: areaUnderCurve }],
]);

function at(values: Float32Array, i: number): number {
  return values[i] ?? Number.NaN;
}

function mean(values: Float32Array, value: (element: number, index: number) => number): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += value(values[i] as number, i);
  return sum / values.length;
}

function meanSquare({ labels, output }: Evaluated): number {
  return mean(labels, (label, i) => (label - at(output, i)) ** 2);
}

/** Of probabilities; 1e-7 from 0 and 1, as in Keras. */
function logLoss({ labels, output }: Evaluated): number {
  return mean(labels, (label, i) => {
    const p = Math.min(1 - 1e-7, Math.max(1e-7, at(output, i)));
    return -(label * Math.log(p) + (1 - label) * Math.log(1 - p));
  });
}

/** The share of records on the right side of 0.5. */
function binaryAccuracy({ labels, output }: Evaluated): number {
  return mean(labels, (label, i) => (at(output, i) > 0.5 === label > 0.5 ? 1 : 0));
}

/** The share of records whose class has the greatest output; labels are class numbers or one-hot rows. */
function accuracy({ labels, output, count }: Evaluated): number {
  const classes = output.length / count;
  if (classes === 1) return binaryAccuracy({ labels, output, outputs: {}, count });
  const width = labels.length / count;
  let right = 0;
  for (let i = 0; i < count; i++) {
    const label = width === 1 ? labels[i] : greatest(labels, i * width, width);
    if (greatest(output, i * classes, classes) === label) right++;
  }
  return right / count;
}

function greatest(values: Float32Array, start: number, count: number): number {
  let best = 0;
  for (let k = 1; k < count; k++) if (at(values, start + k) > at(values, start + best)) best = k;
  return best;
}

/** The area under the receiver operating characteristic, by ranks: ties count half. */
function areaUnderCurve({ labels, output }: Evaluated): number {
  const order = Array.from(labels.keys()).sort((a, b) => at(output, a) - at(output, b));
  let [rankSum, positives] = [0, 0];
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end < order.length && at(output, order[end] as number) === at(output, order[start] as number)) end++;
    // Ranks count from 1; those of a tie are all its middle.
    const rank = (start + 1 + end) / 2;
    for (let i = start; i < end; i++)
      if (at(labels, order[i] as number) > 0.5) [rankSum, positives] = [rankSum + rank, positives + 1];
    start = Math.max(end, start + 1);
  }
  const negatives = labels.length - positives;
  if (positives === 0 || negatives === 0) return Number.NaN;
  return (rankSum - (positives * (positives + 1)) / 2) / (positives * negatives);
}
