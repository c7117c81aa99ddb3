import { randomInt } from "node:crypto";
import { type ErrorCode, UsageError } from "../../errors.js";
import { Evaluator, forgetMetrics } from "./evaluator.js";
import type {
  EvaluationOutputs,
  Job,
  MasterLink,
  ServersOfTask,
  TaskResult,
  TrainingTask,
  WorkerProgress,
  WorkerTask,
} from "./master-link.js";
import type { MasterOptions, MasterStatus, Phase, Servers } from "./master-options.js";
import { ProgressKeeper } from "./progress-keeper.js";
import { type CommRank, type ReduceCall, type Reduced, Reducer } from "./reducer.js";
import { TaskQueue } from "./task-queue.js";
import type { ScheduledTask } from "./task-schedule.js";

/** How often a task may fail by its own fault. */
const MAX_ATTEMPTS = 3;

/** Failures that come again however often a task is tried. */
const FATAL: ReadonlySet<string> = new Set<ErrorCode>([
  "usage",
  "not-finite",
  "gradient-mismatch",
  "unknown-parameter",
  "unknown-initializer",
]);

interface Issued {
  readonly workerId: number;
  readonly kind: "training" | "evaluation" | "save";
  readonly index: number;
}

/**
 * Deals out the data of a training, sees that all of it is done though workers and servers die, evaluates saved versions,
 * and knows when it is over.
 */
export class Master implements MasterLink {
  private readonly options: MasterOptions;
  private readonly queue: TaskQueue;
  private readonly keeper: ProgressKeeper;
  private readonly evaluator: Evaluator | undefined;
  private readonly reducer: Reducer;
  private readonly issued = new Map<number, Issued>();
  private readonly heardMs = new Map<number, number>();
  private readonly attempts = new Map<number, number>();
  private readonly silentWorkers = new Set<number>();
  private servers: Servers | undefined;
  /** Whether the progress that was recalled is of a run in which a batch was not a version. */
  private isUnaligned = false;
  private phase: Phase = "waiting";
  private failure: { readonly code: string; readonly reason: string } | undefined;
  private endReason = "";
  private needsRollback = false;
  private generation = 0;
  private modelVersion = 0;
  private loss = Number.NaN;
  /** Begins anywhere: a master that was restarted must not take the results of the one before it for those of its own tasks. */
  private taskCounter = randomInt(2 ** 30);
  private unavailableSinceMs: number | undefined;
  private finalVersion: number | undefined;
  private pendingNotes: string[] = [];
  private work: Promise<unknown> = Promise.resolve();

  private constructor(options: MasterOptions) {
    this.options = options;
    this.queue = new TaskQueue(options.schedule);
    this.keeper = new ProgressKeeper(options, this.queue);
    this.reducer = new Reducer(options.numWorkers ?? 1);
    const { evaluation, checkpointDir, files } = options;
    if (evaluation !== undefined && evaluation.steps > 0) {
      if (checkpointDir === undefined)
        throw new UsageError("usage", "evaluation needs saved versions: --checkpoint-dir and --checkpoint-steps");
      this.evaluator = new Evaluator(files, checkpointDir, evaluation, (text) => this.note(text));
    }
  }

  /** A master, with what is known of a training that it goes on with. @throws {@link UsageError} (`usage`), CorruptionError (`invalid-json`) */
  static async start(options: MasterOptions): Promise<Master> {
    const master = new Master(options);
    await master.recall();
    return master;
  }

  /** See {@link MasterLink.join}. */
  async join(workerId: number): Promise<Job> {
    this.hear(workerId);
    return this.options.job;
  }

  /** See {@link MasterLink.getTask}. A worker that asks has nothing to do: what it had is given back. */
  async getTask(workerId: number): Promise<WorkerTask> {
    this.hear(workerId);
    this.forget((issued) => issued.workerId === workerId);
    if (this.phase === "failed" || this.phase === "finished") return { kind: "end" };
    return (
      this.evaluationTask(workerId) ??
      this.trainingTask(workerId) ??
      this.saveTask(workerId) ?? { kind: "wait", ...this.serversOfTask }
    );
  }

  /** See {@link MasterLink.getCommRank}. */
  async getCommRank(workerId: number): Promise<CommRank> {
    this.hear(workerId);
    return this.reducer.rank(workerId);
  }

  /** See {@link MasterLink.reduce}. */
  async reduce(call: ReduceCall): Promise<Reduced> {
    this.hear(call.workerId);
    if (this.phase === "failed" || this.phase === "finished") return undefined;
    return this.reducer.reduce(call);
  }

  /** A worker is lost: others get its task. */
  removeWorker(workerId: number): void {
    this.forget((issued) => issued.workerId === workerId);
    this.reducer.remove(workerId);
  }

  /** See {@link MasterLink.reportTaskResult}. */
  async reportTaskResult({ taskId, modelVersion, failure }: TaskResult): Promise<void> {
    const issued = this.issued.get(taskId);
    // Somebody else has the task; that servers do not answer is to be known all the same.
    if (issued === undefined && failure?.code === "rpc-failed") this.unavailableSinceMs ??= this.options.now();
    if (issued === undefined) return;
    this.issued.delete(taskId);
    this.hear(issued.workerId);
    const { kind, index } = issued;
    if (kind === "evaluation") {
      await this.serially(async () => {
        if (failure === undefined) await this.evaluator?.complete(index);
        else await this.evaluator?.fail(index, failure.message);
      });
    } else if (kind === "save") {
      if (failure === undefined) await this.setTrained(modelVersion);
      else this.fail(failure.code, failure.message);
    } else if (failure === undefined) this.completeTraining(index, modelVersion);
    else this.failTraining(index, failure);
    this.advance();
  }

  /** See {@link MasterLink.reportEvaluation}. */
  async reportEvaluation({ workerId, outputs, labels }: EvaluationOutputs): Promise<void> {
    this.hear(workerId);
    this.evaluator?.round?.handIn(workerId, { outputs, labels });
  }

  /** See {@link MasterLink.reportProgress}. */
  async reportProgress({ workerId, modelVersion, loss, batches }: WorkerProgress): Promise<void> {
    this.hear(workerId);
    if (batches === 0) return;
    this.unavailableSinceMs = undefined;
    this.modelVersion = Math.max(this.modelVersion, modelVersion);
    this.loss = loss;
  }

  /** A version that a parameter server tells of, as ElasticDL's do. */
  reportVersion(modelVersion: number): void {
    this.modelVersion = Math.max(this.modelVersion, modelVersion);
  }

  /** Says which servers there are. With a higher generation than before all of them are back at a version, and so is the data. */
  setServers(servers: Servers): Promise<void> {
    return this.serially(async () => {
      const isNew = servers.generation > this.generation;
      if (isNew) {
        this.generation = servers.generation;
        this.forget(() => true);
        this.reducer.reset();
        this.queue.rollback(servers.modelVersion);
        if (this.isUnaligned) this.queue.alignTo(servers.modelVersion);
        this.isUnaligned = false;
        this.modelVersion = servers.modelVersion;
        this.finalVersion = undefined;
        const { files, checkpointDir } = this.options;
        if (this.evaluator !== undefined) await this.evaluator.startFrom(servers.modelVersion);
        else if (checkpointDir !== undefined) await forgetMetrics(files, checkpointDir, servers.modelVersion);
        this.keeper.isDirty = true;
      }
      this.servers = servers;
      this.needsRollback = false;
      this.unavailableSinceMs = undefined;
      if (this.phase === "waiting" || (isNew && this.phase === "trained")) this.phase = "training";
      this.advance();
      await this.keeper.save(true, this.generation);
    });
  }

  /** The last version is saved and the servers are gone: what is left is to evaluate. */
  setTrained(modelVersion: number): Promise<void> {
    this.finalVersion = modelVersion;
    this.evaluator?.finishWith(modelVersion);
    return this.tick();
  }

  /** Ends a training that cannot go on. */
  fail(code: string, reason: string): void {
    if (this.phase === "finished") return;
    this.failure ??= { code, reason };
    this.phase = "failed";
    this.reducer.regroup();
  }

  /** To be called some times a second: finds lost workers, versions to evaluate, and whether it is over. */
  tick(): Promise<void> {
    return this.serially(async () => {
      this.recoverStale();
      this.lookAtServers();
      if (this.phase !== "waiting" && this.phase !== "failed") await this.evaluator?.look();
      const isIdle = this.evaluator?.isIdle ?? true;
      if (this.phase === "trained" && this.finalVersion !== undefined && isIdle) {
        this.phase = "finished";
        this.reducer.regroup();
        await this.evaluator?.close();
      }
      this.advance();
      await this.keeper.save(false, this.generation);
    });
  }

  /** How it is. */
  status(): MasterStatus {
    const notes = this.pendingNotes;
    this.pendingNotes = [];
    return {
      phase: this.phase,
      modelVersion: this.modelVersion,
      loss: this.loss,
      epoch: this.queue.epoch,
      tasksDone: this.queue.doneCount,
      taskCount: this.options.schedule.taskCount,
      evaluated: this.evaluator?.last,
      reason: this.failure?.reason ?? this.endReason,
      code: this.failure?.code ?? "",
      needsRollback: this.needsRollback,
      generation: this.generation,
      silentWorkers: [...this.silentWorkers],
      notes,
    };
  }

  private note(text: string): void {
    if (this.pendingNotes.length < 100) this.pendingNotes.push(text);
  }

  private hear(workerId: number): void {
    this.silentWorkers.delete(workerId);
    this.heardMs.set(workerId, this.options.now());
  }

  /** Takes back tasks of some workers. */
  private forget(isLost: (issued: Issued) => boolean): void {
    for (const [taskId, issued] of [...this.issued]) {
      if (!isLost(issued)) continue;
      this.issued.delete(taskId);
      if (issued.kind === "training") this.queue.giveBack(issued.index);
      else if (issued.kind === "evaluation") this.evaluator?.round?.giveBack(issued.index);
    }
  }

  /** Servers that are away for long are asked to be started anew; if that does not help, it is over. */
  private lookAtServers(): void {
    const { now, serverTimeoutMs } = this.options;
    if (this.unavailableSinceMs === undefined) return;
    const awayMs = now() - this.unavailableSinceMs;
    if (awayMs > serverTimeoutMs) {
      this.fail("rpc-failed", `the parameter servers cannot be reached for ${serverTimeoutMs / 1000} s`);
    } else if (awayMs > serverTimeoutMs / 4) this.needsRollback = true;
  }

  private recoverStale(): void {
    const { now, workerTimeoutMs } = this.options;
    const isStale = ({ workerId }: Issued) => now() - (this.heardMs.get(workerId) ?? 0) > workerTimeoutMs;
    const lost = new Set([...this.issued.values()].filter(isStale).map(({ workerId }) => workerId));
    for (const workerId of lost) this.note(`worker ${workerId} says nothing: others get its task`);
    for (const workerId of lost) {
      this.silentWorkers.add(workerId);
      this.removeWorker(workerId);
    }
  }

  private evaluationTask(workerId: number): WorkerTask | undefined {
    const round = this.evaluator?.round;
    const part = round?.take(workerId);
    if (round === undefined || part === undefined) return undefined;
    const { modelVersion, path, round: number } = round;
    const taskId = this.issue({ workerId, kind: "evaluation", index: part.index });
    return { kind: "evaluation", taskId, start: part.start, end: part.end, modelVersion, path, round: number };
  }

  private trainingTask(workerId: number): WorkerTask | undefined {
    const { servers } = this;
    if (this.phase !== "training" || servers === undefined || this.needsRollback) return undefined;
    const task = this.queue.take(workerId, this.options.now());
    if (task === undefined) return undefined;
    return this.describe(task, this.issue({ workerId, kind: "training", index: task.index }));
  }

  private describe(task: ScheduledTask, taskId: number): TrainingTask {
    const { epoch, start, end } = task;
    const { startVersion } = this.queue;
    return { kind: "training", taskId, epoch, start, end, startVersion, ...this.serversOfTask };
  }

  /** Where workers keep the model themselves, the first of them saves the last state. */
  private saveTask(workerId: number): WorkerTask | undefined {
    const { strategy } = this.options.job;
    if (this.phase !== "trained" || this.finalVersion !== undefined || strategy === "parameter-server")
      return undefined;
    if (strategy === "allreduce" && this.reducer.workerIds[0] !== workerId) return undefined;
    if ([...this.issued.values()].some(({ kind }) => kind === "save")) return undefined;
    return { kind: "save", taskId: this.issue({ workerId, kind: "save", index: 0 }), ...this.serversOfTask };
  }

  private get serversOfTask(): ServersOfTask {
    const { generation = 0, addresses = [], isRestored = false, startPath = "" } = this.servers ?? {};
    return { generation, addresses, isRestored, startPath };
  }

  private issue(issued: Issued): number {
    this.taskCounter = (this.taskCounter + 1) % 2 ** 31;
    this.issued.set(this.taskCounter, issued);
    return this.taskCounter;
  }

  private completeTraining(index: number, modelVersion: number): void {
    const { isExact } = this.options.job;
    const task = this.options.schedule.task(index);
    // The end of the training may come in the middle of a task.
    if (isExact && modelVersion < this.queue.startVersion + task.batchCount) this.queue.giveBack(index);
    else this.queue.complete(index, modelVersion);
    this.attempts.delete(index);
    this.modelVersion = Math.max(this.modelVersion, modelVersion);
    this.unavailableSinceMs = undefined;
    this.keeper.isDirty = true;
    const { maxStep } = this.options.job;
    if (maxStep > 0 && modelVersion >= maxStep) this.stop(`version ${modelVersion} was reached`);
  }

  private failTraining(index: number, { code, message }: { readonly code: string; readonly message: string }): void {
    this.queue.giveBack(index);
    if (code === "rpc-failed") this.unavailableSinceMs ??= this.options.now();
    else if (code === "servers-disagree") {
      this.note(message);
      this.needsRollback = true;
    } else {
      const attempts = (this.attempts.get(index) ?? 0) + 1;
      this.attempts.set(index, attempts);
      if (FATAL.has(code) || attempts >= MAX_ATTEMPTS) this.fail(code, message);
      else this.note(message);
    }
  }

  private stop(reason: string): void {
    this.queue.stop();
    if (this.endReason === "") this.endReason = reason;
  }

  private advance(): void {
    if (this.phase !== "training") return;
    if (this.evaluator?.isStopAdvised) this.stop(`${this.options.evaluation?.best.metric} gets no better`);
    if (!this.queue.isFinished) return;
    this.phase = "trained";
    if (this.endReason === "") this.endReason = "all data were trained with";
  }

  /** Takes over what is known of the training that this one goes on with. */
  private async recall(): Promise<void> {
    const { generation, isUnaligned, isRestarted, note } = await this.keeper.recall();
    this.generation = generation;
    this.isUnaligned = isUnaligned;
    if (note !== undefined) this.note(note);
    if (isRestarted) await this.evaluator?.recall();
  }

  /** One piece of work on files at a time. */
  private serially(work: () => Promise<void>): Promise<void> {
    const done = this.work.then(work);
    this.work = done.catch(() => {});
    return done;
  }
}
