import type { ShardPlan } from "./shard-plan.js";
import { summarizeShards } from "./shard-summary.js";

/** How sharding went, for one save or for all of them. */
export interface ShardingMetrics {
  /** What the last callback says of itself. */
  readonly callbackDescription: string;
  /** Microseconds that callbacks took. */
  readonly callbackDurationUs: number;
  readonly shardsWritten: number;
  /** Bytes of tensors; of strings without what their lengths take. */
  readonly bytesWritten: number;
}

/** The metrics of a save that wrote a plan. */
export function measurePlan(plan: ShardPlan): ShardingMetrics {
  return {
    callbackDescription: plan.description,
    callbackDurationUs: plan.callbackDurationUs ?? 0,
    shardsWritten: plan.shards.length,
    bytesWritten: summarizeShards(plan).reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** The metrics of several saves together; `next` is the later one. */
export function addMetrics(sum: ShardingMetrics, next: ShardingMetrics): ShardingMetrics {
  return {
    callbackDescription: next.callbackDescription,
    callbackDurationUs: sum.callbackDurationUs + next.callbackDurationUs,
    shardsWritten: sum.shardsWritten + next.shardsWritten,
    bytesWritten: sum.bytesWritten + next.bytesWritten,
  };
}

/**
 * Metrics as OpenMetrics text, under TensorFlow's names with what OpenMetrics doesn't allow made `_`: the name
 * `/tensorflow/core/checkpoint/sharding/callback_duration` becomes `tensorflow_core_checkpoint_sharding_callback_duration`.
 * TensorFlow's gauge of text is an info metric here. Sources: OpenMetrics 1.0, "Text Format";
 * tensorflow/cc/saved_model/metrics.cc.
 */
export function formatOpenMetrics(metrics: ShardingMetrics): string {
  const name = (last: string): string => `tensorflow_core_checkpoint_sharding_${last}`;
  const lines = [
    ...family(name("callback_description"), "info", "What the sharding callback says of itself."),
    `${name("callback_description")}_info{description="${escapeLabel(metrics.callbackDescription)}"} 1`,
    ...counter(name("callback_duration"), "Microseconds that sharding callbacks took.", metrics.callbackDurationUs),
    ...counter(name("num_checkpoint_shards_written"), "Shards of checkpoints written.", metrics.shardsWritten),
    ...counter("cairn_checkpoint_sharding_bytes_written", "Bytes of tensors written.", metrics.bytesWritten),
    "# EOF",
  ];
  return `${lines.join("\n")}\n`;
}

function counter(name: string, help: string, value: number): string[] {
  return [...family(name, "counter", help), `${name}_total ${value}`];
}

function family(name: string, type: string, help: string): string[] {
  return [`# TYPE ${name} ${type}`, `# HELP ${name} ${help}`];
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}
