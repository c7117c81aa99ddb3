import { compareDevices, type DeviceSpec, formatDevice, parseDevice } from "./device.js";
import type { ShardableTensor } from "./shardable-tensor.js";
import { addSlice, ShardingCallback, type TensorSliceDict } from "./sharding-callback.js";

/**
 * One shard for each device of a task. Shards are in the order of their devices, as TensorFlow 1's Saver has them: those
 * of no known device first, numbers by their value.
 */
export class ShardByDevicePolicy extends ShardingCallback {
  readonly description = "Split tensors into shards based on their device.";

  /** The tensors of each device, in their order. @throws UsageError (`usage`) for a device that cannot be read */
  call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
    const byText = new Map<string, { device: DeviceSpec; shard: TensorSliceDict }>();
    const byDevice = new Map<string, { device: DeviceSpec; shard: TensorSliceDict }>();
    for (const { checkpointKey, sliceSpec, device: text, tensor } of tensors) {
      let group = byText.get(text);
      if (group === undefined) {
        const device = parseDevice(text);
        const name = formatDevice(device);
        group = byDevice.get(name) ?? { device, shard: new Map() };
        byText.set(text, group);
        byDevice.set(name, group);
      }
      addSlice(group.shard, checkpointKey, sliceSpec, tensor);
    }
    const groups = [...byDevice.values()].sort((a, b) => compareDevices(a.device, b.device));
    return groups.map(({ shard }) => shard);
  }
}
