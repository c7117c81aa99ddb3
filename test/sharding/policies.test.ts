import { MaxShardSizePolicy } from "../../src/sharding/max-shard-size.js";
import { ShardByDevicePolicy } from "../../src/sharding/shard-by-device.js";
import { ShardByTaskPolicy } from "../../src/sharding/shard-by-task.js";
import { testPolicy } from "../conformance/policy.js";

testPolicy("by task", () => new ShardByTaskPolicy());
testPolicy("by device", () => new ShardByDevicePolicy());
testPolicy("max shard size", (maxShardSize) => new MaxShardSizePolicy({ maxShardSize }));
testPolicy(
  "max shard size, as TensorFlow",
  (maxShardSize) => new MaxShardSizePolicy({ maxShardSize, tensorflowIdentical: true }),
);
