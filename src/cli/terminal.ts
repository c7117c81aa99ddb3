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
export const EXIT = { good: 0, findings: 1, usage: 2, input: 3, output: 4, interrupted: 130 } as const;

/** Where a command writes, and how it is told to stop. */
export class Terminal {
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  readonly options: CommonOptions;
  private readonly controller = new AbortController();
  private readonly progresses: Progress[] = [];

  /** The terminal of a command with these options. */
  constructor(options: CommonOptions) {
    this.options = options;
    this.signal = this.controller.signal;
    process.once("SIGINT", () => this.controller.abort(new CairnError("interrupted", "interrupted")));
    process.once("SIGTERM", () => this.controller.abort(new CairnError("interrupted", "terminated")));
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

  /** Text in a style, where the stream shows it. */
  style(format: Parameters<typeof styleText>[0], text: string, stream: NodeJS.WriteStream = process.stdout): string {
    return stream.isTTY && process.env.NO_COLOR === undefined ? styleText(format, text) : text;
  }

  /** Tells of an error and gives the exit code for it. */
  fail(error: unknown): number {
    this.endProgress();
    if (!(error instanceof CairnError)) throw error;
    if (this.options.json) this.json({ error: errorJson(error) });
    process.stderr.write(`${this.style("red", "error:", process.stderr)} ${error.message}\n`);
    if (error.hint !== undefined) process.stderr.write(`  ${error.hint}\n`);
    if (this.options.debug) process.stderr.write(`${causeChain(error)}\n`);
    return exitCodeOf(error.code);
  }

  private endProgress(): void {
    for (const progress of this.progresses) progress.end();
  }
}

/** An error as `--json` shows it. */
export function errorJson(error: CairnError): Record<string, unknown> {
  const { code, message, file, offset, expected, actual, hint } = error;
  return { code, message, file, offset, expected, actual, hint };
}

function exitCodeOf(code: ErrorCode): number {
  if (code === "usage" || code === "exists" || code === "invalid-plan") return EXIT.usage;
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
