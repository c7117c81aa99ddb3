import { setTimeout as delay } from "node:timers/promises";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type JobStatus, TrainingMaster } from "../../proto/gen/cairn/training_pb.js";
import { TrainLoopMaster } from "../../proto/gen/elasticdl/elasticdl_pb.js";
import { Master as MasterMessages } from "../../proto/gen/elasticdl/master_pb.js";
import { GrpcChannel } from "../grpc-channel.js";
import { GRPC, RpcError } from "../grpc-status.js";
import { callUnary } from "./grpc-service.js";
import type { Servers } from "./master.js";
import type {
  EvaluationOutputs,
  Job,
  MasterLink,
  Strategy,
  TaskResult,
  WorkerProgress,
  WorkerTask,
} from "./master-link.js";
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
    const { strategy, seed, minibatchSize, shuffle, isExact, maxStep } = await this.call(TrainingMaster.method.join, {
      workerId,
    });
    return { strategy: strategy as Strategy, seed, minibatchSize, shuffle, isExact, maxStep };
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

  private async call<Request extends DescMessage, Answer extends DescMessage>(
    method: DescMethodUnary<Request, Answer>,
    request: MessageInitShape<Request>,
  ): Promise<MessageShape<Answer>> {
    const { patienceMs = 60_000, signal } = this.options;
    const startMs = performance.now();
    for (let pauseMs = FIRST_DELAY_MS; ; pauseMs = Math.min(MAX_DELAY_MS, 2 * pauseMs)) {
      try {
        return await callUnary(this.channel, method, request, { timeoutMs: CALL_TIMEOUT_MS, signal });
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
