/** A kind of slot that an optimizer of Keras 3 keeps. */
export interface KerasSlot {
  /** The slot's name in `optimizer-slots.ts`. */
  readonly name: string;
  /** The list that Keras keeps it in. Source: keras/src/optimizers/{adam,rmsprop,…}.py, build. */
  readonly list: string;
  /** The setting without which Keras has no such slot. */
  readonly only?: "momentum" | "centered";
}

/** How an optimizer of Keras 3 keeps its slots. */
export interface KerasSlots {
  readonly slots: readonly KerasSlot[];
  /** Whether the list of all variables has them kind by kind, and not variable by variable. */
  readonly isGrouped?: boolean;
}

/**
 * By the class name that TF.js gives. TF.js's Momentum is left out: Keras keeps what it accumulates multiplied by the
 * negative learning rate, which cannot be turned back without rounding.
 */
const KERAS_SLOTS: Readonly<Record<string, KerasSlots>> = {
  SGD: { slots: [] },
  Adam: {
    slots: [
      { name: "m", list: "_momentums" },
      { name: "v", list: "_velocities" },
    ],
  },
  Adamax: {
    slots: [
      { name: "m", list: "_m" },
      { name: "v", list: "_u" },
    ],
  },
  Adagrad: { slots: [{ name: "accumulator", list: "_accumulators" }] },
  Adadelta: {
    slots: [
      { name: "accum", list: "_accumulated_grads" },
      { name: "accum_update", list: "_accumulated_delta_vars" },
    ],
  },
  RMSProp: {
    slots: [
      { name: "rms", list: "_velocities" },
      { name: "momentum", list: "_momentums", only: "momentum" },
      { name: "mg", list: "_average_gradients", only: "centered" },
    ],
    isGrouped: true,
  },
};

/** How Keras 3 keeps the slots of an optimizer of TF.js; undefined where it has no equal. */
export function kerasSlots(className: string): KerasSlots | undefined {
  return KERAS_SLOTS[className];
}
