import type { Layout } from "../../formats/elasticdl/names.js";
import type { JobStatus } from "../../proto/gen/cairn/training_pb.js";
import type { JobOptions } from "./job-options.js";
import type { StartVersion } from "./start-version.js";

/** Options of a training with processes. */
export interface SuperviseOptions extends Omit<JobOptions, "initPath"> {
  /** The module with the model definition. */
  readonly definitionPath: string;
  /** How cairn's command line is started: program and first arguments. */
  readonly command: readonly string[];
  readonly numPs: number;
  readonly optimizer: { readonly type: string; readonly args: string };
  /** A version directory, a checkpoint directory, or `latest`. */
  readonly checkpointDirForInit?: string | undefined;
  readonly syncVersionTolerance: number;
  readonly lrStalenessModulation: boolean;
  readonly layout: Layout;
  /** The folder that gets a log of each process. */
  readonly logDir: string;
  readonly signal: AbortSignal;
  /** Told what happens: what was restarted, saved, passed over. */
  readonly onNote: (text: string) => void;
  readonly onStatus: (status: JobStatus) => void;
  /** Told of the processes that are there, by their names. */
  readonly onProcess?: ((name: string, pid: number) => void) | undefined;
}

/** How a training ended. */
export interface TrainingResult {
  readonly modelVersion: number;
  /** Why it ended. */
  readonly reason: string;
  /** Of the last evaluation. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly restarts: { readonly servers: number; readonly workers: number; readonly master: number };
}

/** The command line of a server, behind that of cairn itself. */
export function serverArguments(options: SuperviseOptions, psId: number, start: StartVersion | undefined): string[] {
  const args = ["ps", "--port", "0", "--ps-id", String(psId), "--num-ps", String(options.numPs)];
  args.push("--opt-type", options.optimizer.type, "--opt-args", options.optimizer.args);
  args.push("--seed", String(options.seed), "--end-with-input");
  if (options.useAsync) args.push("--use-async");
  else
    args.push(
      "--grads-to-wait",
      String(options.gradsToWait),
      "--sync-version-tolerance",
      String(options.syncVersionTolerance),
    );
  if (options.lrStalenessModulation) args.push("--lr-staleness-modulation");
  if (options.checkpointDir !== undefined) {
    args.push("--checkpoint-dir", options.checkpointDir, "--checkpoint-steps", String(options.checkpointSteps));
    args.push("--keep-checkpoint-max", String(options.keepCheckpointMax), "--layout", options.layout, "--save-on-exit");
  }
  if (start !== undefined) args.push("--checkpoint-dir-for-init", start.path);
  return args;
}
