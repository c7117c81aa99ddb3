import { VARIABLE_VALUE } from "../object-path.js";
import { memorySnapshot } from "../snapshot.js";
import type { TensorValue, Trackable, TrackedTensor } from "../trackable.js";
import type { TfTensor, TfVariable } from "./types.js";
import { makeTensor, variableTensor } from "./variable.js";

/**
 * A slot variable that TF.js's optimizer has not made yet, with the value that it will have. TF.js keeps slots by their
 * place among the gradients, which is known when the first ones come.
 */
export class FutureSlot implements Trackable {
  /** The name that TF.js gives the slot. */
  readonly name: string;
  private readonly owner: TfVariable;
  private readonly onValue: (slot: FutureSlot) => void;
  private value: { readonly stored: TensorValue; readonly make: () => TfVariable } | undefined;
  private made: TfVariable | undefined;

  /** `owner` is the variable that the slot is for; `onValue` is called when a value has been restored. */
  constructor(owner: TfVariable, name: string, onValue: (slot: FutureSlot) => void) {
    this.owner = owner;
    this.name = name;
    this.onValue = onValue;
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    if (this.made !== undefined) return [variableTensor(this.made)];
    return [
      {
        name: VARIABLE_VALUE,
        fullName: this.name,
        dtype: "float32",
        shape: this.owner.shape,
        snapshot: async () => memorySnapshot(this.value?.stored as TensorValue),
        prepare: (value) => this.prepare(value),
      },
    ];
  }

  /** Makes the variable. It is called once, after a value has come. */
  make(): TfVariable {
    this.made = (this.value as { make: () => TfVariable }).make();
    this.value = undefined;
    return this.made;
  }

  private async prepare(stored: TensorValue): Promise<() => void> {
    const tf = await import("@tensorflow/tfjs-core");
    const tensor: TfTensor = await makeTensor(stored);
    const make = () => {
      const variable = tf.variable(tensor as never, false);
      tensor.dispose();
      return variable;
    };
    return () => {
      this.value = { stored, make };
      this.onValue(this);
    };
  }
}
