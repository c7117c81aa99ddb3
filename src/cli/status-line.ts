import type { JobStatus } from "../proto/gen/cairn/training_pb.js";
import type { Terminal } from "./terminal.js";

const TERMINAL_INTERVAL_MS = 100;
const LINE_INTERVAL_MS = 5000;

/** Shows how a training goes, on standard error: one line that changes on a terminal, a line every few seconds elsewhere. */
export class StatusLine {
  private readonly terminal: Terminal;
  private readonly stream = process.stderr;
  private shownMs = performance.now();
  private isShown = false;

  /** The line of a terminal. */
  constructor(terminal: Terminal) {
    this.terminal = terminal;
  }

  /** Shows a status. */
  readonly show = (status: JobStatus): void => {
    if (this.terminal.options.quiet) return;
    const nowMs = performance.now();
    if (nowMs - this.shownMs < (this.stream.isTTY ? TERMINAL_INTERVAL_MS : LINE_INTERVAL_MS)) return;
    this.shownMs = nowMs;
    this.isShown = true;
    this.stream.write(this.stream.isTTY ? `\r\x1b[2K${formatStatus(status)}` : `${formatStatus(status)}\n`);
  };

  /** Prints a remark above the line. */
  readonly note = (text: string): void => {
    this.end();
    this.terminal.note(text);
  };

  /** Takes the line away. */
  readonly end = (): void => {
    if (this.isShown && this.stream.isTTY) this.stream.write("\r\x1b[2K");
    this.isShown = false;
  };
}

/** A status in one line. */
export function formatStatus(status: JobStatus): string {
  const { phase, modelVersion, loss, epoch, tasksDone, taskCount, evaluatedVersion, metrics } = status;
  const measured = Object.entries(metrics).map(([name, value]) => `${name} ${value.toPrecision(4)}`);
  const evaluated = evaluatedVersion === 0 ? "" : `  version ${evaluatedVersion}: ${measured.join(", ")}`;
  const lossText = Number.isFinite(loss) ? `  loss ${loss.toPrecision(4)}` : "";
  return `${phase}  version ${modelVersion}${lossText}  epoch ${epoch + 1}  task ${tasksDone} of ${taskCount}${evaluated}`;
}
