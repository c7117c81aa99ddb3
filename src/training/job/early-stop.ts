import { type MetricsRecord, rankVersions, type VersionMetrics } from "../../formats/elasticdl/metrics.js";

/**
 * Whether training should stop: the last `patience` evaluations have not been better than the best before them. `patience` 0
 * never stops.
 */
export function shouldStop(record: MetricsRecord, patience: number): boolean {
  if (patience <= 0) return false;
  const best = bestOf(record);
  if (best === undefined) return record.versions.length > patience;
  // Of equal versions the newer ranks first; to be as good as before is not to be better.
  const score = best.metrics[record.best.metric];
  const first = record.versions.find(({ metrics }) => metrics[record.best.metric] === score) ?? best;
  return record.versions.filter(({ version }) => version > first.version).length >= patience;
}

/** The best version of a record; undefined when none has the metric. */
export function bestOf(record: MetricsRecord): VersionMetrics | undefined {
  return rankVersions(record)[0];
}
