import type { Gradients } from "./gradients.js";

/**
 * Gradients of several workers until they are applied together: dense ones are added up, those of rows are put one behind
 * another. Source: elasticdl/python/ps/servicer.py, PserverServicer.push_gradients.
 */
export class GradientBuffer {
  /** How many pushes are in it. */
  count = 0;
  private readonly dense = new Map<string, Gradients["dense"][number]>();
  private readonly rows = new Map<string, Gradients["rows"][number]>();

  /** Adds the gradients of one push; nothing of them is kept by reference. */
  add(gradients: Gradients): void {
    this.count++;
    for (const { parameter, values } of gradients.dense) {
      const known = this.dense.get(parameter.name)?.values;
      if (known === undefined) this.dense.set(parameter.name, { parameter, values: values.slice() });
      else for (let i = 0; i < known.length; i++) known[i] = (known[i] as number) + (values[i] as number);
    }
    for (const { target, ids, values } of gradients.rows) {
      const known = this.rows.get(target.name);
      const allIds = new BigInt64Array((known?.ids.length ?? 0) + ids.length);
      const allValues = new Float32Array((known?.values.length ?? 0) + values.length);
      if (known !== undefined) allIds.set(known.ids);
      if (known !== undefined) allValues.set(known.values);
      allIds.set(ids, allIds.length - ids.length);
      allValues.set(values, allValues.length - values.length);
      this.rows.set(target.name, { target, ids: allIds, values: allValues });
    }
  }

  /** Takes all: the mean of the dense gradients, and the rows as they are, so that theirs are summed, not averaged. */
  take(): Gradients {
    for (const { values } of this.dense.values()) {
      for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) / this.count;
    }
    const gradients = { dense: [...this.dense.values()], rows: [...this.rows.values()] };
    this.dense.clear();
    this.rows.clear();
    this.count = 0;
    return gradients;
  }
}
