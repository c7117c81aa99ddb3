import { formatBytes } from "../formats/text.js";

/** Nothing is shown before this, so that short work stays quiet. */
const QUIET_MS = 1000;
const TERMINAL_INTERVAL_MS = 100;
const LINE_INTERVAL_MS = 5000;
const BAR_WIDTH = 28;

/** Shows how far long work is, on standard error: a bar with rate and time left on a terminal, plain lines elsewhere. */
export class Progress {
  private readonly label: string;
  private readonly total: number | undefined;
  private readonly stream: NodeJS.WriteStream | undefined;
  private readonly startMs = performance.now();
  private shownMs = this.startMs;
  private done = 0;
  private isShown = false;

  /** Progress of `total` bytes of work, where that is known; `stream` undefined shows nothing. */
  constructor(label: string, total: number | undefined, stream: NodeJS.WriteStream | undefined) {
    this.label = label;
    this.total = total;
    this.stream = stream;
  }

  /** Notes that `count` more bytes are done. */
  readonly add = (count: number): void => {
    this.done += count;
    if (this.stream === undefined) return;
    const now = performance.now();
    const interval = this.stream.isTTY ? TERMINAL_INTERVAL_MS : LINE_INTERVAL_MS;
    if (now - this.startMs < QUIET_MS || (this.isShown && now - this.shownMs < interval)) return;
    this.shownMs = now;
    this.isShown = true;
    this.stream.write(this.stream.isTTY ? `\r\x1b[2K${this.line(now)}` : `${this.line(now)}\n`);
  };

  /** Takes the bar away. */
  readonly end = (): void => {
    if (this.isShown && this.stream?.isTTY) this.stream.write("\r\x1b[2K");
    this.isShown = false;
  };

  private line(now: number): string {
    const rate = this.done / Math.max(0.001, (now - this.startMs) / 1000);
    const speed = `${formatBytes(rate)}/s`;
    if (this.total === undefined || this.total === 0) return `${this.label}  ${formatBytes(this.done)}  ${speed}`;
    const share = Math.min(1, this.done / this.total);
    const filled = Math.round(share * BAR_WIDTH);
    const bar = "█".repeat(filled) + "░".repeat(BAR_WIDTH - filled);
    const left = formatSeconds(Math.max(0, this.total - this.done) / Math.max(1, rate));
    const amount = `${formatBytes(this.done)} of ${formatBytes(this.total)}`;
    return `${this.label}  ${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${amount}  ${speed}  ${left} left`;
  }
}

function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
