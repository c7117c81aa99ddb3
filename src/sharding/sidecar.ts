import { CorruptionError, LimitError, UnsupportedError } from "../errors.js";
import { MAX_STATE_FILE_BYTES } from "../limits.js";
import type { ShardPlan } from "./shard-plan.js";
import { type ShardSummary, summarizeShards } from "./shard-summary.js";

/** The version of the package, which a sidecar names; a test holds it to package.json. */
export const CAIRN_VERSION = "0.1.0";

const FORMAT_VERSION = 1;

/** What stands beside a checkpoint, in `PREFIX.cairn.json`, which TensorFlow doesn't look at. */
export interface ShardingSidecar {
  /** The version of cairn that wrote it. */
  readonly cairnVersion: string;
  /** What the sharding callback said of itself. */
  readonly description: string;
  readonly shards: readonly ShardSummary[];
  readonly warnings: readonly string[];
}

/** The text of the sidecar of a plan. */
export function formatSidecar(plan: ShardPlan): string {
  const { description, warnings } = plan;
  return formatSummaries({ description, shards: summarizeShards(plan), warnings });
}

/** The text of the sidecar of shards that were written already. */
export function formatSummaries({
  description,
  shards,
  warnings,
}: Pick<ShardingSidecar, "description" | "shards" | "warnings">): string {
  const content = { formatVersion: FORMAT_VERSION, cairnVersion: CAIRN_VERSION, description, shards, warnings };
  return `${JSON.stringify(content, undefined, 2)}\n`;
}

/**
 * Parses a sidecar. Fields that it doesn't know are left aside.
 * @throws {@link CorruptionError} (`invalid-sidecar`), {@link UnsupportedError} (`unsupported-version`) for one of a later
 * form, {@link LimitError} (`limit`)
 */
export function parseSidecar(text: string, file: string): ShardingSidecar {
  if (text.length > MAX_STATE_FILE_BYTES) {
    const expected = `at most ${MAX_STATE_FILE_BYTES} characters`;
    throw new LimitError("limit", "a sidecar", { file, expected, actual: text.length });
  }
  const content = new SidecarFields(parseJson(text, file), "the sidecar", file);
  const formatVersion = content.count("formatVersion");
  if (formatVersion !== FORMAT_VERSION) {
    throw new UnsupportedError("unsupported-version", "form of the sidecar", {
      file,
      expected: FORMAT_VERSION,
      actual: formatVersion,
    });
  }
  return {
    cairnVersion: content.text("cairnVersion"),
    description: content.text("description"),
    shards: content.list("shards").map((shard, i) => readSummary(new SidecarFields(shard, `shard ${i}`, file))),
    warnings: content.list("warnings").map((warning, i) => {
      if (typeof warning === "string") return warning;
      throw invalid(file, `warning ${i}`, "text", warning);
    }),
  };
}

function readSummary(shard: SidecarFields): ShardSummary {
  return {
    task: shard.text("task"),
    bytes: shard.count("bytes"),
    tensors: shard.count("tensors"),
    slices: shard.count("slices"),
  };
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CorruptionError("invalid-sidecar", "the sidecar is no JSON", { file, cause });
  }
}

/** The fields of one JSON object, each of the kind that is asked for. */
class SidecarFields {
  private readonly fields: ReadonlyMap<string, unknown>;
  private readonly what: string;
  private readonly file: string;

  constructor(value: unknown, what: string, file: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw invalid(file, what, "an object", value);
    this.fields = new Map(Object.entries(value));
    this.what = what;
    this.file = file;
  }

  text(name: string): string {
    const value = this.fields.get(name);
    if (typeof value === "string") return value;
    throw invalid(this.file, `${name} of ${this.what}`, "text", value);
  }

  count(name: string): number {
    const value = this.fields.get(name);
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
    throw invalid(this.file, `${name} of ${this.what}`, "a whole number", value);
  }

  list(name: string): readonly unknown[] {
    const value = this.fields.get(name);
    if (Array.isArray(value)) return value;
    throw invalid(this.file, `${name} of ${this.what}`, "a list", value);
  }
}

function invalid(file: string, what: string, expected: string, value: unknown): CorruptionError {
  const actual = value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  return new CorruptionError("invalid-sidecar", what, { file, expected, actual });
}
