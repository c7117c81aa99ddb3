// A plain grpc-js server that takes a message and gives one of the size that is asked for, and a client for it: what a
// general library does with messages that nobody looks into.
import { fileURLToPath } from "node:url";
import { credentials, makeGenericClientConstructor, Server, ServerCredentials } from "@grpc/grpc-js";

const LIMITS = { "grpc.max_receive_message_length": 2 ** 28, "grpc.max_send_message_length": 2 ** 28 };
const same = (bytes) => bytes;
const METHOD = { path: "/echo/call", requestStream: false, responseStream: false };
const SERVICE = {
  call: {
    ...METHOD,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  },
};

/** Serves, and tells the parent process its port. */
function serve() {
  const server = new Server(LIMITS);
  const answers = new Map();
  server.addService(SERVICE, {
    call(call, callback) {
      const length = call.request.readUInt32LE(0);
      if (!answers.has(length)) answers.set(length, Buffer.alloc(length));
      callback(null, answers.get(length));
    },
  });
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    process.send({ port });
  });
}

/** A client that sends messages of one size to all servers at once and gets messages of another. */
export function makeEchoClient(addresses) {
  const Client = makeGenericClientConstructor(SERVICE, "echo");
  const clients = addresses.map((address) => new Client(address, credentials.createInsecure(), LIMITS));
  const requests = new Map();
  const call = (requestBytes, answerBytes) => {
    const key = `${requestBytes}/${answerBytes}`;
    if (!requests.has(key)) {
      const request = Buffer.alloc(Math.max(4, requestBytes));
      request.writeUInt32LE(answerBytes);
      requests.set(key, request);
    }
    const one = (client) =>
      new Promise((resolve, reject) => {
        client.call(requests.get(key), (error, answer) => (error ? reject(error) : resolve(answer)));
      });
    return Promise.all(clients.map(one));
  };
  call.close = () => {
    for (const client of clients) client.close();
  };
  return call;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) serve();
