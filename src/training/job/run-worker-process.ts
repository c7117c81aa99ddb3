import { loadModelDefinition } from "../model/model-definition.js";
import { MasterClient } from "./master-client.js";
import { RemoteStore } from "./remote-store.js";
import { runWorker } from "./worker.js";

/** Options of {@link runWorkerProcess}. */
export interface WorkerProcessOptions {
  readonly definitionPath: string;
  readonly masterAddress: string;
  readonly workerId: number;
  readonly signal: AbortSignal;
  readonly onNote: (text: string) => void;
}

/** The work of a worker's process: it trains for the master at an address until there is nothing more. */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<void> {
  const { definitionPath, masterAddress, workerId, signal, onNote } = options;
  const definition = await loadModelDefinition(definitionPath);
  const master = new MasterClient(masterAddress, { signal });
  try {
    await runWorker({
      master,
      definition,
      workerId,
      signal,
      onNote,
      openStore: async ({ addresses }) => new RemoteStore(addresses, signal),
    });
  } finally {
    await master.close();
  }
}
