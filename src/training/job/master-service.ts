import { fromBinary } from "@bufbuild/protobuf";
import { ReduceSenderSchema, TrainingMaster } from "../../proto/gen/cairn/training_pb.js";
import { TrainLoopMaster } from "../../proto/gen/elasticdl/elasticdl_pb.js";
import { Master as MasterMessages } from "../../proto/gen/elasticdl/master_pb.js";
import type { TensorProto } from "../../proto/gen/tensorflow/core/framework/tensor_pb.js";
import { decodeGradients } from "../decode-messages.js";
import { encodeGradients } from "../encode-messages.js";
import type { AnswerEncoder, UnaryHandler } from "../grpc-server.js";
import { emptyModel, type TensorMessage } from "../messages.js";
import { pathOf, unaryHandler } from "./grpc-service.js";
import type { Master } from "./master.js";
import { encodeTask } from "./task-messages.js";

/** Failures of a task as text: the code, and the message. */
const FAILURE = /^([a-z-]+): (.*)$/s;

/** The methods of a master as gRPC handlers: ElasticDL's two services, and what cairn's processes need beside them. */
export function masterHandlers(master: Master): ReadonlyMap<string, UnaryHandler> {
  const { get_task: getTask, report_task_result: reportTaskResult } = MasterMessages.method;
  const { report_evaluation_metrics: reportEvaluationMetrics, report_version: reportVersion } = TrainLoopMaster.method;
  return new Map<string, UnaryHandler>([
    unaryHandler(getTask, async ({ workerId }) => encodeTask(await master.getTask(workerId))),
    unaryHandler(reportTaskResult, async ({ taskId, errMessage, execCounters }) => {
      const [, code = "training-failed", message = errMessage] = FAILURE.exec(errMessage) ?? [];
      const failure = errMessage === "" ? undefined : { code, message };
      await master.reportTaskResult({ taskId, modelVersion: execCounters.model_version ?? 0, failure });
      return {};
    }),
    unaryHandler(reportEvaluationMetrics, async ({ workerId, modelOutputs, labels }) => {
      const outputs = new Map(
        Object.entries(modelOutputs).map(([name, tensor]) => {
          const { content, shape } = tensorMessage(tensor);
          return [name, { values: new Float32Array(content.slice().buffer), shape }] as const;
        }),
      );
      await master.reportEvaluation({ workerId, outputs, labels: tensorMessage(labels) });
      return {};
    }),
    unaryHandler(MasterMessages.method.get_comm_rank, async ({ workerHost }) => {
      const { rank, worldSize, rendezvousId } = await master.getCommRank(Number(workerHost));
      return { rankId: rank, worldSize, rendezvousId };
    }),
    unaryHandler(reportVersion, ({ modelVersion }) => {
      master.reportVersion(modelVersion);
      return {};
    }),
    ...trainingHandlers(master),
  ]);
}

function trainingHandlers(master: Master): [string, UnaryHandler][] {
  const { method } = TrainingMaster;
  return [
    unaryHandler(method.join, async ({ workerId }) => {
      const { optimizer, saving, ...job } = await master.join(workerId);
      return { ...job, ...saving, optimizerType: optimizer.type, optimizerArgs: optimizer.args };
    }),
    unaryHandler(method.remove_worker, ({ workerId }) => {
      master.removeWorker(workerId);
      return {};
    }),
    [pathOf(method.reduce_gradients), (request) => reduceGradients(master, request)],
    unaryHandler(method.report_progress, async (progress) => {
      await master.reportProgress(progress);
      return {};
    }),
    unaryHandler(method.set_servers, async (servers) => {
      await master.setServers(servers);
      return {};
    }),
    unaryHandler(method.set_trained, async ({ modelVersion }) => {
      await master.setTrained(modelVersion);
      return {};
    }),
    unaryHandler(method.get_status, () => {
      const { evaluated, ...status } = master.status();
      return {
        ...status,
        notes: [...status.notes],
        silentWorkers: [...status.silentWorkers],
        evaluatedVersion: evaluated?.modelVersion ?? 0,
        metrics: { ...evaluated?.metrics },
      };
    }),
  ];
}

/** Its messages carry gradients, and are read and written as those of parameter servers are. */
async function reduceGradients(master: Master, request: Uint8Array): Promise<AnswerEncoder> {
  // The request stands in a buffer that is used again.
  const bytes = request.slice();
  const { gradients, learningRate: records } = decodeGradients(bytes);
  const { workerId, rendezvousId } = fromBinary(ReduceSenderSchema, bytes, { readUnknownFields: false });
  const reduced = await master.reduce({ workerId, rendezvousId, gradients, records });
  const answer = { gradients: reduced?.gradients ?? emptyModel(), learningRate: reduced?.records ?? -1 };
  return (allocate) => encodeGradients(answer, allocate);
}

/** A tensor of which only the fields that ElasticDL uses count. */
export function tensorMessage(tensor: TensorProto | undefined): TensorMessage {
  const shape = (tensor?.tensorShape?.dim ?? []).map(({ size }) => Number(size));
  return { dtype: tensor?.dtype ?? 0, shape, content: tensor?.tensorContent ?? new Uint8Array(0) };
}
