import { UnsupportedError } from "../../errors.js";
import { scalarTensor } from "../scalars.js";
import type { Trackable, TrackableValue, TrackedTensor } from "../trackable.js";
import { type KerasSlot, type KerasSlots, kerasSlots } from "./keras-slots.js";
import type { OptimizerState } from "./optimizer-state.js";
import type { TfVariable } from "./types.js";
import { variableTensor } from "./variable.js";

type Child = readonly [name: string, child: TrackableValue];

/** A list as Keras has it, of children numbered from 0. */
class NumberedList implements Trackable {
  private readonly items: () => readonly TrackableValue[];

  constructor(items: () => readonly TrackableValue[]) {
    this.items = items;
  }

  checkpointChildren(): Iterable<Child> {
    return this.items().map((item, i) => [String(i), item] as const);
  }
}

/** Tensors as an object of their own. */
class TensorHolder implements Trackable {
  readonly checkpointTensors: () => Iterable<TrackedTensor>;

  constructor(tensors: () => Iterable<TrackedTensor>) {
    this.checkpointTensors = tensors;
  }
}

/**
 * An optimizer of TF.js in a checkpoint, in the layout of the optimizers of Keras 3: a list of all variables, the
 * step counter and the learning rate, and a list for each kind of slot. Source: what `tf.train.Checkpoint` of
 * TensorFlow 2.18 with Keras 3 writes.
 */
export class TrackedKerasOptimizer implements Trackable {
  private readonly state: OptimizerState;
  private readonly variables: () => readonly TfVariable[];
  private readonly layout: KerasSlots;
  private readonly iterations = new TensorHolder(() => this.counterTensors());
  private readonly learningRate = new TensorHolder(() => [this.rateTensor()]);
  private readonly all = new NumberedList(() => this.allVariables());
  private readonly trainable = new NumberedList(() => this.variables() as readonly TrackableValue[]);
  private readonly lists: ReadonlyMap<KerasSlot, NumberedList>;

  /**
   * `variables` are those that it trains, in the order in which Keras has them.
   * @throws {@link UnsupportedError} (`unsupported-operation`) for an optimizer that Keras has not
   */
  constructor(state: OptimizerState, variables: () => readonly TfVariable[]) {
    const className = state.optimizer.getClassName();
    const layout = kerasSlots(className);
    if (layout === undefined) {
      throw new UnsupportedError("unsupported-operation", `Keras has no optimizer that keeps what ${className} keeps`, {
        hint: "Save it in the default layout, with slot variables.",
      });
    }
    this.state = state;
    this.variables = variables;
    this.layout = layout;
    this.lists = new Map(layout.slots.map((slot) => [slot, new NumberedList(() => this.slotsOf(slot))]));
  }

  /** See {@link Trackable.checkpointChildren}. */
  *checkpointChildren(): Iterable<Child> {
    yield ["_variables", this.all];
    yield ["_trainable_variables", this.trainable];
    yield ["_iterations", this.iterations];
    yield ["_learning_rate", this.learningRate];
    for (const slot of this.slots) yield [slot.list, this.lists.get(slot) as NumberedList];
  }

  /** The slots that Keras has with these settings. */
  private get slots(): readonly KerasSlot[] {
    const { momentum = 0, centered = false } = this.state.fields as { momentum?: number; centered?: boolean };
    const has = { momentum: momentum > 0, centered };
    return this.layout.slots.filter(({ only }) => only === undefined || has[only]);
  }

  private allVariables(): readonly TrackableValue[] {
    const { slots } = this;
    const kept = this.layout.isGrouped
      ? slots.flatMap((slot) => this.slotsOf(slot))
      : this.variables().flatMap((variable) => slots.map((slot) => this.slotOf(variable, slot)));
    return [this.iterations, this.learningRate, ...kept];
  }

  private slotsOf(slot: KerasSlot): readonly Trackable[] {
    return this.variables().map((variable) => this.slotOf(variable, slot));
  }

  private slotOf(variable: TfVariable, { name }: KerasSlot): Trackable {
    const facts = this.state.facts.slots.find((one) => one.name === name);
    if (facts === undefined) throw new Error(`TF.js has no slot ${name}`);
    return this.state.slot(variable, facts) ?? this.state.futureSlot(variable, facts);
  }

  /**
   * The step counter, and the powers of the betas that follow from it. Keras computes these when it needs them; they are
   * kept beside the graph, so that those which TF.js has, with their rounding, come back.
   */
  private counterTensors(): readonly TrackedTensor[] {
    const { facts, fields } = this.state;
    const powers = facts.variables.map(([name, property]) => {
      return { ...variableTensor(fields[property] as TfVariable, name.toUpperCase()), isUnlisted: true };
    });
    const counter = this.state.iterationsTensor();
    const prepare: TrackedTensor["prepare"] = async (value) => {
      const apply = await counter.prepare(value);
      const tf = await import("@tensorflow/tfjs-core");
      return () => {
        apply();
        tf.tidy(() => {
          for (const [name, property] of facts.variables) {
            const beta = fields[name.startsWith("beta1") ? "beta1" : "beta2"] as number;
            // As TF.js's own setWeights has it.
            (fields[property] as TfVariable).assign(tf.pow(beta, this.state.optimizer.iterations + 1));
          }
        });
      };
    };
    return [{ ...counter, fullName: "iteration", prepare }, ...powers];
  }

  private rateTensor(): TrackedTensor {
    const { fields, optimizer } = this.state;
    const set = (value: number | string): void => {
      // SGD keeps the rate in a tensor as well.
      const { setLearningRate } = fields as { setLearningRate?: (rate: number) => void };
      if (setLearningRate !== undefined) setLearningRate.call(optimizer, Number(value));
      else fields.learningRate = Number(value);
    };
    return { ...scalarTensor({ get: () => fields.learningRate as number, set }, "float32"), fullName: "learning_rate" };
  }
}
