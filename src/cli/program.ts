import { Command } from "commander";
import { checkpointsCommand } from "./commands/checkpoints.js";
import { completionCommand } from "./commands/completion.js";
import { convertCommand } from "./commands/convert.js";
import { diffCommand } from "./commands/diff.js";
import { evaluateCommand } from "./commands/evaluate.js";
import { exportCommand } from "./commands/export.js";
import { getCommand } from "./commands/get.js";
import { inspectCommand } from "./commands/inspect.js";
import { manifestsCommand } from "./commands/manifests.js";
import { masterCommand } from "./commands/master.js";
import { mergeCommand } from "./commands/merge.js";
import { mergeCheckpointsCommand } from "./commands/merge-checkpoints.js";
import { predictCommand } from "./commands/predict.js";
import { psCommand } from "./commands/ps.js";
import { reshardCommand } from "./commands/reshard.js";
import { splitCommand } from "./commands/split.js";
import { tensorsCommand } from "./commands/tensors.js";
import { trainCommand } from "./commands/train.js";
import { verifyCommand } from "./commands/verify.js";
import { workerCommand } from "./commands/worker.js";
import { EXIT, errorJson } from "./terminal.js";

/** The command line. */
export function makeProgram(version: string): Command {
  const program = new Command("cairn")
    .description("Keeps the state of machine-learning models at any size.")
    .version(version, "-V, --version")
    .showHelpAfterError("(add --help for what it takes)")
    // An option behind a command is that of the command: export has a --version of its own.
    .enablePositionalOptions()
    .exitOverride();
  const commands = [
    inspectCommand(),
    tensorsCommand(),
    getCommand(),
    splitCommand(),
    mergeCommand(),
    verifyCommand(),
    diffCommand(),
    convertCommand(),
    reshardCommand(),
    mergeCheckpointsCommand(),
    checkpointsCommand(),
    exportCommand(),
    trainCommand(),
    evaluateCommand(),
    predictCommand(),
    masterCommand(),
    workerCommand(),
    psCommand(),
    manifestsCommand(),
    completionCommand(program),
  ];
  for (const command of commands) {
    command.copyInheritedSettings(program);
    if (command.name() !== "completion") {
      command
        .option("--json", "one JSON document on standard output")
        .option("-q, --quiet", "no progress and no remarks")
        .option("--debug", "show where an error comes from");
    }
    program.addCommand(command);
  }
  program.addHelpText(
    "after",
    "\nExamples:\n  cairn inspect my_model\n  cairn split my_model split_model --max-chunk-size 500MB\n  cairn verify split_model\n\nExit codes: 0 good, 1 findings, 2 usage, 3 input cannot be read, 4 output cannot be written, 130 interrupted.",
  );
  return program;
}

/** Runs the command line on arguments, without those of Node. */
export async function runProgram(args: readonly string[], version: string): Promise<void> {
  try {
    await makeProgram(version).parseAsync([...args], { from: "user" });
  } catch (error) {
    // commander ends `--help` and `--version` this way too, with exit code 0.
    const { code, exitCode, message } = error as { code?: string; exitCode?: number; message: string };
    if (code?.startsWith("commander.") !== true) throw error;
    process.exitCode = exitCode === 0 ? EXIT.good : EXIT.usage;
    // For people it has been said on standard error.
    if (exitCode === 0 || !args.includes("--json")) return;
    const facts = errorJson({ code: "usage", message: message.replace(/^error: /, "") });
    process.stdout.write(`${JSON.stringify({ error: facts }, undefined, 2)}\n`);
  }
}
