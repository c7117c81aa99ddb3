import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CairnError, isCairnError } from "../../src/errors.js";
import { MAX_STATE_FILE_BYTES } from "../../src/limits.js";
import { MaxShardSizePolicy } from "../../src/sharding/max-shard-size.js";
import { addMetrics, formatOpenMetrics, measurePlan } from "../../src/sharding/metrics.js";
import { planShards } from "../../src/sharding/plan-shards.js";
import { policyFromModule } from "../../src/sharding/policy-module.js";
import { ShardByTaskPolicy } from "../../src/sharding/shard-by-task.js";
import { ShardableTensor } from "../../src/sharding/shardable-tensor.js";
import { CAIRN_VERSION, formatSidecar, parseSidecar } from "../../src/sharding/sidecar.js";
import { numberTensor, stringTensor } from "../../src/tensor/memory-tensor.js";

const tensors = [
  new ShardableTensor({ checkpointKey: "numbers", tensor: numberTensor(new Float32Array(6)) }),
  new ShardableTensor({ checkpointKey: "words", tensor: stringTensor(["one", "three"]) }),
];
const plan = await planShards(tensors, new MaxShardSizePolicy({ maxShardSize: 8 }));
const task = "/job:localhost/replica:0/task:0/device:CPU:0";

describe("metrics", () => {
  it("count callbacks, shards and bytes", () => {
    const metrics = measurePlan({ ...plan, callbackDurationUs: 7 });
    const description = "Split tensors into shards with a max shard size.";
    const once = { callbackDescription: description, callbackDurationUs: 7, shardsWritten: 4, bytesWritten: 32 };
    expect(metrics).toEqual(once);
    expect(addMetrics(metrics, { ...metrics, callbackDescription: "later" })).toEqual({
      callbackDescription: "later",
      callbackDurationUs: 14,
      shardsWritten: 8,
      bytesWritten: 64,
    });
  });

  it("are OpenMetrics under TensorFlow's names", () => {
    const metrics = {
      callbackDescription: 'a "b" \\ \n c',
      callbackDurationUs: 12,
      shardsWritten: 3,
      bytesWritten: 1e21,
    };
    expect(formatOpenMetrics({ ...metrics, bytesWritten: 45 })).toBe(
      [
        "# TYPE tensorflow_core_checkpoint_sharding_callback_description info",
        "# HELP tensorflow_core_checkpoint_sharding_callback_description What the sharding callback says of itself.",
        'tensorflow_core_checkpoint_sharding_callback_description_info{description="a \\"b\\" \\\\ \\n c"} 1',
        "# TYPE tensorflow_core_checkpoint_sharding_callback_duration counter",
        "# HELP tensorflow_core_checkpoint_sharding_callback_duration Microseconds that sharding callbacks took.",
        "tensorflow_core_checkpoint_sharding_callback_duration_total 12",
        "# TYPE tensorflow_core_checkpoint_sharding_num_checkpoint_shards_written counter",
        "# HELP tensorflow_core_checkpoint_sharding_num_checkpoint_shards_written Shards of checkpoints written.",
        "tensorflow_core_checkpoint_sharding_num_checkpoint_shards_written_total 3",
        "# TYPE cairn_checkpoint_sharding_bytes_written counter",
        "# HELP cairn_checkpoint_sharding_bytes_written Bytes of tensors written.",
        "cairn_checkpoint_sharding_bytes_written_total 45",
        "# EOF",
        "",
      ].join("\n"),
    );
  });
});

describe("a sidecar", () => {
  const text = formatSidecar(plan);

  it("comes back with what the plan says", () => {
    expect(parseSidecar(text, "ckpt.cairn.json")).toEqual({
      cairnVersion: CAIRN_VERSION,
      description: "Split tensors into shards with a max shard size.",
      shards: [
        { task, bytes: 8, tensors: 1, slices: 1 },
        { task, bytes: 8, tensors: 1, slices: 1 },
        { task, bytes: 8, tensors: 1, slices: 1 },
        { task, bytes: 8, tensors: 1, slices: 1 },
      ],
      warnings: [],
    });
  });

  it("names the version of the package", () => {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    expect(CAIRN_VERSION).toBe(version);
  });

  it("may have fields that are not known", () => {
    expect(parseSidecar(JSON.stringify({ ...JSON.parse(text), more: [1] }), "f").shards.length).toBe(4);
  });

  it("of a later form is not read", () => {
    const later = JSON.stringify({ formatVersion: 2 });
    expect(codeOf(() => parseSidecar(later, "f"))).toBe("unsupported-version");
  });

  it.each<[string, string]>([
    ["no JSON", "{"],
    ["nothing", ""],
    ["a list", "[]"],
    ["null", "null"],
    ["a number", "7"],
    ["deep", "[".repeat(100_000)],
    ["deep where it counts", `{"formatVersion":${"[".repeat(50_000)}${"]".repeat(50_000)}}`],
    ["without version", "{}"],
    ["of a version that is no number", '{"formatVersion":"1"}'],
    ...["cairnVersion", "description", "shards", "warnings"].map((field): [string, string] => [
      `without ${field}`,
      JSON.stringify({ ...JSON.parse(text), [field]: undefined }),
    ]),
    ...["task", "bytes", "tensors", "slices"].map((field): [string, string] => [
      `with a shard of odd ${field}`,
      JSON.stringify({ ...JSON.parse(text), shards: [{ ...JSON.parse(text).shards[0], [field]: -1.5 }] }),
    ]),
    ["with a shard that is null", JSON.stringify({ ...JSON.parse(text), shards: [null] })],
    ["with a warning that is a number", JSON.stringify({ ...JSON.parse(text), warnings: [1] })],
  ])("is refused: %s", (_, damaged) => {
    expect(codeOf(() => parseSidecar(damaged, "f"))).toBe("invalid-sidecar");
  });

  it("is refused when it is too long", () => {
    expect(codeOf(() => parseSidecar(" ".repeat(MAX_STATE_FILE_BYTES + 1), "f"))).toBe("limit");
  });

  it("is read or refused, wherever it is cut or a character changes", () => {
    for (let i = 0; i < text.length; i++) {
      for (const changed of [
        text.slice(0, i),
        `${text.slice(0, i)}}${text.slice(i + 1)}`,
        `${text.slice(0, i)}9${text.slice(i + 1)}`,
      ]) {
        expect(["read", "invalid-sidecar", "unsupported-version"]).toContain(codeOf(() => parseSidecar(changed, "f")));
      }
    }
  });
});

describe("a module with a policy", () => {
  it.each<[string, unknown]>([
    ["an instance", new ShardByTaskPolicy()],
    ["a class", ShardByTaskPolicy],
    ["a class with options", MaxShardSizePolicy],
    ["a factory", () => new ShardByTaskPolicy()],
    ["a slow factory", async () => new ShardByTaskPolicy()],
    ["a factory with options", (options: { maxShardSize: number }) => new MaxShardSizePolicy(options)],
    ["an object of its own", { description: "Mine.", call: () => [] }],
  ])("may export %s", async (_, exported) => {
    const policy = await policyFromModule({ default: exported }, "policy.js", { maxShardSize: 5 });
    expect(policy.description).toMatch(/\.$/);
    expect((policy as MaxShardSizePolicy).maxShardSize ?? 5).toBe(5);
  });

  it.each<[string, object]>([
    ["nothing", {}],
    ["only names", { policy: ShardByTaskPolicy }],
    ["text", { default: "by-task" }],
    ["a factory of nothing", { default: () => undefined }],
    ["a factory that throws", { default: () => JSON.parse("{") }],
    ["a class of something else", { default: class {} }],
    ["one without description", { default: { call: () => [] } }],
    ["a class that wants options", { default: MaxShardSizePolicy }],
  ])("is refused when it exports %s", async (_, module) => {
    await expect(policyFromModule(module, "policy.js")).rejects.toSatisfy((error) => isCairnError(error, "usage"));
  });
});

function codeOf(run: () => unknown): string {
  try {
    run();
    return "read";
  } catch (error) {
    return error instanceof CairnError ? error.code : String(error);
  }
}
