import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type CairnError, type ErrorCode, isCairnError, StorageError } from "../../errors.js";
import { listVersions } from "../../formats/elasticdl/versions.js";
import { localFiles } from "../../platform/node/index.js";
import type { JobStatus } from "../../proto/gen/cairn/training_pb.js";
import { alignServers } from "./align-servers.js";
import { type JobOptions, masterArguments } from "./job-options.js";
import { ManagedProcess } from "./managed-process.js";
import { MasterClient } from "./master-client.js";
import { findAfterFault, findStart, prune, type StartVersion } from "./start-version.js";
import { type SuperviseOptions, serverArguments, type TrainingResult } from "./supervise-options.js";

/** How often the processes are looked at, in milliseconds. */
const LOOK_MS = 100;
/** A process that does not serve after so long does not come up, in milliseconds. */
const START_TIMEOUT_MS = 60_000;
/** A server gets so long to save its last state, in milliseconds. */
const SAVE_GRACE_MS = 60_000;
/** Another process gets so long to end, in milliseconds. */
const END_GRACE_MS = 5_000;
/** Restarts without a newer version in between before a training is given up. */
const MAX_RESTARTS = 20;
/** A master that does not answer for so long hangs, in milliseconds. */
const MASTER_TIMEOUT_MS = 45_000;
/** How often a worker may end by its own fault. */
const MAX_WORKER_FAULTS = 3;

/**
 * Trains with processes on this machine, sees that they go on when one of them dies, and ends them all.
 * @throws {@link StorageError} (`training-failed`, or the code that the master tells), {@link CairnError} (`interrupted`)
 */
export async function superviseTraining(options: SuperviseOptions): Promise<TrainingResult> {
  const start = await findStart(localFiles, options);
  for (const note of start?.notes ?? []) options.onNote(note);
  const supervisor = new Supervisor(options, start);
  try {
    return await supervisor.run();
  } finally {
    await supervisor.close();
  }
}

class Supervisor {
  private readonly options: SuperviseOptions;
  private readonly start: StartVersion | undefined;
  private readonly job: JobOptions;
  private master: ManagedProcess | undefined;
  private masterAddress = "";
  private client: MasterClient | undefined;
  private servers: ManagedProcess[] = [];
  private serversMessage: Parameters<MasterClient["setServers"]>[0] | undefined;
  private workers: ManagedProcess[] = [];
  private readonly workerFaults: number[] = [];
  private readonly lostPeers = new Set<number>();
  private readonly restarts = { servers: 0, workers: 0, master: 0 };
  private restartsInRow = 0;
  private alignFailures = 0;
  private masterHeardMs = performance.now();
  private silenced: ReadonlySet<number> = new Set();
  private bestProgress = 0;
  private generation = 0;
  private finalVersion: number | undefined;
  private savedVersion = 0;
  private lookedMs = 0;

  constructor(options: SuperviseOptions, start: StartVersion | undefined) {
    this.options = options;
    this.start = start;
    this.savedVersion = start?.modelVersion ?? 0;
    this.job = { ...options, jobId: randomUUID(), initPath: start?.path };
  }

  async run(): Promise<TrainingResult> {
    const { options, start } = this;
    if (start !== undefined) options.onNote(`going on from version ${start.modelVersion}: ${start.path}`);
    await this.startMaster();
    await this.begin(start);
    for (let workerId = 0; workerId < options.numWorkers; workerId++) this.startWorker(workerId);
    for (;;) {
      options.signal.throwIfAborted();
      await this.lookAtProcesses();
      const status = await this.status();
      if (status !== undefined) {
        this.take(status);
        if (status.phase === "finished") return this.finish(status);
        if (status.needsRollback && this.finalVersion === undefined)
          await this.rollBack("the servers are not of one version, or do not answer");
        else if (status.phase === "trained" && this.finalVersion === undefined && this.hasServers)
          await this.saveLast(status);
      }
      await delay(LOOK_MS, undefined, { signal: options.signal }).catch(() => {});
    }
  }

  /** Ends all processes, each by its own id; servers get the time to save. */
  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.stop(END_GRACE_MS)));
    await this.client?.close();
    const areAlive = this.servers.length > 0 && this.servers.every(({ end }) => end === undefined);
    if (areAlive) await this.align().catch(() => {});
    // What has not been trained need not be saved.
    if (this.bestProgress <= (this.start?.modelVersion ?? 0)) for (const server of this.servers) server.kill("SIGKILL");
    await Promise.all([
      ...this.servers.map((server) => server.stop(SAVE_GRACE_MS)),
      ...(this.master === undefined ? [] : [this.master.stop(END_GRACE_MS)]),
    ]);
    const { checkpointDir } = this.options;
    // Servers that were stopped between two pushes may have saved two versions, neither of them whole.
    if (checkpointDir !== undefined && this.generation > 0)
      await prune(localFiles, checkpointDir, this.options.keepCheckpointMax);
  }

  private async lookAtProcesses(): Promise<void> {
    if (this.master?.end !== undefined) await this.restartMaster();
    const dead = this.servers.find(({ end }) => end !== undefined);
    if (dead !== undefined)
      await this.rollBack(`${dead.name} ended with ${dead.end?.signal ?? `exit code ${dead.end?.code}`}`);
    if (!this.hasServers && (await this.lookAtPeers())) return;
    for (const [workerId, worker] of this.workers.entries()) {
      if (worker.end === undefined || worker.end.code === 0) continue;
      if (worker.end.signal === null) {
        this.workerFaults[workerId] = (this.workerFaults[workerId] ?? 0) + 1;
        if ((this.workerFaults[workerId] ?? 0) >= MAX_WORKER_FAULTS) throw worker.error();
      }
      this.countRestart(worker);
      this.restarts.workers++;
      this.options.onNote(
        `${worker.name} ended with ${worker.end.signal ?? `exit code ${worker.end.code}`}: started again`,
      );
      this.startWorker(workerId);
    }
  }

  private get hasServers(): boolean {
    return this.options.strategy === "parameter-server";
  }

  /**
   * Looks at workers that keep the model themselves. When one dies the others go on without it: they have all it had. Only
   * when all are gone they are started again, from the newest complete version.
   */
  private async lookAtPeers(): Promise<boolean> {
    const dead = [...this.workers.entries()].filter(([, { end }]) => end !== undefined && end.code !== 0);
    for (const [workerId, worker] of dead) {
      if (this.lostPeers.has(workerId)) continue;
      this.lostPeers.add(workerId);
      if (worker.end?.signal === null && dead.length < this.workers.length) throw worker.error();
      this.options.onNote(`${worker.name} ended with ${worker.end?.signal}: the others go on`);
      await this.tell((client) => client.removeWorker(workerId));
    }
    const [first] = dead;
    if (first === undefined || dead.length < this.workers.length) return true;
    if (first[1].end?.signal === null) throw first[1].error();
    await this.rollBack("all workers have ended");
    for (const workerId of this.workers.keys()) this.startWorker(workerId);
    return true;
  }

  /** Tells the workers, who keep the model themselves, or servers what to begin with. */
  private async begin(start: StartVersion | undefined): Promise<void> {
    if (this.hasServers) return this.startServers(start);
    this.generation++;
    this.lostPeers.clear();
    const modelVersion = start?.modelVersion ?? 0;
    const { generation } = this;
    const startPath = start === undefined ? "" : resolve(start.path);
    const message = { addresses: [], generation, modelVersion, isRestored: start !== undefined, startPath };
    this.serversMessage = message;
    await this.tell((client) => client.setServers(message));
  }

  private async startMaster(port = 0): Promise<void> {
    const args = [
      "master",
      this.options.definitionPath,
      "--port",
      String(port),
      "--end-with-input",
      ...masterArguments(this.job),
    ];
    const master = this.spawn("master", args);
    this.master = master;
    const match = await master.line(/^serving ([^\s,]+)/m, START_TIMEOUT_MS);
    if (match === undefined) {
      if (master.end?.signal) return;
      if (master.end === undefined) master.kill("SIGKILL");
      await master.ended;
      throw master.error();
    }
    this.masterAddress = match[1] as string;
    this.masterHeardMs = performance.now();
    this.client ??= new MasterClient(this.masterAddress, { patienceMs: 0, signal: this.options.signal });
  }

  private async restartMaster(): Promise<void> {
    const master = this.master as ManagedProcess;
    if (this.options.checkpointDir === undefined) throw master.error();
    this.countRestart(master);
    this.restarts.master++;
    this.options.onNote(
      `the master ended with ${master.end?.signal ?? `exit code ${master.end?.code}`}: started again`,
    );
    await this.startMaster(Number(this.masterAddress.split(":").at(-1)));
    if (this.serversMessage !== undefined)
      await this.tell((client) => client.setServers(this.serversMessage as NonNullable<typeof this.serversMessage>));
    const { finalVersion } = this;
    if (finalVersion !== undefined) await this.tell((client) => client.setTrained(finalVersion));
  }

  /** Starts all servers from one version, or anew, and tells the master. Servers that are killed meanwhile are started again. */
  private async startServers(start: StartVersion | undefined): Promise<void> {
    this.generation++;
    const { numPs } = this.options;
    this.servers = Array.from({ length: numPs }, (_, psId) =>
      this.spawn(`ps-${psId}`, serverArguments(this.options, psId, start)),
    );
    const addresses: string[] = [];
    for (const server of this.servers) {
      const match = await server.line(/^serving ([^\s,]+)/m, START_TIMEOUT_MS);
      if (match === undefined && (server.end === undefined || server.end.signal === null))
        throw await this.noStart(server);
      addresses.push(match?.[1] ?? "");
    }
    // One that was killed at its start is found by the next look.
    if (addresses.includes("")) return;
    const modelVersion = start?.modelVersion ?? 0;
    const { generation } = this;
    const message = {
      addresses,
      generation,
      modelVersion,
      isRestored: start !== undefined,
      startPath: start?.path ?? "",
    };
    this.serversMessage = message;
    await this.tell((client) => client.setServers(message));
  }

  private async noStart(server: ManagedProcess): Promise<CairnError> {
    server.kill("SIGKILL");
    await server.ended;
    return server.error();
  }

  private startWorker(workerId: number): void {
    const args = [
      "worker",
      this.options.definitionPath,
      "--master-addr",
      this.masterAddress,
      "--worker-id",
      String(workerId),
    ];
    this.workers[workerId] = this.spawn(`worker-${workerId}`, [...args, "--end-with-input"]);
  }

  /**
   * Brings all servers back to the newest complete version: they are ended, so that no one writes, and started from it. The
   * master then deals out again what was trained since.
   */
  private async rollBack(why: string): Promise<void> {
    const { checkpointDir } = this.options;
    for (const server of this.servers) server.kill("SIGKILL");
    await Promise.all(this.servers.map(({ ended }) => ended));
    const first = this.servers[0] ?? this.workers[0];
    if (first !== undefined) this.countRestart(first);
    this.restarts.servers++;
    if (checkpointDir === undefined) {
      throw new StorageError("training-failed", `${why}, and nothing was saved to go on from`, {
        hint: "With --checkpoint-dir and --checkpoint-steps training goes on from the newest version.",
      });
    }
    const start = (await findAfterFault(localFiles, checkpointDir)) ?? this.start;
    const place =
      start === undefined
        ? "no version is complete yet: beginning anew from the first model"
        : `back to version ${start.modelVersion}`;
    this.options.onNote(`${why}: ${place}`);
    this.finalVersion = undefined;
    this.savedVersion = start?.modelVersion ?? 0;
    await this.begin(start);
  }

  /** All is trained: the servers save their last state and end. */
  private async saveLast(status: JobStatus): Promise<void> {
    if (!(await this.align())) return;
    const ends = await Promise.all(this.servers.map((server) => server.stop(SAVE_GRACE_MS)));
    if (ends.some(({ code }) => code !== 0)) return this.rollBack("a server ended before it had saved its last state");
    this.servers = [];
    const { checkpointDir } = this.options;
    const last = checkpointDir === undefined ? undefined : await findAfterFault(localFiles, checkpointDir);
    if (checkpointDir !== undefined && last === undefined) {
      throw new StorageError("training-failed", "the servers ended at different versions, and no version is complete", {
        hint: "Save more often, with --checkpoint-steps.",
      });
    }
    if (last !== undefined && last.modelVersion < status.modelVersion) {
      const text = `the last complete version is ${last.modelVersion}: the servers ended at different ones, up to ${status.modelVersion}`;
      this.options.onNote(text);
    }
    this.finalVersion = last?.modelVersion ?? status.modelVersion;
    const { finalVersion } = this;
    await this.tell((client) => client.setTrained(finalVersion));
  }

  /** Brings the servers to one version. False when one cannot be reached, which the next look finds gone. */
  private async align(): Promise<boolean> {
    const { useAsync, gradsToWait } = this.options;
    try {
      await alignServers(this.serversMessage?.addresses ?? [], useAsync ? 1 : gradsToWait);
      return true;
    } catch (error) {
      if (!isCairnError(error, "rpc-failed") || ++this.alignFailures > MAX_RESTARTS) throw error;
      await delay(LOOK_MS);
      return false;
    }
  }

  private async finish(status: JobStatus): Promise<TrainingResult> {
    await Promise.race([
      Promise.all(this.workers.map(({ ended }) => ended)),
      delay(END_GRACE_MS, undefined, { ref: false }),
    ]);
    const { reason, metrics } = status;
    return { modelVersion: this.finalVersion ?? status.modelVersion, reason, metrics, restarts: { ...this.restarts } };
  }

  /** The master's word on how it is; undefined while it is away. */
  private async status(): Promise<JobStatus | undefined> {
    try {
      const status = await this.client?.getStatus();
      if (status?.phase === "failed")
        throw new StorageError((status.code || "training-failed") as ErrorCode, status.reason);
      return status;
    } catch (error) {
      if (!isCairnError(error, "rpc-failed") || this.options.signal.aborted) throw error;
      if (performance.now() - this.masterHeardMs > MASTER_TIMEOUT_MS) this.master?.kill("SIGKILL");
      await delay(LOOK_MS);
      return undefined;
    }
  }

  private take(status: JobStatus): void {
    for (const note of status.notes) this.options.onNote(note);
    if (status.modelVersion > this.bestProgress) {
      this.bestProgress = status.modelVersion;
      this.restartsInRow = 0;
    }
    // One that hangs is ended, and then it is as any that has ended.
    for (const workerId of status.silentWorkers)
      if (!this.silenced.has(workerId)) this.workers[workerId]?.kill("SIGKILL");
    // The one in its place is silent too, until it is up.
    this.silenced = new Set(status.silentWorkers);
    this.masterHeardMs = performance.now();
    this.options.onStatus(status);
    void this.noteSaved();
  }

  /** Tells of versions that were saved, by their names, at most once a second. */
  private async noteSaved(): Promise<void> {
    const { checkpointDir, onNote } = this.options;
    if (checkpointDir === undefined || performance.now() - this.lookedMs < 1000) return;
    this.lookedMs = performance.now();
    const listed = await listVersions(localFiles, checkpointDir).catch(() => undefined);
    const newest = listed?.versions.findLast(({ problems }) => problems.length === 0)?.modelVersion ?? 0;
    if (newest <= this.savedVersion) return;
    this.savedVersion = newest;
    onNote(`saved version ${newest}`);
  }

  /** Tells the master something; one that is away is started again by the next look, which tells it too. */
  private async tell(what: (client: MasterClient) => Promise<void>): Promise<void> {
    const { client } = this;
    if (client === undefined) return;
    try {
      await what(client);
    } catch (error) {
      if (!isCairnError(error, "rpc-failed")) throw error;
      if (this.master?.end === undefined) await Promise.race([this.master?.ended, delay(1000)]);
      if (this.master?.end === undefined) throw error;
    }
  }

  private countRestart(process: ManagedProcess): void {
    if (++this.restartsInRow > MAX_RESTARTS) throw process.error();
  }

  private spawn(name: string, args: readonly string[]): ManagedProcess {
    const { command, logDir, onProcess } = this.options;
    const started = new ManagedProcess(name, [...command, ...args], {
      logPath: join(logDir, `${name}.log`),
      onWarning: (text) => this.options.onNote(`${name}: ${text}`),
    });
    if (started.pid !== undefined) onProcess?.(name, started.pid);
    return started;
  }
}
