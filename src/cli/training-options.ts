import { type Command, InvalidArgumentError, Option } from "commander";
import type { JobOptions } from "../training/job/job-options.js";
import type { CommonOptions, Terminal } from "./terminal.js";

/** Options of the commands that know a whole training; those of its data and evaluation. */
export interface TrainingFlags extends CommonOptions, Omit<JobOptions, "initPath" | "shuffle" | "useAsync"> {
  readonly shuffle?: boolean;
  readonly useAsync?: boolean;
  readonly checkpointDirForInit?: string;
  readonly endWithInput?: boolean;
}

/** A whole number from 0 as an argument. */
export function count(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It has to be a whole number from 0.");
}

/** A whole number from 1 as an argument. */
export function countFromOne(text: string): number {
  if (count(text) >= 1) return count(text);
  throw new InvalidArgumentError("It has to be a whole number from 1.");
}

/** Gives a command the options of a training. Names follow ElasticDL's. */
export function addTrainingOptions(command: Command): Command {
  return command
    .addOption(
      new Option("--strategy <strategy>", "where parameters are: on servers, with every worker, in one process")
        .choices(["parameter-server", "allreduce", "local"])
        .default("parameter-server"),
    )
    .option("--num-workers <count>", "workers", countFromOne, 1)
    .option("--num-epochs <count>", "how often all data are trained with", countFromOne, 1)
    .option("--minibatch-size <count>", "records of a batch", countFromOne, 64)
    .option("--num-minibatches-per-task <count>", "batches that a worker gets at a time", countFromOne, 8)
    .option("--max-step <version>", "end at this version; 0 for no such end", count, 0)
    .option("--shuffle", "deal out the data in another order each epoch, and mix each task's records, by the seed")
    .option("--seed <number>", "what random numbers depend on", count, 0)
    .option("--use-async", "servers apply each push at once")
    .option("--grads-to-wait <count>", "pushes that servers apply together, without --use-async", countFromOne, 1)
    .option("--checkpoint-dir <dir>", "where versions are saved")
    .option("--checkpoint-steps <count>", "save every so many versions, and the last; 0 only the last", count, 0)
    .option("--keep-checkpoint-max <count>", "versions that are kept, beside the best; 0 keeps all", count, 0)
    .option(
      "--checkpoint-dir-for-init <dir>",
      "go on from a version, a checkpoint directory, or `latest` of the own one",
    )
    .option("--evaluation-steps <count>", "evaluate every so many versions, and the last; 0 none", count, 0)
    .option("--best-metric <name:mode>", "what is best, as auc:max or loss:min; the first metric unless said")
    .option("--patience <count>", "stop after so many evaluations without a better one; 0 never", count, 0)
    .option("--worker-timeout <seconds>", "a worker that is silent for so long loses its task", countFromOne, 60)
    .addOption(new Option("--end-with-input", "end when standard input ends").hideHelp());
}

/** Gives a command the options of what is trained: optimizer, and names of what is saved. */
export function addModelOptions(command: Command): Command {
  return command
    .option("--opt-type <type>", "SGD, Adam or Adagrad; the definition's unless said")
    .option("--opt-args <settings>", "settings, as learning_rate=0.1;momentum=0.9;nesterov=true;")
    .addOption(
      new Option("--layout <layout>", "names of versions and shards")
        .choices(["design", "elasticdl"])
        .default("design"),
    );
}

/** The options of a training as its parts take them. */
export function jobOptions(flags: TrainingFlags): Omit<JobOptions, "initPath"> {
  return { ...flags, shuffle: flags.shuffle === true, useAsync: flags.useAsync === true };
}

/** Ends a process that was started by another one with it: its standard input ends then. */
export function endWithInput(isAsked: boolean | undefined, terminal: Terminal): void {
  if (isAsked !== true) return;
  process.stdin.on("end", () => terminal.interrupt("the process that started this one has ended"));
  process.stdin.on("error", () => {});
  process.stdin.resume();
  process.stdin.unref?.();
}
