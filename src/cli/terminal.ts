import { styleText } from "node:util";
import { CairnError, type ErrorCode } from "../errors.js";
import { Progress } from "./progress.js";

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly debug?: boolean;
}

/** Exit codes of the command line. */
export const EXIT = { good: 0, findings: 1, usage: 2, input: 3, output: 4, fault: 70, interrupted: 130 } as const;

/** Signals that come within this after the first are the same one, passed on by npm or a shell again, 1 s. */
const SAME_SIGNAL_MS = 1000;
/** Warnings of one kind that are shown before the rest is only counted. */
const SHOWN_WARNINGS = 8;

/** Where a command writes, and how it is told to stop. */
export class Terminal {
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  readonly options: CommonOptions;
  private readonly controller = new AbortController();
  private readonly progresses: Progress[] = [];
  private stoppedMs: number | undefined;

  /** The terminal of a command with these options. */
  constructor(options: CommonOptions) {
    this.options = options;
    this.signal = this.controller.signal;
    process.on("SIGINT", () => this.stop("interrupted"));
    process.on("SIGTERM", () => this.stop("terminated"));
  }

  /** Ends the work as Ctrl-C does, for another reason. */
  interrupt(reason: string): void {
    this.controller.abort(new CairnError("interrupted", reason));
  }

  /** The result, for people: on standard output, or on standard error when that carries JSON. */
  print(text: string): void {
    this.endProgress();
    if (this.options.json) return;
    process.stdout.write(`${text}\n`);
  }

  /** A remark that is not the result: on standard error, unless it should be quiet. */
  note(text: string): void {
    this.endProgress();
    if (!this.options.quiet) process.stderr.write(`${text}\n`);
  }

  /** A warning, on standard error. */
  warn(text: string): void {
    this.endProgress();
    process.stderr.write(`${this.style("yellow", "warning:", process.stderr)} ${text}\n`);
  }

  /** Warnings of one kind, of which there may be thousands: the first few, and how many more there are. */
  warnAll(texts: readonly string[]): void {
    const shown = texts.length <= SHOWN_WARNINGS + 1 ? texts : texts.slice(0, SHOWN_WARNINGS);
    for (const text of shown) this.warn(text);
    if (shown.length < texts.length) this.warn(`and ${texts.length - shown.length} more like these (--json lists all)`);
  }

  /** The result for programs, on standard output, when `--json` asks for it. */
  json(value: unknown): void {
    this.endProgress();
    if (this.options.json) process.stdout.write(`${JSON.stringify(value, replaceBigint, 2)}\n`);
  }

  /** Shows progress of work on `total` bytes. */
  progress(label: string, total?: number): Progress {
    const progress = new Progress(label, total, this.options.quiet ? undefined : process.stderr);
    this.progresses.push(progress);
    return progress;
  }

  /** Columns of the terminal that shows the result; infinite where it is none. */
  get columns(): number {
    const { isTTY, columns } = process.stdout;
    return isTTY && columns > 0 ? columns : Number.POSITIVE_INFINITY;
  }

  /** Text in a style, where the stream shows it. */
  style(format: Parameters<typeof styleText>[0], text: string, stream: NodeJS.WriteStream = process.stdout): string {
    return stream.isTTY && process.env.NO_COLOR === undefined ? styleText(format, text) : text;
  }

  /** Tells of an error and gives the exit code for it. */
  fail(error: unknown): number {
    this.endProgress();
    if (!(error instanceof CairnError)) return this.failOfOwn(error);
    if (this.options.json) this.json({ error: errorJson(error) });
    process.stderr.write(`${this.style("red", "error:", process.stderr)} ${error.message}\n`);
    if (error.hint !== undefined) process.stderr.write(`  ${error.hint}\n`);
    if (this.options.debug) process.stderr.write(`${causeChain(error)}\n`);
    return exitCodeOf(error.code);
  }

  /** Tells of an error in cairn's own code. */
  private failOfOwn(error: unknown): number {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.json({ error: errorJson({ code: "fault", message: text.split("\n", 1)[0] ?? text }) });
    process.stderr.write(`${this.style("red", "error:", process.stderr)} a fault of cairn itself; please report it\n`);
    process.stderr.write(`${text}\n`);
    return EXIT.fault;
  }

  /** Ends the work in order the first time, and at once when somebody insists. */
  private stop(how: string): void {
    const now = performance.now();
    this.stoppedMs ??= now;
    if (now - this.stoppedMs > SAME_SIGNAL_MS) process.exit(EXIT.interrupted);
    this.controller.abort(new CairnError("interrupted", how));
  }

  private endProgress(): void {
    for (const progress of this.progresses) progress.end();
  }
}

/** What `--json` shows of an error. */
interface ErrorFacts {
  readonly code: string;
  readonly message: string;
  readonly file?: string | undefined;
  readonly offset?: number | undefined;
  readonly expected?: string | number | bigint | undefined;
  readonly actual?: string | number | bigint | undefined;
}

/** An error as `--json` shows it: what is not known is null. */
export function errorJson({ code, message, file, offset, expected, actual }: ErrorFacts): Record<string, unknown> {
  const known = (value: unknown) => value ?? null;
  return {
    code,
    message,
    file: known(file),
    offset: known(offset),
    expected: known(expected),
    actual: known(actual),
  };
}

/** Codes of what the caller asked for and cannot have. */
const USAGE_CODES: ReadonlySet<ErrorCode> = new Set([
  "usage",
  "exists",
  "invalid-plan",
  "not-consumed",
  "tensor-mismatch",
]);

function exitCodeOf(code: ErrorCode): number {
  if (USAGE_CODES.has(code)) return EXIT.usage;
  if (code === "write-failed") return EXIT.output;
  return code === "interrupted" ? EXIT.interrupted : EXIT.input;
}

function causeChain(error: Error): string {
  const lines: string[] = [];
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause)
    lines.push(cause.stack ?? cause.message);
  return lines.join("\ncaused by ");
}

function replaceBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}
