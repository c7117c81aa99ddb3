import { setTimeout as delay } from "node:timers/promises";
import { Command, Option } from "commander";
import { type ErrorCode, StorageError, UsageError } from "../../errors.js";
import type { MasterServer } from "../../training/job/master-server.js";
import { runCommand } from "../run.js";
import type { Terminal } from "../terminal.js";
import {
  addModelOptions,
  addTrainingOptions,
  count,
  endWithInput,
  jobOptions,
  type TrainingFlags,
} from "../training-options.js";

interface MasterOptions extends TrainingFlags {
  readonly port: number;
  readonly host: string;
  readonly psAddrs?: string;
}

/** How long a master stays after the end, so that workers hear of it, in milliseconds. */
const LINGER_MS = 3000;

/** `cairn master MODEL_DEF` */
export function masterCommand(): Command {
  const command = new Command("master")
    .summary("deal out the data of a training")
    .description(
      "Deals out the data of a training to its workers, gives those of dead workers to others, evaluates saved versions and knows when it is over.",
    )
    .argument("<model-def>", "a JavaScript module whose default export is the model definition")
    .option("--port <number>", "port; 0 takes a free one", count, 2300)
    .option("--host <address>", "address to bind to; anybody who reaches it can change the training", "127.0.0.1")
    .option("--ps-addrs <list>", "the parameter servers in their order, as host:port,host:port")
    .addOption(new Option("--job-id <text>", "tells the runs of a training apart").hideHelp());
  return addModelOptions(addTrainingOptions(command))
    .addHelpText(
      "after",
      "\nExample:\n  cairn master model.js --ps-addrs localhost:2222,localhost:2223 --num-workers 2 --num-epochs 3",
    )
    .action((path: string, options: MasterOptions) =>
      runCommand(options, (terminal) => serve(path, options, terminal)),
    );
}

async function serve(path: string, options: MasterOptions, terminal: Terminal): Promise<void> {
  endWithInput(options.endWithInput, terminal);
  const { loadModelDefinition } = await import("../../training/model/model-definition.js");
  const { masterOptions } = await import("../../training/job/job-options.js");
  const { MasterServer } = await import("../../training/job/master-server.js");
  const { findStart } = await import("../../training/job/start-version.js");
  const { localFiles } = await import("../../platform/node/index.js");
  const { checkpointDirForInit: init, psAddrs } = options;
  // Whoever starts the servers has found the version that they begin with; here it is found for servers that are there.
  const start = psAddrs === undefined ? undefined : await findStart(localFiles, options);
  const job = { ...jobOptions(options), initPath: psAddrs === undefined ? init : start?.path };
  const server = await MasterServer.start(await masterOptions(await loadModelDefinition(path), job), options);
  terminal.print(`serving ${options.host}:${server.port}`);
  terminal.json({ address: `${options.host}:${server.port}` });
  try {
    if (psAddrs === undefined) await untilAborted(terminal);
    else {
      const addresses = psAddrs.split(",").map((address) => address.trim());
      if (addresses.includes(""))
        throw new UsageError("usage", "--ps-addrs", { expected: "host:port,host:port", actual: psAddrs });
      const { modelVersion = 0 } = start ?? {};
      await server.master.setServers({
        addresses,
        generation: 1,
        modelVersion,
        isRestored: start !== undefined,
        startPath: start?.path ?? "",
      });
      await untilFinished(server, options, terminal);
    }
  } finally {
    await server.close();
  }
}

async function untilAborted({ signal }: Terminal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

/** Follows a training whose servers others have started. */
async function untilFinished(
  { master }: MasterServer,
  { checkpointDir }: MasterOptions,
  terminal: Terminal,
): Promise<void> {
  const { findVersion } = await import("../../training/job/start-version.js");
  const { localFiles } = await import("../../platform/node/index.js");
  for (;;) {
    await delay(200, undefined, { signal: terminal.signal });
    const { phase, modelVersion, reason, code, needsRollback, notes } = master.status();
    for (const note of notes) terminal.note(note);
    if (needsRollback) {
      throw new StorageError("servers-disagree", "the parameter servers are not of one version, or do not answer", {
        hint: "Start them all anew with --checkpoint-dir-for-init and one version, and then the master.",
      });
    }
    if (phase === "failed") throw new StorageError(code as ErrorCode, reason);
    if (phase === "trained") {
      const saved =
        checkpointDir === undefined ? undefined : await findVersion(localFiles, checkpointDir).catch(() => undefined);
      await master.setTrained(saved?.modelVersion ?? modelVersion);
    }
    if (phase !== "finished") continue;
    terminal.note(`version ${modelVersion}: ${reason}`);
    await delay(LINGER_MS, undefined, { signal: terminal.signal });
    return;
  }
}
