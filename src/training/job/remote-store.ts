import type { TableInfoMessage } from "../messages.js";
import { emptyModel } from "../messages.js";
import type { BatchGradients } from "../model/trainable-model.js";
import { PserverClient } from "../pserver-client.js";
import type { FirstModel, ParameterStore, PulledDense, PushResult } from "./parameter-store.js";

/** A server that says nothing for so long is gone, in milliseconds. */
const CALL_TIMEOUT_MS = 30_000;

/** Parameters on parameter servers. */
export class RemoteStore implements ParameterStore {
  private readonly client: PserverClient;

  /** The servers at these addresses, in the order of their numbers. */
  constructor(addresses: readonly string[], signal?: AbortSignal) {
    this.client = new PserverClient(addresses, { timeoutMs: CALL_TIMEOUT_MS, signal });
  }

  /** See {@link ParameterStore.prepare}. */
  async prepare(tableInfos: TableInfoMessage[]): Promise<void> {
    if (tableInfos.length > 0) await this.client.pushEmbeddingTableInfos(tableInfos);
  }

  /** See {@link ParameterStore.pushModel}. */
  pushModel({ dense, tableInfos }: FirstModel): Promise<void> {
    return this.client.pushModel({ ...emptyModel(), denseParameters: dense, tableInfos });
  }

  /** See {@link ParameterStore.pullDense}. */
  pullDense(modelVersions: readonly number[] = []): Promise<PulledDense> {
    return this.client.pullDenseParameters(modelVersions);
  }

  /** See {@link ParameterStore.pullRows}. */
  async pullRows(table: string, ids: BigInt64Array): Promise<Float32Array> {
    return (await this.client.pullEmbeddingVectors(table, ids)).values;
  }

  /** See {@link ParameterStore.push}. Where some servers accept and others don't, it is accepted: it must not be pushed again. */
  async push(gradients: BatchGradients, modelVersions: readonly number[], learningRate: number): Promise<PushResult> {
    const { dense, rows } = gradients;
    const answers = await this.client.pushGradients({ dense, rows, modelVersions, learningRate });
    return {
      accepted: answers.some(({ accepted }) => accepted),
      modelVersions: answers.map(({ modelVersion }) => modelVersion),
    };
  }

  /** See {@link ParameterStore.close}. */
  async close(): Promise<void> {
    this.client.abort();
  }
}
