import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import * as layers from "@tensorflow/tfjs-layers";

export { layers, tf };

/** Each optimizer of TF.js, made anew. */
export const OPTIMIZERS: Readonly<Record<string, () => tf.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.1, 0.9),
  nesterov: () => tf.train.momentum(0.1, 0.9, true),
  adam: () => tf.train.adam(0.05),
  adamax: () => tf.train.adamax(0.05, 0.9, 0.999, undefined, 0.01),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.5),
  rmsprop: () => tf.train.rmsprop(0.05, 0.9, 0.5),
  "rmsprop centered": () => tf.train.rmsprop(0.05, 0.9, 0.5, undefined, true),
};

/** A small model of variables, `y = tanh(x w + b) w2`. */
export class Net {
  readonly w: tf.Variable;
  readonly b: tf.Variable;
  readonly w2: tf.Variable;

  constructor(seed: number) {
    this.w = tf.variable(tf.randomNormal([3, 4], 0, 1, "float32", seed));
    this.b = tf.variable(tf.zeros([4]));
    this.w2 = tf.variable(tf.randomNormal([4, 1], 0, 1, "float32", seed + 1));
  }

  checkpointChildren() {
    return [
      ["w", this.w],
      ["b", this.b],
      ["w2", this.w2],
    ] as const;
  }

  get variables(): tf.Variable[] {
    return [this.w, this.b, this.w2];
  }

  values(): number[] {
    return this.variables.flatMap((variable) => [...variable.dataSync()]);
  }

  train(optimizer: tf.Optimizer, steps: number, from = 0): void {
    for (let i = from; i < from + steps; i++) {
      const x = tf.randomNormal([8, 3], 0, 1, "float32", 100 + i);
      const loss = () =>
        tf.mean(
          tf.square(
            tf.sub(
              tf.matMul(
                tf.tanh(tf.add(tf.matMul(x as tf.Tensor2D, this.w as never), this.b)) as tf.Tensor2D,
                this.w2 as never,
              ),
              1,
            ),
          ),
        ) as tf.Scalar;
      optimizer.minimize(loss, false, this.variables);
    }
  }
}
