/** Where a tensor is that says nothing else: the process itself. Source: tensorflow/core/util/device_name_utils.h. */
export const LOCAL_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0";

/** By object, the device that it was placed on. */
const PLACES = new WeakMap<object, string>();

/**
 * Says on which device an object's tensors are, for sharding: `/job:worker/replica:0/task:1/device:GPU:0`. It moves
 * nothing. What says nothing is on the device of the checkpoint.
 */
export function placeOn<Value extends object>(value: Value, device: string): Value {
  PLACES.set(value, device);
  return value;
}

/** The device that an object was placed on. */
export function placeOf(value: object): string | undefined {
  return PLACES.get(value);
}
