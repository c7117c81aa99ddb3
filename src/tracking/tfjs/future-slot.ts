import { elementCount } from "../../tensor/shape.js";
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
  private readonly name: string;
  private readonly owner: TfVariable;
  private readonly fill: number;
  private readonly onValue: () => void;
  private value:
    | { readonly stored: TensorValue; readonly tensor: TfTensor; readonly make: () => TfVariable }
    | undefined;
  private made: TfVariable | undefined;

  /** `owner` is the variable that the slot is for, `fill` what it begins with; `onValue` is called after a restore. */
  constructor(owner: TfVariable, name: string, fill: number, onValue: () => void) {
    this.owner = owner;
    this.name = name;
    this.fill = fill;
    this.onValue = onValue;
  }

  /** Whether a value has been restored that the optimizer has not taken yet. */
  get hasValue(): boolean {
    return this.value !== undefined;
  }

  /** See {@link Trackable.checkpointTensors}. */
  checkpointTensors(): Iterable<TrackedTensor> {
    if (this.made !== undefined) return [variableTensor(this.made)];
    const { shape } = this.owner;
    return [
      {
        name: VARIABLE_VALUE,
        fullName: this.name,
        dtype: "float32",
        shape,
        snapshot: async () => {
          if (this.value !== undefined) return memorySnapshot(this.value.stored);
          const floats = new Float32Array(elementCount(shape)).fill(this.fill);
          return memorySnapshot({ dtype: "float32", shape, bytes: new Uint8Array(floats.buffer) });
        },
        prepare: (value) => this.prepare(value),
      },
    ];
  }

  /** Makes the variable. It is called once, after a value has come. */
  make(): TfVariable {
    const { make, tensor } = this.value as NonNullable<FutureSlot["value"]>;
    this.made = make();
    tensor.dispose();
    this.value = undefined;
    return this.made;
  }

  private async prepare(stored: TensorValue): Promise<() => void> {
    const tf = await import("@tensorflow/tfjs-core");
    const tensor = await makeTensor(stored);
    return () => {
      this.value?.tensor.dispose();
      this.value = { stored, tensor, make: () => tf.variable(tensor as never, false) };
      this.onValue();
    };
  }
}
