import type { FileStore } from "../../bytes/file-store.js";
import type {
  BestVersion,
  DirectoryVersion,
  LatestVersion,
  LookOptions,
  PassedOver,
  PruneOptions,
  PrunePlan,
  VersionedDirectory,
  VersionList,
} from "../versioned-directory.js";
import { type MetricsRecord, rankVersions, readMetrics } from "./metrics.js";
import { recoverReplaced, tidySide, trashPath } from "./publish.js";
import { applyRetention, planRetention } from "./retention.js";
import { findTrainingStrays } from "./strays.js";
import {
  findLatest,
  findProblem,
  formatProblem,
  type ListedVersion,
  listVersions,
  type VersionProblem,
} from "./versions.js";

/** A checkpoint directory of a training, with its versions. */
export class TrainingDirectory implements VersionedDirectory {
  readonly path: string;
  private readonly files: FileStore;

  /** The checkpoint directory at `path`. */
  constructor(files: FileStore, path: string) {
    this.files = files;
    this.path = path;
  }

  /** See {@link VersionedDirectory.list}. */
  async list(options: LookOptions = {}): Promise<VersionList> {
    const { versions, strays } = await listVersions(this.files, this.path);
    const record = await readMetrics(this.files, this.path);
    const shown: DirectoryVersion[] = [];
    for (const version of versions) shown.push(show(version, await findProblem(this.files, version, options), record));
    return { versions: shown, skipped: [...strays, ...versions.flatMap((version) => version.strays)].map(passOver) };
  }

  /** See {@link VersionedDirectory.latest}. */
  async latest(options: LookOptions = {}): Promise<LatestVersion> {
    const listed = await listVersions(this.files, this.path);
    const { latest, incomplete } = await findLatest(this.files, listed, options);
    const record = await readMetrics(this.files, this.path);
    const skipped = incomplete.map(({ path, problem }) => ({ path, reason: reasonOf(problem, path) }));
    const strays = [...listed.strays, ...(latest?.strays ?? [])].map(passOver);
    return { latest: latest && show(latest, undefined, record), skipped: [...skipped, ...strays] };
  }

  /** See {@link VersionedDirectory.best}. */
  async best(options: LookOptions = {}): Promise<BestVersion> {
    const record = await readMetrics(this.files, this.path);
    const { metric, mode } = record?.best ?? {};
    const { versions } = await listVersions(this.files, this.path);
    const skipped: PassedOver[] = [];
    for (const { version } of record === undefined ? [] : rankVersions(record)) {
      for (const candidate of versions.filter(({ modelVersion }) => modelVersion === version)) {
        const problem = await findProblem(this.files, candidate, options);
        if (problem === undefined) return { best: show(candidate, undefined, record), metric, mode, skipped };
        skipped.push({ path: candidate.path, reason: reasonOf(problem, candidate.path) });
      }
    }
    return { best: undefined, metric, mode, skipped };
  }

  /** See {@link VersionedDirectory.planPrune}. The best version stays. */
  async planPrune({ keep, force, ...look }: PruneOptions): Promise<PrunePlan> {
    const { versions } = await listVersions(this.files, this.path);
    const record = await readMetrics(this.files, this.path);
    const best = (record === undefined ? [] : rankVersions(record)).find(({ version }) =>
      versions.some(({ modelVersion }) => modelVersion === version),
    );
    const retained = [];
    for (const { modelVersion = 0, path, shards, ...rest } of versions) {
      const problem = await findProblem(this.files, { modelVersion, path, shards, ...rest }, look);
      retained.push({ modelVersion, path, shards, isComplete: problem === undefined });
    }
    const stays = new Set(best === undefined ? [] : [best.version]);
    const removals = planRetention(retained, { keepMax: keep, keep: stays, takeAllIncomplete: force });
    const gone = new Set(removals.map(({ path }) => path));
    return {
      remove: removals.map(({ modelVersion, path, reason }) => ({ version: modelVersion, path, reason })),
      keep: retained
        .filter(({ path }) => !gone.has(path))
        .map(({ modelVersion, path }) => ({ version: modelVersion, path })),
      strays: await findTrainingStrays(this.files, this.path, force),
    };
  }

  /** See {@link VersionedDirectory.prune}. */
  async prune({ remove, strays }: PrunePlan): Promise<void> {
    const removals = remove.map(({ version, path }) => ({ modelVersion: version, path, reason: "old" as const }));
    await recoverReplaced(this.files, this.path);
    await applyRetention(this.files, this.path, removals);
    for (const { path } of strays) await this.files.remove(path);
    if (removals.length === 0 && strays.length === 0) return;
    // What a crash left there goes too: nothing is ever looked for in it.
    await this.files.remove(trashPath(this.path));
    await tidySide(this.files, this.path);
  }
}

function show(
  version: ListedVersion,
  problem: VersionProblem | undefined,
  record: MetricsRecord | undefined,
): DirectoryVersion {
  const { modelVersion = 0, path, shards } = version;
  return {
    version: modelVersion,
    path,
    shards: shards.length,
    byteLength: shards.reduce((sum, { byteLength }) => sum + byteLength, 0),
    isComplete: problem === undefined,
    reason: problem && reasonOf(problem, path),
    metrics: record?.versions.find((one) => one.version === modelVersion)?.metrics,
  };
}

function reasonOf(problem: VersionProblem | undefined, path: string): string {
  return problem === undefined ? "" : formatProblem(problem, path);
}

function passOver(path: string): PassedOver {
  return { path, reason: "not a part of a version" };
}
