import type { SlotOwner, Trackable, TrackableValue, TrackedTensor } from "../trackable.js";
import type { SlotFacts } from "./optimizer-slots.js";
import type { OptimizerState } from "./optimizer-state.js";
import type { TfVariable } from "./types.js";
import { TrackedVariable } from "./variable.js";

/** The name of the step counter that TF.js's optimizers have and those of `tf.compat.v1.train` have not. */
const ITERATIONS = "ITERATIONS";

/**
 * An optimizer of TF.js in a checkpoint, in the layout of the optimizers of `tf.compat.v1.train`: slot variables, and
 * beside them `beta1_power` and the like. Its count of steps is written as well, where TensorFlow doesn't look for it.
 * Learning rates and other settings are the program's, and are not saved.
 */
export class TrackedOptimizer implements Trackable, SlotOwner {
  private readonly state: OptimizerState;

  /** Made by `trackableOf`. */
  constructor(state: OptimizerState) {
    this.state = state;
  }

  /** See {@link Trackable.checkpointSlots}. */
  get checkpointSlots(): SlotOwner {
    return this;
  }

  /** See {@link Trackable.checkpointChildren}. */
  checkpointChildren(): Iterable<readonly [string, TrackableValue]> {
    const { facts, fields } = this.state;
    return facts.variables.map(([name, property]) => [name, fields[property] as TfVariable] as const);
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    return [{ ...this.state.iterationsTensor(), name: ITERATIONS, isUnlisted: true }];
  }

  /** See {@link SlotOwner.slotNames}. */
  slotNames(): readonly string[] {
    return this.state.facts.slots.map(({ name }) => name);
  }

  /** See {@link SlotOwner.slot}. */
  slot(variable: Trackable, slotName: string): Trackable | undefined {
    const facts = this.factsOf(slotName);
    if (facts === undefined || !(variable instanceof TrackedVariable)) return undefined;
    return this.state.slot(variable.variable, facts);
  }

  /** See {@link SlotOwner.futureSlot}. */
  futureSlot(variable: Trackable, slotName: string): Trackable | undefined {
    const facts = this.factsOf(slotName);
    if (facts === undefined || !(variable instanceof TrackedVariable)) return undefined;
    return this.state.futureSlot(variable.variable, facts);
  }

  private factsOf(slotName: string): SlotFacts | undefined {
    return this.state.facts.slots.find(({ name }) => name === slotName);
  }
}
