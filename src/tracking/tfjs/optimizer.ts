import { UnsupportedError } from "../../errors.js";
import { scalarTensor } from "../scalars.js";
import type { SlotOwner, Trackable, TrackableValue, TrackedTensor } from "../trackable.js";
import { FutureSlot } from "./future-slot.js";
import { type OptimizerFacts, optimizerFacts, type SlotFacts } from "./optimizer-slots.js";
import type { TfOptimizer, TfVariable } from "./types.js";
import { TrackedVariable } from "./variable.js";

/** The name of the step counter that TF.js's optimizers have and those of `tf.compat.v1.train` have not. */
const ITERATIONS = "ITERATIONS";

/** An entry of one of TF.js's lists of what an optimizer keeps for its variables. */
interface SlotEntry {
  readonly originalName: string;
  readonly variable: TfVariable;
}

/** The gradients that TF.js's `applyGradients` takes. */
type Gradients = readonly { readonly name: string }[] | Readonly<Record<string, unknown>>;

/**
 * An optimizer of TF.js in a checkpoint, in the layout of the optimizers of `tf.compat.v1.train`: slot variables, and
 * beside them `beta1_power` and the like. Its count of steps is written as well, where TensorFlow doesn't look for it.
 * Learning rates and other settings are the program's, and are not saved.
 */
export class TrackedOptimizer implements Trackable, SlotOwner {
  readonly optimizer: TfOptimizer;
  private readonly facts: OptimizerFacts;
  private readonly adapters: WeakMap<object, Trackable>;
  /** Values for slots that the optimizer has not made yet, by {@link slotKey}. */
  private readonly future = new Map<string, FutureSlot>();
  private readonly indexes = new Map<
    string,
    { list: readonly SlotEntry[]; length: number; byName: Map<string, SlotEntry> }
  >();

  /** Made by `trackableOf`, whose adapters it shares. @throws {@link UnsupportedError} (`unsupported-operation`) */
  constructor(optimizer: TfOptimizer, adapters: WeakMap<object, Trackable>) {
    const className = optimizer.getClassName();
    const facts = optimizerFacts(className);
    if (facts === undefined) {
      throw new UnsupportedError("unsupported-operation", `an optimizer of class ${className} cannot be tracked`, {
        hint: "Give it checkpointChildren() and checkpointTensors() of its own.",
      });
    }
    this.optimizer = optimizer;
    this.facts = facts;
    this.adapters = adapters;
  }

  /** See {@link Trackable.checkpointSlots}. */
  get checkpointSlots(): SlotOwner {
    return this;
  }

  /** See {@link Trackable.checkpointChildren}. */
  checkpointChildren(): Iterable<readonly [string, TrackableValue]> {
    return this.facts.variables.map(([name, property]) => [name, this.parts[property] as TfVariable] as const);
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    const place = { get: () => this.optimizer.iterations, set: (value: number | string) => this.setIterations(+value) };
    const count = scalarTensor(place, "int64");
    return [{ ...count, name: ITERATIONS, isUnlisted: true, prepare: (value) => this.prepareIterations(count, value) }];
  }

  /** See {@link SlotOwner.slotNames}. */
  slotNames(): readonly string[] {
    return this.facts.slots.map(({ name }) => name);
  }

  /** See {@link SlotOwner.slot}. */
  slot(variable: Trackable, slotName: string): Trackable | undefined {
    const facts = this.factsOf(slotName);
    if (facts === undefined || !(variable instanceof TrackedVariable)) return undefined;
    const { name } = variable.variable;
    const entry = this.entries(facts).get(`${name}/${facts.suffix}`);
    if (entry === undefined) return this.future.get(slotKey(name, slotName));
    const known = this.adapters.get(entry.variable);
    if (known !== undefined) return known;
    const made = new TrackedVariable(entry.variable);
    this.adapters.set(entry.variable, made);
    return made;
  }

  /** See {@link SlotOwner.futureSlot}. */
  futureSlot(variable: Trackable, slotName: string): Trackable | undefined {
    const facts = this.factsOf(slotName);
    if (facts === undefined || !(variable instanceof TrackedVariable)) return undefined;
    const { name } = variable.variable;
    return new FutureSlot(variable.variable, `${name}/${facts.suffix}`, (slot) => {
      this.future.set(slotKey(name, slotName), slot);
      this.watch();
    });
  }

  private get parts(): Record<string, unknown> {
    return this.optimizer as never;
  }

  private factsOf(slotName: string): SlotFacts | undefined {
    return this.facts.slots.find(({ name }) => name === slotName);
  }

  /** The entries of a slot by TF.js's name. */
  private entries({ property }: SlotFacts): Map<string, SlotEntry> {
    const list = this.parts[property] as SlotEntry[];
    const known = this.indexes.get(property);
    if (known?.list === list && known.length === list.length) return known.byName;
    const byName = new Map(list.filter((entry) => entry != null).map((entry) => [entry.originalName, entry]));
    this.indexes.set(property, { list, length: list.length, byName });
    return byName;
  }

  /** Gives the optimizer its slots when it makes them: before the first gradients for their variables. */
  private watch(): void {
    const { optimizer } = this;
    if (Object.hasOwn(optimizer, "applyGradients")) return;
    Object.defineProperty(optimizer, "applyGradients", {
      configurable: true,
      writable: true,
      value: (gradients: Gradients) => {
        this.giveSlots(Array.isArray(gradients) ? gradients.map(({ name }) => name) : Object.keys(gradients));
        if (this.future.size === 0) delete (optimizer as Partial<TfOptimizer>).applyGradients;
        Object.getPrototypeOf(optimizer).applyGradients.call(optimizer, gradients);
      },
    });
  }

  private giveSlots(variableNames: readonly string[]): void {
    for (const { name: slotName, property } of this.facts.slots) {
      const list = this.parts[property] as (SlotEntry | undefined)[];
      for (const [i, name] of variableNames.entries()) {
        const slot = this.future.get(slotKey(name, slotName));
        if (slot === undefined) continue;
        this.future.delete(slotKey(name, slotName));
        // Where the optimizer keeps something at this place already, that is what it works with.
        if (list[i] != null) continue;
        const variable = slot.make();
        this.adapters.set(variable, slot);
        list[i] = { originalName: slot.name, variable };
      }
      this.indexes.delete(property);
    }
  }

  private setIterations(count: number): void {
    // Every optimizer counts here what `iterations` gives.
    this.parts.iterations_ = count;
  }

  /** Adamax counts in a variable of its own as well. */
  private async prepareIterations(
    count: TrackedTensor,
    value: Parameters<TrackedTensor["prepare"]>[0],
  ): Promise<() => void> {
    const apply = await count.prepare(value);
    const iteration = this.parts.iteration as TfVariable | undefined;
    if (iteration === undefined) return apply;
    const tf = await import("@tensorflow/tfjs-core");
    return () => {
      apply();
      const steps = tf.scalar(this.optimizer.iterations);
      iteration.assign(steps);
      steps.dispose();
    };
  }
}

function slotKey(variableName: string, slotName: string): string {
  return `${slotName} ${variableName}`;
}
