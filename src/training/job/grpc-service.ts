import type { DescMethodUnary } from "@bufbuild/protobuf";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { CallOptions, GrpcChannel } from "../grpc-channel.js";
import type { AnswerEncoder, UnaryHandler } from "../grpc-server.js";

/** The path of a method. */
export function pathOf(method: DescMethodUnary): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** A gRPC handler made of one that takes and gives messages. */
export function unaryHandler<Request extends DescMessage, Answer extends DescMessage>(
  method: DescMethodUnary<Request, Answer>,
  handle: (request: MessageShape<Request>) => Promise<MessageInitShape<Answer>> | MessageInitShape<Answer>,
): [path: string, handler: UnaryHandler] {
  return [
    pathOf(method),
    async (request) => {
      // Bytes fields must not be views of a buffer that is used again.
      const answer = await handle(fromBinary(method.input, request.slice()));
      return filled(toBinary(method.output, create(method.output, answer)));
    },
  ];
}

/** Calls a method with messages. @throws RpcError (`rpc-failed`) */
export function callUnary<Request extends DescMessage, Answer extends DescMessage>(
  channel: GrpcChannel,
  method: DescMethodUnary<Request, Answer>,
  request: MessageInitShape<Request>,
  options: CallOptions = {},
): Promise<MessageShape<Answer>> {
  const bytes = toBinary(method.input, create(method.input, request));
  return channel.call(pathOf(method), filled(bytes), (answer) => fromBinary(method.output, answer.slice()), options);
}

/** A message that is there already. */
function filled(message: Uint8Array): AnswerEncoder {
  return (allocate) => {
    const bytes = allocate(message.length);
    bytes.set(message);
    return bytes;
  };
}
