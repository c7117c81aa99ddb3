import type { BatchOutputs } from "../model/trainable-model.js";

/** The outputs of a batch as lines of JSON, one a record: a number, or a list of them, by the name of the output. */
export function predictionLines(outputs: BatchOutputs): string[] {
  const lists = [...outputs];
  const count = lists[0]?.[1].shape[0] ?? 0;
  return Array.from({ length: count }, (_, record) => {
    const values = lists.map(([name, { values: all }]) => {
      const width = all.length / count;
      const own = Array.from(all.subarray(record * width, (record + 1) * width));
      return [name, width === 1 ? own[0] : own] as const;
    });
    return `${JSON.stringify(Object.fromEntries(values))}\n`;
  });
}
