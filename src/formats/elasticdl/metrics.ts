import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { CorruptionError, isCairnError, LimitError } from "../../errors.js";
import { sidePath } from "./names.js";

/** The record of metrics, in the directory beside the checkpoint directory. */
const FILE_NAME = "metrics.json";
/** The largest record, 64 MiB. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024;

/** How a version was evaluated. */
export interface VersionMetrics {
  readonly version: number;
  readonly metrics: Readonly<Record<string, number>>;
}

/** What is known of the quality of the versions of a checkpoint directory. */
export interface MetricsRecord {
  /** The metric that says which version is best, and whether more or less of it is better. */
  readonly best: { readonly metric: string; readonly mode: "max" | "min" };
  /** By version, oldest first. */
  readonly versions: readonly VersionMetrics[];
}

/** Where the record of a checkpoint directory is. @throws UsageError (`usage`) for a path without a name, such as `.` */
export function metricsPath(root: string): string {
  return joinPath(sidePath(root), FILE_NAME);
}

/**
 * Reads the record of a checkpoint directory; undefined when there is none.
 * @throws {@link CorruptionError} (`invalid-json`)
 */
export async function readMetrics(files: FileStore, root: string): Promise<MetricsRecord | undefined> {
  let path: string;
  try {
    path = metricsPath(root);
  } catch (error) {
    if (isCairnError(error, "usage")) return undefined;
    throw error;
  }
  if ((await files.stat(path))?.kind !== "file") return undefined;
  const source = await files.open(path);
  try {
    if (source.size > MAX_RECORD_BYTES) {
      throw new LimitError("limit", "metrics", { file: path, expected: MAX_RECORD_BYTES, actual: source.size });
    }
    return parseMetrics(new TextDecoder().decode(await source.read(0, source.size)), path);
  } finally {
    await source.close();
  }
}

/** Parses a record. @throws {@link CorruptionError} (`invalid-json`) */
export function parseMetrics(text: string, file: string): MetricsRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new CorruptionError("invalid-json", "metrics are no JSON", { file, cause });
  }
  if (!isRecord(value)) throw new CorruptionError("invalid-json", "metrics of an unknown form", { file });
  return { best: value.best, versions: [...value.versions].sort((a, b) => a.version - b.version) };
}

function isRecord(value: unknown): value is MetricsRecord {
  const { best, versions } = (value ?? {}) as Partial<MetricsRecord>;
  if (typeof best?.metric !== "string" || !["max", "min"].includes(best.mode) || !Array.isArray(versions)) return false;
  return versions.every((one: Partial<VersionMetrics> | null) => {
    const isObject = typeof one?.metrics === "object" && one.metrics !== null;
    return (
      isObject && Number.isInteger(one.version) && Object.values(one.metrics ?? {}).every((n) => typeof n === "number")
    );
  });
}

/**
 * Adds how a version was evaluated to the record of a checkpoint directory; what was known of that version before is
 * replaced, and versions of which `isKept` says no are forgotten. One writer at a time.
 */
export async function recordMetrics(
  files: FileStore,
  root: string,
  {
    version,
    metrics,
    best,
    isKept = () => true,
  }: VersionMetrics & {
    readonly best: MetricsRecord["best"];
    readonly isKept?: (version: number) => boolean;
  },
): Promise<MetricsRecord> {
  const known = (await readMetrics(files, root))?.versions ?? [];
  const others = known.filter((one) => one.version !== version && isKept(one.version));
  const versions = [...others, { version, metrics }].sort((a, b) => a.version - b.version);
  const record: MetricsRecord = { best, versions };
  await writeFile(files, metricsPath(root), `${JSON.stringify(record, null, 2)}\n`, { overwrite: true });
  return record;
}

/** The versions of a record from the best on; of equal ones the newer is better. Versions without the metric are left out. */
export function rankVersions({ best: { metric, mode }, versions }: MetricsRecord): VersionMetrics[] {
  const sign = mode === "max" ? -1 : 1;
  const score = ({ metrics }: VersionMetrics) => sign * (metrics[metric] as number);
  return versions
    .filter(({ metrics }) => Number.isFinite(metrics[metric]))
    .sort((a, b) => score(a) - score(b) || b.version - a.version);
}
