import { Command, Option } from "commander";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";
import { count, endWithInput } from "../training-options.js";

interface WorkerOptions extends CommonOptions {
  readonly masterAddr: string;
  readonly workerId: number;
  readonly endWithInput?: boolean;
}

/** `cairn worker MODEL_DEF` */
export function workerCommand(): Command {
  return new Command("worker")
    .summary("train for a master")
    .description("Computes gradients with TF.js for a training's master until there is nothing more to do.")
    .argument("<model-def>", "a JavaScript module whose default export is the model definition")
    .requiredOption("--master-addr <host:port>", "the master")
    .option("--worker-id <number>", "which of the job's workers this is", count, 0)
    .addOption(new Option("--end-with-input", "end when standard input ends").hideHelp())
    .addHelpText("after", "\nExample:\n  cairn worker model.js --master-addr localhost:2300 --worker-id 1")
    .action((path: string, options: WorkerOptions) => runCommand(options, (terminal) => work(path, options, terminal)));
}

async function work(path: string, options: WorkerOptions, terminal: Terminal): Promise<void> {
  endWithInput(options.endWithInput, terminal);
  const { runWorkerProcess } = await import("../../training/job/run-worker-process.js");
  await runWorkerProcess({
    definitionPath: path,
    masterAddress: options.masterAddr,
    workerId: options.workerId,
    signal: terminal.signal,
    onNote: (text) => terminal.note(text),
  });
  terminal.note("nothing more to do");
}
