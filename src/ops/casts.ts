import { UsageError } from "../errors.js";
import { formatCount } from "../formats/text.js";
import { type CastLoss, canCast, castTensor, isLossy } from "../tensor/cast.js";
import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { canNarrow, narrowTensor } from "../tensor/narrow.js";

/** Floats of one dtype become floats of another; int64 can become int32. */
export interface CastRule {
  readonly from: DType;
  readonly to: DType;
}

/** Changes dtypes and remembers what that cost. */
export class Casts {
  private readonly rules: readonly CastRule[];
  private readonly lossy = new Map<string, number>();
  private readonly counts = new Map<string, CastLoss>();

  /** @throws {@link UsageError} (`usage`) for dtypes that cannot be changed so */
  constructor(rules: readonly CastRule[]) {
    for (const { from, to } of rules) {
      if (!canCast(from, to) && !canNarrow(from, to))
        throw new UsageError("usage", `${from} cannot become ${to}`, {
          hint: "Floats can: float64, float32, float16, bfloat16; and int64 can become int32.",
        });
    }
    this.rules = rules;
  }

  /** The tensor, in another dtype when a rule says so. */
  apply(key: string, tensor: LazyTensor): LazyTensor {
    const rule = this.rules.find(({ from }) => from === tensor.dtype);
    if (rule === undefined || rule.from === rule.to) return tensor;
    if (canNarrow(rule.from, rule.to)) return narrowTensor(tensor);
    if (isLossy(rule.from, rule.to)) {
      const name = `${rule.from} → ${rule.to}`;
      this.lossy.set(name, (this.lossy.get(name) ?? 0) + 1);
    }
    const loss = { overflowCount: 0 };
    this.counts.set(key, loss);
    return castTensor(tensor, rule.to, loss);
  }

  /** What can be told before anything is read. */
  warnings(): string[] {
    return Array.from(this.lossy, ([name, count]) => `${name} rounds the numbers of ${formatCount(count, "tensor")}`);
  }

  /** What only the reading could tell. */
  losses(): string[] {
    return Array.from(this.counts).flatMap(([key, { overflowCount }]) =>
      overflowCount === 0 ? [] : [`${formatCount(overflowCount, "number")} of "${key}" too large: infinite now`],
    );
  }
}
