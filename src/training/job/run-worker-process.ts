import { loadModelDefinition } from "../model/model-definition.js";
import { storeOptions } from "./local-store.js";
import { MasterClient } from "./master-client.js";
import { ReducingStore } from "./reducing-store.js";
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
      openStore: async (servers, job) => {
        if (job.strategy === "parameter-server") return new RemoteStore(servers.addresses, signal);
        const store = storeOptions(servers, job, onNote);
        return ReducingStore.open({ master, workerId, signal, store });
      },
    });
  } finally {
    await master.close();
  }
}
