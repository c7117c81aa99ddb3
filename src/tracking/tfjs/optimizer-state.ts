import { UnsupportedError } from "../../errors.js";
import { scalarTensor } from "../scalars.js";
import type { Trackable, TrackedTensor } from "../trackable.js";
import { FutureSlot } from "./future-slot.js";
import { type OptimizerFacts, optimizerFacts, type SlotFacts } from "./optimizer-slots.js";
import type { TfOptimizer, TfVariable } from "./types.js";
import { TrackedVariable } from "./variable.js";

/** An entry of one of TF.js's lists of what an optimizer keeps for its variables. */
interface SlotEntry {
  readonly originalName: string;
  readonly variable: TfVariable;
}

/** The gradients that TF.js's `applyGradients` takes. */
type Gradients = readonly { readonly name: string }[] | Readonly<Record<string, unknown>>;

interface SlotIndex {
  readonly list: readonly SlotEntry[];
  readonly length: number;
  readonly byName: ReadonlyMap<string, SlotEntry>;
}

/** What an optimizer of TF.js keeps, whichever layout it is saved in. */
export class OptimizerState {
  readonly optimizer: TfOptimizer;
  readonly facts: OptimizerFacts;
  private readonly adapters: WeakMap<object, Trackable>;
  /** Slots that the optimizer has not made yet, by TF.js's name. */
  private readonly future = new Map<string, FutureSlot>();
  private readonly indexes = new Map<string, SlotIndex>();

  /** `adapters` has the trackable of each object. @throws {@link UnsupportedError} (`unsupported-operation`) */
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

  /** Fields of the optimizer that TF.js does not declare as public. */
  get fields(): Record<string, unknown> {
    return this.optimizer as never;
  }

  /** What the optimizer keeps for a variable: its own, or a value that it will have when it makes the slot. */
  slot({ name }: TfVariable, facts: SlotFacts): TrackedVariable | FutureSlot | undefined {
    const slotName = `${name}/${facts.suffix}`;
    const entry = this.entries(facts).get(slotName);
    if (entry === undefined) {
      const future = this.future.get(slotName);
      return future?.hasValue ? future : undefined;
    }
    const known = this.adapters.get(entry.variable);
    if (known instanceof TrackedVariable || known instanceof FutureSlot) return known;
    const made = new TrackedVariable(entry.variable);
    this.adapters.set(entry.variable, made);
    return made;
  }

  /** A slot that the optimizer has not made yet. It begins with the value that the optimizer would give it. */
  futureSlot(variable: TfVariable, { suffix }: SlotFacts): FutureSlot {
    const slotName = `${variable.name}/${suffix}`;
    const known = this.future.get(slotName);
    if (known !== undefined) return known;
    const { initialAccumulatorValue = 0 } = this.fields as { initialAccumulatorValue?: number };
    const made = new FutureSlot(variable, slotName, initialAccumulatorValue, () => this.watch());
    this.future.set(slotName, made);
    return made;
  }

  /** Its count of steps, as an int64. Adamax counts in a variable of its own as well. */
  iterationsTensor(): TrackedTensor {
    const count = scalarTensor(
      {
        get: () => this.optimizer.iterations,
        set: (value) => {
          // Every optimizer of TF.js counts here what `iterations` gives.
          this.fields.iterations_ = Number(value);
        },
      },
      "int64",
    );
    const prepare: TrackedTensor["prepare"] = async (value) => {
      const apply = await count.prepare(value);
      const iteration = this.fields.iteration as TfVariable | undefined;
      if (iteration === undefined) return apply;
      const tf = await import("@tensorflow/tfjs-core");
      return () => {
        apply();
        tf.tidy(() => iteration.assign(tf.scalar(this.optimizer.iterations)));
      };
    };
    return { ...count, prepare };
  }

  /** The entries of a slot by TF.js's name. */
  private entries({ property }: SlotFacts): ReadonlyMap<string, SlotEntry> {
    const list = this.fields[property] as SlotEntry[];
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
        const isDone = [...this.future.values()].every(({ hasValue }) => !hasValue);
        if (isDone) delete (optimizer as Partial<TfOptimizer>).applyGradients;
        Object.getPrototypeOf(optimizer).applyGradients.call(optimizer, gradients);
      },
    });
  }

  private giveSlots(variableNames: readonly string[]): void {
    for (const { property, suffix } of this.facts.slots) {
      const list = this.fields[property] as (SlotEntry | undefined)[];
      for (const [i, name] of variableNames.entries()) {
        const originalName = `${name}/${suffix}`;
        const slot = this.future.get(originalName);
        if (slot?.hasValue !== true) continue;
        this.future.delete(originalName);
        // Where the optimizer keeps something at this place already, that is what it works with.
        if (list[i] != null) continue;
        const variable = slot.make();
        this.adapters.set(variable, slot);
        list[i] = { originalName, variable };
      }
      this.indexes.delete(property);
    }
  }
}
