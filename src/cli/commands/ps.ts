import { Command, Option } from "commander";
import { UsageError } from "../../errors.js";
import type { Layout } from "../../formats/elasticdl/names.js";
import type { ParameterServerOptions } from "../../training/parameter-server.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";
import { count, endWithInput } from "../training-options.js";

interface PsOptions extends CommonOptions {
  readonly host: string;
  readonly port: number;
  readonly psId: number;
  readonly numPs: number;
  readonly optType: string;
  readonly optArgs: string;
  readonly useAsync?: boolean;
  readonly gradsToWait: number;
  readonly lrStalenessModulation?: boolean;
  readonly syncVersionTolerance: number;
  readonly seed?: number;
  readonly checkpointDir?: string;
  readonly checkpointSteps: number;
  readonly keepCheckpointMax: number;
  readonly checkpointDirForInit?: string;
  readonly layout: Layout;
  readonly saveOnExit?: boolean;
  readonly endWithInput?: boolean;
}

/** `cairn ps` */
export function psCommand(): Command {
  return new Command("ps")
    .summary("serve a share of a model to training workers")
    .description(
      "Serves one parameter server of a training job over gRPC, as ElasticDL's workers expect it, and saves its shard while they train.\nIt runs until it is told to stop: Ctrl-C or SIGTERM.",
    )
    .option("--port <number>", "port; 0 takes a free one", count, 2222)
    .option("--host <address>", "address to bind to; anybody who reaches it can change the model", "127.0.0.1")
    .option("--ps-id <number>", "which of the job's servers this is", count, 0)
    .option("--num-ps <number>", "how many servers the job has", count, 1)
    .option("--opt-type <type>", "SGD, Adam or Adagrad", "SGD")
    .option("--opt-args <settings>", "settings, as learning_rate=0.1;momentum=0.9;nesterov=true;", "")
    .option("--use-async", "apply each push at once")
    .option("--grads-to-wait <count>", "pushes that are applied together, without --use-async", count, 1)
    .option("--sync-version-tolerance <count>", "versions that a push may be behind, without --use-async", count, 0)
    .option("--lr-staleness-modulation", "divide a push's learning rate by how far it is behind, with --use-async")
    .option("--seed <number>", "what random rows depend on; that of the checkpoint, else 0", count)
    .option("--checkpoint-dir <dir>", "where versions are saved")
    .option("--checkpoint-steps <count>", "save every so many versions; 0 never", count, 0)
    .option("--keep-checkpoint-max <count>", "versions that are kept; 0 keeps all", count, 0)
    .option(
      "--checkpoint-dir-for-init <dir>",
      "go on from a version, a checkpoint directory, or `latest` of the own one",
    )
    .addOption(
      new Option("--layout <layout>", "names of versions and shards")
        .choices(["design", "elasticdl"])
        .default("design"),
    )
    .option("--save-on-exit", "save the last state when it is told to stop")
    .addOption(new Option("--end-with-input", "end when standard input ends").hideHelp())
    .addHelpText(
      "after",
      "\nExamples:\n  cairn ps --opt-args 'learning_rate=0.1' --use-async\n  cairn ps --ps-id 1 --num-ps 2 --port 2223 --checkpoint-dir ckpt --checkpoint-steps 100 --keep-checkpoint-max 3 --checkpoint-dir-for-init latest",
    )
    .action((options: PsOptions) => runCommand(options, (terminal) => serve(options, terminal)));
}

async function serve(options: PsOptions, terminal: Terminal): Promise<void> {
  endWithInput(options.endWithInput, terminal);
  const { ParameterServer } = await import("../../training/parameter-server.js");
  const server = await ParameterServer.start(serverOptions(options, terminal));
  for (const note of server.notes) terminal.note(note);
  const address = `${options.host.includes(":") ? `[${options.host}]` : options.host}:${server.port}`;
  const { isInitialized, modelVersion } = server.parameters;
  terminal.print(`serving ${address}${isInitialized ? `, from version ${modelVersion}` : ""}`);
  terminal.json({ address, psId: options.psId, psNum: options.numPs, restored: isInitialized, modelVersion });
  await new Promise<void>((resolve) => {
    if (terminal.signal.aborted) resolve();
    terminal.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  terminal.note(`stopping at version ${server.parameters.modelVersion}`);
  await server.close({ saveLast: options.saveOnExit });
}

function serverOptions(options: PsOptions, terminal: Terminal): ParameterServerOptions {
  const { numPs, optType, optArgs, checkpointDir, checkpointSteps, keepCheckpointMax, layout, ...same } = options;
  if (checkpointDir === undefined && (checkpointSteps > 0 || options.saveOnExit)) {
    throw new UsageError("usage", "checkpoints are to be saved, and --checkpoint-dir does not say where");
  }
  const checkpoint = checkpointDir && {
    directory: checkpointDir,
    checkpointSteps,
    keepCheckpointMax,
    layout,
    onSaved: ({ path, removed }: { path: string; removed: readonly string[] }) => {
      terminal.note(`saved ${path}${removed.length === 0 ? "" : `, removed ${removed.join(", ")}`}`);
    },
    onProblem: (_modelVersion: number, { message }: Error) => terminal.warn(message),
  };
  return { ...same, psNum: numPs, optimizerType: optType, optimizerArgs: optArgs, checkpoint: checkpoint || undefined };
}
