import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync, type WriteStream } from "node:fs";
import { dirname } from "node:path";
import { StorageError } from "../../errors.js";

/** How a process ended. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Options of {@link ManagedProcess}. */
export interface ManagedProcessOptions {
  readonly logPath: string;
  /** Told of lines that the process prints as warnings. */
  readonly onWarning?: ((text: string) => void) | undefined;
}

/** A process that was started here: what it prints goes to a log, and it is ended by its own id. */
export class ManagedProcess {
  readonly name: string;
  readonly logPath: string;
  /** Undefined while it runs. */
  end: ProcessEnd | undefined;
  /** Told when it has ended. */
  readonly ended: Promise<ProcessEnd>;
  private readonly onWarning: ManagedProcessOptions["onWarning"];
  private readonly child: ChildProcess;
  private readonly log: WriteStream;
  private output = "";
  private readonly waiters = new Set<() => void>();

  /** Starts a command. It is in a group of its own, so that Ctrl-C on the terminal does not reach it, and has to end when its standard input ends. */
  constructor(name: string, command: readonly string[], { logPath, onWarning }: ManagedProcessOptions) {
    this.name = name;
    this.logPath = logPath;
    this.onWarning = onWarning;
    mkdirSync(dirname(logPath), { recursive: true });
    this.log = createWriteStream(logPath, { flags: "a" });
    const [program = "", ...args] = command;
    this.child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], detached: process.platform !== "win32" });
    this.child.stdin?.on("error", () => {});
    this.log.write(`--- ${name}, process ${this.child.pid}\n`);
    for (const stream of [this.child.stdout, this.child.stderr]) stream?.on("data", (data: Buffer) => this.take(data));
    this.ended = new Promise((resolve) => {
      const finish = (code: number | null, signal: NodeJS.Signals | null) => {
        this.end = { code, signal };
        this.log.end();
        for (const wake of this.waiters) wake();
        resolve(this.end);
      };
      this.child.once("close", finish);
      this.child.once("error", () => finish(127, null));
    });
  }

  /** The number of the process. */
  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Waits for a line that matches; undefined when the process ends before, or nothing comes in time. */
  async line(pattern: RegExp, timeoutMs: number): Promise<RegExpExecArray | undefined> {
    const isLate = AbortSignal.timeout(timeoutMs);
    for (;;) {
      const match = pattern.exec(this.output);
      if (match !== null) return match;
      if (this.end !== undefined || isLate.aborted) return undefined;
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.waiters.delete(wake);
          isLate.removeEventListener("abort", wake);
          resolve();
        };
        this.waiters.add(wake);
        isLate.addEventListener("abort", wake, { once: true });
      });
    }
  }

  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void {
    if (this.end === undefined) this.child.kill(signal);
  }

  /** Asks it to end, and makes it end after `graceMs`. */
  async stop(graceMs: number): Promise<ProcessEnd> {
    this.kill("SIGTERM");
    const timer = setTimeout(() => this.kill("SIGKILL"), graceMs);
    const end = await this.ended;
    clearTimeout(timer);
    return end;
  }

  /** What it said last: the line of an error where there is one. */
  lastWords(): string {
    let lines: string[] = [];
    try {
      lines = readFileSync(this.logPath, "utf8").trimEnd().split("\n").slice(-40);
    } catch {
      // A log that cannot be read has no words.
    }
    const error = lines.findLast((line) => line.startsWith("error: "));
    return error?.slice("error: ".length) ?? lines.findLast((line) => !line.startsWith("---")) ?? "";
  }

  /** The error of a process that ended by its own fault. */
  error(): StorageError {
    const { code, signal } = this.end ?? { code: null, signal: null };
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
    const details = { file: this.logPath };
    return new StorageError("training-failed", `${this.name} ended with ${how}: ${this.lastWords()}`, details);
  }

  private take(data: Buffer): void {
    this.log.write(data);
    for (const [, text = ""] of data.toString("utf8").matchAll(/^warning: (.*)$/gm)) this.onWarning?.(text);
    // What is waited for comes first.
    if (this.output.length < 65_536) this.output += data.toString("utf8");
    for (const wake of [...this.waiters]) wake();
  }
}
