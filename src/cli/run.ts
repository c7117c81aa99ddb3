import { CairnError } from "../errors.js";
import { type CommonOptions, EXIT, Terminal } from "./terminal.js";

/** What a command's work gives: an exit code, or nothing when all went well. */
export type CommandResult = number | undefined;

/** Runs a command's work, tells of errors, and sets the exit code. */
export async function runCommand(
  options: CommonOptions,
  work: (terminal: Terminal) => Promise<CommandResult> | Promise<void>,
): Promise<void> {
  const terminal = new Terminal(options);
  try {
    process.exitCode = (await work(terminal)) ?? EXIT.good;
  } catch (error) {
    // An aborted wait fails with the reason that the signal was given.
    const reason = terminal.signal.aborted && !(error instanceof CairnError) ? terminal.signal.reason : error;
    process.exitCode = terminal.fail(reason);
  }
}
