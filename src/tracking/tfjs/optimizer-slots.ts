/** A slot of an optimizer: what it keeps for each variable. */
export interface SlotFacts {
  /** The slot's name in TensorFlow. Source: tensorflow/python/training/{adam,rmsprop,…}.py, _create_slots. */
  readonly name: string;
  /** The list that holds it in TF.js. Source: tfjs-core/src/optimizers. */
  readonly property: string;
  /** What TF.js adds to the variable's name for it. */
  readonly suffix: string;
}

/** What an optimizer of TF.js keeps, and how the optimizers of `tf.compat.v1.train` call it. */
export interface OptimizerFacts {
  readonly slots: readonly SlotFacts[];
  /** Variables that it has once: TensorFlow's name, TF.js's property. */
  readonly variables: readonly (readonly [name: string, property: string])[];
}

const slot = (name: string, property: string, suffix: string = name): SlotFacts => ({ name, property, suffix });

/** By the class name that TF.js gives. */
const FACTS: Readonly<Record<string, OptimizerFacts>> = {
  SGD: { slots: [], variables: [] },
  Momentum: { slots: [slot("momentum", "accumulations")], variables: [] },
  Adam: {
    slots: [slot("m", "accumulatedFirstMoment"), slot("v", "accumulatedSecondMoment")],
    variables: [
      ["beta1_power", "accBeta1"],
      ["beta2_power", "accBeta2"],
    ],
  },
  // tf.compat.v1.train has no Adamax; the names are those of its Adam, which it follows.
  Adamax: {
    slots: [slot("m", "accumulatedFirstMoment"), slot("v", "accumulatedWeightedInfNorm")],
    variables: [["beta1_power", "accBeta1"]],
  },
  Adagrad: { slots: [slot("accumulator", "accumulatedGrads")], variables: [] },
  Adadelta: {
    slots: [slot("accum", "accumulatedGrads", "accum_grad"), slot("accum_update", "accumulatedUpdates", "accum_var")],
    variables: [],
  },
  // Without centering the list of `mg` stays empty.
  RMSProp: {
    slots: [
      slot("mg", "accumulatedMeanGrads"),
      slot("momentum", "accumulatedMoments"),
      slot("rms", "accumulatedMeanSquares"),
    ],
    variables: [],
  },
};

/** What is known of an optimizer by its class name; undefined for a class that is not TF.js's own. */
export function optimizerFacts(className: string): OptimizerFacts | undefined {
  return FACTS[className];
}
