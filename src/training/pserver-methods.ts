import { decodeDenseRequest, decodeGradients, decodeModel, decodeVectorsRequest } from "./decode-messages.js";
import { encodeDenseParameters, encodeGradientsAnswer, encodeTensor } from "./encode-messages.js";
import type { AnswerEncoder, UnaryHandler } from "./grpc-server.js";
import type { Pserver } from "./pserver-service.js";

/** The paths of `proto.Pserver`. Source: elasticdl/proto/elasticdl.proto. */
export const PSERVER_PATHS = {
  pushModel: "/proto.Pserver/push_model",
  pushEmbeddingTableInfos: "/proto.Pserver/push_embedding_table_infos",
  pullDenseParameters: "/proto.Pserver/pull_dense_parameters",
  pullEmbeddingVectors: "/proto.Pserver/pull_embedding_vectors",
  pushGradients: "/proto.Pserver/push_gradients",
} as const;

/** `google.protobuf.Empty` */
const encodeEmpty: AnswerEncoder = (allocate) => allocate(0);

/** The methods of a parameter server as gRPC handlers. */
export function pserverHandlers(service: Pserver): ReadonlyMap<string, UnaryHandler> {
  return new Map<string, UnaryHandler>([
    [
      PSERVER_PATHS.pushModel,
      (request) => {
        service.pushModel(decodeModel(request));
        return encodeEmpty;
      },
    ],
    [
      PSERVER_PATHS.pushEmbeddingTableInfos,
      (request) => {
        service.pushEmbeddingTableInfos(decodeModel(request));
        return encodeEmpty;
      },
    ],
    [
      PSERVER_PATHS.pullDenseParameters,
      (request) => {
        const answer = service.pullDenseParameters(decodeDenseRequest(request));
        return (allocate) => encodeDenseParameters(answer, allocate);
      },
    ],
    [
      PSERVER_PATHS.pullEmbeddingVectors,
      (request) => {
        const answer = service.pullEmbeddingVectors(decodeVectorsRequest(request));
        return (allocate) => encodeTensor(answer, allocate);
      },
    ],
    [
      PSERVER_PATHS.pushGradients,
      (request) => {
        const answer = service.pushGradients(decodeGradients(request));
        return (allocate) => encodeGradientsAnswer(answer, allocate);
      },
    ],
  ]);
}
