import type { FileStore } from "../../bytes/file-store.js";
import { isCairnError } from "../../errors.js";
import { type MetricsRecord, metricsPath, readMetrics, recordMetrics } from "../../formats/elasticdl/metrics.js";
import { pendingEvaluationPath, readPendingEvaluation } from "../../formats/elasticdl/pending-evaluation.js";
import { findProblem, formatProblem, listVersions } from "../../formats/elasticdl/versions.js";
import type { MetricFunction } from "../model/metric-functions.js";
import { shouldStop } from "./early-stop.js";
import { EvaluationRound } from "./evaluation-round.js";
import { writeJson } from "./progress-record.js";

/** How often a range of an evaluation is tried. */
const MAX_ATTEMPTS = 3;

/** How saved versions are evaluated. */
export interface EvaluationOptions {
  /** Evaluate every so many versions; 0 evaluates none. */
  readonly steps: number;
  /** Records of the evaluation data, and of one task. */
  readonly size: number;
  readonly partSize: number;
  readonly metrics: ReadonlyMap<string, MetricFunction>;
  readonly best: MetricsRecord["best"];
  /** Stop after so many evaluations without a better one; 0 never stops. */
  readonly patience: number;
}

/** Evaluates saved versions, one complete version at a time, and keeps a record of how good they are. */
export class Evaluator {
  /** The version that is being evaluated. */
  round: EvaluationRound | undefined;
  /** The version that was evaluated last, and how. */
  last: { readonly modelVersion: number; readonly metrics: Readonly<Record<string, number>> } | undefined;
  /** Whether the metrics have stopped getting better. */
  isStopAdvised = false;
  private readonly files: FileStore;
  private readonly root: string;
  private readonly options: EvaluationOptions;
  private readonly note: (text: string) => void;
  private evaluatedThrough = 0;
  private finalVersion: number | undefined;
  private roundCount = 0;
  private failures = 0;

  /** Evaluates the versions of a checkpoint directory. */
  constructor(files: FileStore, root: string, options: EvaluationOptions, note: (text: string) => void) {
    this.files = files;
    this.root = root;
    this.options = options;
    this.note = note;
  }

  /** Versions up to this one need no evaluation; what is known of later ones is forgotten: they will be others. */
  async startFrom(modelVersion: number): Promise<void> {
    this.evaluatedThrough = modelVersion;
    this.round = undefined;
    await forgetMetrics(this.files, this.root, modelVersion);
    await this.savePending();
  }

  /** Goes on where the evaluator of another process was. */
  async recall(): Promise<void> {
    this.evaluatedThrough = (await readPendingEvaluation(this.files, this.root))?.evaluatedThrough ?? 0;
    const record = await readMetrics(this.files, this.root);
    this.isStopAdvised = record !== undefined && shouldStop(record, this.options.patience);
  }

  /** The last version of the training, which is evaluated whatever its number. */
  finishWith(modelVersion: number): void {
    this.finalVersion = modelVersion;
  }

  /** Whether no version waits any more. To be asked after {@link Evaluator.look}. */
  get isIdle(): boolean {
    return this.round === undefined;
  }

  /** Looks for a complete version that is due, and begins with it. */
  async look(): Promise<void> {
    if (this.round !== undefined || this.options.steps === 0) return;
    for (const version of (await listVersions(this.files, this.root).catch(() => undefined))?.versions ?? []) {
      const { modelVersion, path } = version;
      if (modelVersion === undefined || !this.isDue(modelVersion)) continue;
      const problem = await findProblem(this.files, version);
      if (problem !== undefined) {
        if (this.finalVersion === undefined) continue;
        this.note(`version ${modelVersion} is not evaluated: ${formatProblem(problem, path)}`);
        await this.pass(modelVersion);
        continue;
      }
      const { size, partSize } = this.options;
      this.failures = 0;
      this.round = new EvaluationRound({ round: ++this.roundCount, modelVersion, path }, size, partSize);
      return;
    }
  }

  /** A range was evaluated; with the last one the metrics are recorded. */
  async complete(index: number): Promise<void> {
    const { round } = this;
    round?.complete(index);
    if (!round?.isDone) return;
    this.round = undefined;
    const { modelVersion } = round;
    const metrics = round.metrics(this.options.metrics);
    const usable = Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
    const { best, patience } = this.options;
    const record = await recordMetrics(this.files, this.root, { version: modelVersion, metrics: usable, best });
    this.last = { modelVersion, metrics: usable };
    this.isStopAdvised ||= shouldStop(record, patience);
    await this.pass(modelVersion);
  }

  /** A range failed; after some attempts the version is passed over. */
  async fail(index: number, message: string): Promise<void> {
    const { round } = this;
    round?.giveBack(index);
    if (round === undefined || ++this.failures < MAX_ATTEMPTS) return;
    this.round = undefined;
    this.note(`version ${round.modelVersion} is not evaluated: ${message}`);
    await this.pass(round.modelVersion);
  }

  /** Lets retention take all versions again. */
  async close(): Promise<void> {
    await this.files.remove(pendingEvaluationPath(this.root)).catch((error: unknown) => {
      if (!isCairnError(error)) throw error;
    });
  }

  private isDue(modelVersion: number): boolean {
    if (modelVersion <= this.evaluatedThrough) return false;
    return modelVersion % this.options.steps === 0 || modelVersion === this.finalVersion;
  }

  private async pass(modelVersion: number): Promise<void> {
    this.evaluatedThrough = Math.max(this.evaluatedThrough, modelVersion);
    await this.savePending();
  }

  private async savePending(): Promise<void> {
    const { steps: evaluationSteps } = this.options;
    if (evaluationSteps === 0) return;
    const { evaluatedThrough } = this;
    await writeJson(this.files, pendingEvaluationPath(this.root), { evaluationSteps, evaluatedThrough });
  }
}

/** Forgets the metrics of versions after one: what gets their numbers from now on is something else. */
export async function forgetMetrics(files: FileStore, root: string, modelVersion: number): Promise<void> {
  const record = await readMetrics(files, root);
  if (record === undefined || record.versions.every(({ version }) => version <= modelVersion)) return;
  const [first] = record.versions;
  if (first === undefined || first.version > modelVersion) await files.remove(metricsPath(root));
  else await recordMetrics(files, root, { ...first, best: record.best, isKept: (version) => version <= modelVersion });
}
