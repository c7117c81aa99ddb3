import { setTimeout as delay } from "node:timers/promises";
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { Layout } from "../../formats/elasticdl/names.js";
import { type JobStatus, ReduceSenderSchema, TrainingMaster } from "../../proto/gen/cairn/training_pb.js";
import { TrainLoopMaster } from "../../proto/gen/elasticdl/elasticdl_pb.js";
import { Master as MasterMessages } from "../../proto/gen/elasticdl/master_pb.js";
import { decodeGradients } from "../decode-messages.js";
import { encodeGradients } from "../encode-messages.js";
import { type CallOptions, GrpcChannel } from "../grpc-channel.js";
import type { AnswerEncoder } from "../grpc-server.js";
import { GRPC, RpcError } from "../grpc-status.js";
import { callUnary, pathOf } from "./grpc-service.js";
import type {
  EvaluationOutputs,
  Job,
  MasterLink,
  Strategy,
  TaskResult,
  WorkerProgress,
  WorkerTask,
} from "./master-link.js";
import type { Servers } from "./master-options.js";
import type { CommRank, ReduceCall, Reduced } from "./reducer.js";
import { decodeTask } from "./task-messages.js";

/** TensorFlow's number of float32. Source: tensorflow/core/framework/types.proto. */
const DT_FLOAT = 1;
/** A call that is answered at once takes no longer, in milliseconds. */
const CALL_TIMEOUT_MS = 30_000;
/** Waits between attempts, in milliseconds. */
const FIRST_DELAY_MS = 50;
const MAX_DELAY_MS = 1000;

/** Options of {@link MasterClient}. */
export interface MasterClientOptions {
  /** How long a master may be away, which may be since it is being restarted, in milliseconds. */
  readonly patienceMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A master in another process. Calls wait for a master that is away, as long as `patienceMs` says. */
export class MasterClient implements MasterLink {
  private readonly channel: GrpcChannel;
  private readonly options: MasterClientOptions;

  /** The master at `host:port`. */
  constructor(address: string, options: MasterClientOptions = {}) {
    this.channel = new GrpcChannel(address);
    this.options = options;
  }

  /** See {@link MasterLink.join}. */
  async join(workerId: number): Promise<Job> {
    const described = await this.call(TrainingMaster.method.join, { workerId });
    const { strategy, seed, minibatchSize, shuffle, isExact, maxStep, checkpointDir, layout } = described;
    const { checkpointSteps, keepCheckpointMax, optimizerType: type, optimizerArgs: args } = described;
    const saving = { checkpointDir, checkpointSteps, keepCheckpointMax, layout: layout as Layout };
    return {
      strategy: strategy as Strategy,
      seed,
      minibatchSize,
      shuffle,
      isExact,
      maxStep,
      optimizer: { type, args },
      saving: checkpointDir === "" ? undefined : saving,
    };
  }

  /** See {@link MasterLink.getTask}. */
  async getTask(workerId: number): Promise<WorkerTask> {
    return decodeTask(await this.call(MasterMessages.method.get_task, { workerId }));
  }

  /** See {@link MasterLink.reportTaskResult}. */
  async reportTaskResult({ taskId, modelVersion, failure }: TaskResult): Promise<void> {
    const errMessage = failure === undefined ? "" : `${failure.code}: ${failure.message}`;
    await this.call(MasterMessages.method.report_task_result, {
      taskId,
      errMessage,
      execCounters: { model_version: modelVersion },
    });
  }

  /** See {@link MasterLink.reportEvaluation}. */
  async reportEvaluation({ workerId, outputs, labels }: EvaluationOutputs): Promise<void> {
    const modelOutputs = Object.fromEntries(
      Array.from(outputs, ([name, { values, shape }]) => {
        const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        return [name, tensorProto({ dtype: DT_FLOAT, shape, content: bytes })];
      }),
    );
    await this.call(TrainLoopMaster.method.report_evaluation_metrics, {
      workerId,
      modelOutputs,
      labels: tensorProto(labels),
    });
  }

  /** See {@link MasterLink.reportProgress}. */
  async reportProgress(progress: WorkerProgress): Promise<void> {
    await callUnary(
      this.channel,
      TrainingMaster.method.report_progress,
      { ...progress },
      { timeoutMs: CALL_TIMEOUT_MS },
    );
  }

  /** See {@link MasterLink.getCommRank}. */
  async getCommRank(workerId: number): Promise<CommRank> {
    const request = { workerHost: String(workerId) };
    const { rankId: rank, worldSize, rendezvousId } = await this.call(MasterMessages.method.get_comm_rank, request);
    return { rank, worldSize, rendezvousId };
  }

  /** See {@link MasterLink.reduce}. */
  reduce({ workerId, rendezvousId, gradients, records }: ReduceCall): Promise<Reduced> {
    const sender = toBinary(ReduceSenderSchema, create(ReduceSenderSchema, { workerId, rendezvousId }));
    const message = encodeGradients({ gradients, learningRate: records });
    const encode: AnswerEncoder = (allocate) => {
      // Messages one behind another are one message with the fields of both.
      const bytes = allocate(message.length + sender.length);
      bytes.set(message);
      bytes.set(sender, message.length);
      return bytes;
    };
    const decode = (answer: Uint8Array) => {
      const { gradients: mean, learningRate } = decodeGradients(answer.slice());
      return learningRate < 0 ? undefined : { gradients: mean, records: learningRate };
    };
    const path = pathOf(TrainingMaster.method.reduce_gradients);
    return this.patiently((options) => this.channel.call(path, encode, decode, options));
  }

  /** A worker is lost. */
  async removeWorker(workerId: number): Promise<void> {
    await this.call(TrainingMaster.method.remove_worker, { workerId });
  }

  /** Says which parameter servers there are. */
  async setServers({ addresses, ...servers }: Servers): Promise<void> {
    await this.call(TrainingMaster.method.set_servers, { ...servers, addresses: [...addresses] });
  }

  /** The last version is saved. */
  async setTrained(modelVersion: number): Promise<void> {
    await this.call(TrainingMaster.method.set_trained, { modelVersion });
  }

  /** How the training is. */
  getStatus(): Promise<JobStatus> {
    return this.call(TrainingMaster.method.get_status, {});
  }

  /** Ends the connection. */
  close(): Promise<void> {
    return this.channel.close();
  }

  private call<Request extends DescMessage, Answer extends DescMessage>(
    method: DescMethodUnary<Request, Answer>,
    request: MessageInitShape<Request>,
  ): Promise<MessageShape<Answer>> {
    return this.patiently((options) => callUnary(this.channel, method, request, options));
  }

  private async patiently<Answer>(call: (options: CallOptions) => Promise<Answer>): Promise<Answer> {
    const { patienceMs = 60_000, signal } = this.options;
    const startMs = performance.now();
    for (let pauseMs = FIRST_DELAY_MS; ; pauseMs = Math.min(MAX_DELAY_MS, 2 * pauseMs)) {
      try {
        return await call({ timeoutMs: CALL_TIMEOUT_MS, signal });
      } catch (error) {
        signal?.throwIfAborted();
        const isAway =
          error instanceof RpcError &&
          [GRPC.unavailable, GRPC.deadlineExceeded].some((status) => status === error.status);
        if (!isAway || performance.now() - startMs > patienceMs) throw error;
      }
      await delay(pauseMs, undefined, { signal });
    }
  }
}

function tensorProto({ dtype, shape, content }: { dtype: number; shape: readonly number[]; content: Uint8Array }) {
  return { dtype, tensorShape: { dim: shape.map((size) => ({ size: BigInt(size) })) }, tensorContent: content };
}
