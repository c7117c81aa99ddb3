import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { credentials, makeGenericClientConstructor, type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import {
  ModelSchema,
  PullDenseParametersRequestSchema,
  PullDenseParametersResponseSchema,
  PullEmbeddingVectorsRequestSchema,
  PushGradientsRequestSchema,
  PushGradientsResponseSchema,
} from "../../src/proto/gen/elasticdl/elasticdl_pb.js";
import { TensorProtoSchema } from "../../src/proto/gen/tensorflow/core/framework/tensor_pb.js";
import { GrpcChannel } from "../../src/training/grpc-channel.js";
import { GrpcServer, type UnaryHandler } from "../../src/training/grpc-server.js";
import { toIds } from "../../src/training/ids.js";
import { parseOptimizer } from "../../src/training/optimizers.js";
import { Parameters } from "../../src/training/parameters.js";
import { PserverClient } from "../../src/training/pserver-client.js";
import { pserverHandlers } from "../../src/training/pserver-methods.js";
import { PserverService } from "../../src/training/pserver-service.js";
import { floats, gradients, model, numbers, wave } from "../support/training.js";

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listen(handlers: ReadonlyMap<string, UnaryHandler>): Promise<string> {
  const server = new GrpcServer(handlers);
  const port = await server.listen({ port: 0 });
  closers.push(() => server.close());
  return `127.0.0.1:${port}`;
}

async function serve(): Promise<{ address: string; parameters: Parameters }> {
  const parameters = new Parameters({ optimizer: parseOptimizer("SGD", "learning_rate=0.5") });
  const service = new PserverService(parameters, { useAsync: true });
  return { address: await listen(pserverHandlers(service)), parameters };
}

type Method =
  | "push_model"
  | "push_embedding_table_infos"
  | "pull_dense_parameters"
  | "pull_embedding_vectors"
  | "push_gradients";

/** A client made of grpc-js and protobuf-es: another stack than the server's, both in framing and in messages. */
function otherClient(address: string) {
  const Client = makeGenericClientConstructor({}, "proto.Pserver");
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": 2 ** 28,
    "grpc.max_send_message_length": 2 ** 28,
  });
  closers.push(() => client.close());
  return {
    raw: (path: string, bytes: Uint8Array): Promise<Buffer> =>
      new Promise((resolve, reject) => {
        const same = (value: Buffer) => value;
        client.makeUnaryRequest(path, same, same, Buffer.from(bytes), (error: ServiceError | null, answer?: Buffer) =>
          error === null ? resolve(answer as Buffer) : reject(error),
        );
      }),
    // biome-ignore lint/suspicious/noExplicitAny: schemas of any message
    async call<Q extends GenMessage<any>, A extends GenMessage<any>>(
      method: Method,
      request: Q,
      answer: A,
      value: MessageInitShape<Q>,
    ) {
      const bytes = toBinary(request, create(request, value));
      return fromBinary(answer, await this.raw(`/proto.Pserver/${method}`, bytes));
    },
  };
}

const shape = (...sizes: number[]) => ({ dim: sizes.map((size) => ({ size: BigInt(size) })) });
const tensorOf = (values: Float32Array, ...sizes: number[]) => ({
  dtype: 1,
  tensorShape: shape(...sizes),
  tensorContent: new Uint8Array(values.buffer),
});

describe("a client of another stack", () => {
  it("trains a model through all five methods", async () => {
    const { address } = await serve();
    const client = otherClient(address);
    const infos = [{ name: "e", dim: 3n, initializer: "ones", dtype: 1 }];
    await client.call("push_embedding_table_infos", ModelSchema, ModelSchema, { embeddingTableInfos: infos });
    const before = await client.call(
      "pull_dense_parameters",
      PullDenseParametersRequestSchema,
      PullDenseParametersResponseSchema,
      {
        version: -1,
      },
    );
    expect(before).toMatchObject({ initialized: false, version: 0, denseParameters: {} });
    const w = wave(6, 1);
    await client.call("push_model", ModelSchema, ModelSchema, {
      version: 4,
      denseParameters: { "w:0": tensorOf(w, 2, 3) },
    });
    const pull = { version: -1 };
    const dense = await client.call(
      "pull_dense_parameters",
      PullDenseParametersRequestSchema,
      PullDenseParametersResponseSchema,
      pull,
    );
    expect(dense).toMatchObject({ initialized: true, version: 4 });
    expect(dense.denseParameters["w:0"]?.tensorShape?.dim.map(({ size }) => size)).toEqual([2n, 3n]);
    expect(numbers(dense.denseParameters["w:0"]?.tensorContent as Uint8Array)).toEqual(Array.from(w));
    const pushed = await client.call("push_gradients", PushGradientsRequestSchema, PushGradientsResponseSchema, {
      learningRate: 1,
      gradients: {
        version: 4,
        denseParameters: { "w:0": tensorOf(new Float32Array(6).fill(1), 2, 3) },
        embeddingTables: {
          e: { concatTensors: tensorOf(Float32Array.of(1, 2, 3, 4, 5, 6), 2, 3), ids: [-5n, 2n ** 62n] },
        },
      },
    });
    expect(pushed).toMatchObject({ accepted: true, version: 5 });
    const rows = await client.call("pull_embedding_vectors", PullEmbeddingVectorsRequestSchema, TensorProtoSchema, {
      name: "e",
      ids: [2n ** 62n, -5n, 7n, -5n],
    });
    expect(rows.tensorShape?.dim.map(({ size }) => size)).toEqual([4n, 3n]);
    expect(numbers(rows.tensorContent)).toEqual([-3, -4, -5, 0, -1, -2, 1, 1, 1, 0, -1, -2]);
    const after = await client.call(
      "pull_dense_parameters",
      PullDenseParametersRequestSchema,
      PullDenseParametersResponseSchema,
      {
        version: 5,
      },
    );
    expect(after).toMatchObject({ version: 5, denseParameters: {} });
  });

  it("gets messages of many megabytes through, several at a time", async () => {
    const { address } = await serve();
    const client = otherClient(address);
    const values = wave(1_000_000, 3);
    await client.call("push_model", ModelSchema, ModelSchema, {
      denseParameters: { big: tensorOf(values, 1_000_000) },
    });
    const pulls = Array.from({ length: 3 }, () =>
      client.call("pull_dense_parameters", PullDenseParametersRequestSchema, PullDenseParametersResponseSchema, {
        version: -1,
      }),
    );
    for (const { denseParameters } of await Promise.all(pulls)) {
      expect(Buffer.compare(denseParameters.big?.tensorContent as Uint8Array, Buffer.from(values.buffer))).toBe(0);
    }
  });

  it("may send a message in two parts, which are merged, with fields that nobody knows", async () => {
    const { address, parameters } = await serve();
    const client = otherClient(address);
    await client.call("push_model", ModelSchema, ModelSchema, {
      denseParameters: { w: tensorOf(Float32Array.of(0, 0), 2) },
    });
    const part = (name: string, value: number) =>
      toBinary(
        PushGradientsRequestSchema,
        create(PushGradientsRequestSchema, {
          learningRate: 1,
          gradients: { denseParameters: { [name]: tensorOf(Float32Array.of(value, value), 2) } },
        }),
      );
    const unknown = Uint8Array.of(0x98, 0x06, 0x01, 0xa3, 0x06, 0x08, 0x01, 0xa4, 0x06);
    await client.raw("/proto.Pserver/push_gradients", Buffer.concat([part("w", 1), unknown, part("w", 3)]));
    // An entry of a map replaces the one before.
    expect(numbers(parameters.dense.get("w")?.bytes as Uint8Array)).toEqual([-3, -3]);
  });

  it("is told what is wrong, and nothing has changed then", async () => {
    const { address, parameters } = await serve();
    const client = otherClient(address);
    const service = new PserverService(parameters);
    service.pushModel(model({ dense: { w: [2] }, tables: { e: 2 } }));
    const before = numbers(parameters.dense.get("w")?.bytes as Uint8Array);
    const push = (denseParameters: Record<string, unknown>, embeddingTables: Record<string, unknown> = {}) =>
      client.call("push_gradients", PushGradientsRequestSchema, PushGradientsResponseSchema, {
        learningRate: 1,
        gradients: { denseParameters, embeddingTables } as never,
      });
    const w = tensorOf(Float32Array.of(1, 1), 2);
    const wrong: [Promise<unknown>, RegExp][] = [
      [push({ w, nope: w }), /Gradient nope is not in Parameters/],
      [
        push({ w: tensorOf(Float32Array.of(1, 1, 1), 3) }),
        /shape of gradient w is \(3,\), the shape of parameter w is \(2,\)/,
      ],
      [push({ w: { ...w, tensorContent: new Uint8Array(4) } }), /tensor_content: expected 8 bytes, got 4 bytes/],
      [
        push({ w: { dtype: 1, tensorShape: shape(2), floatVal: [1, 1] } }),
        /tensor_content: expected 8 bytes, got 0 bytes/,
      ],
      [push({ w: { ...w, dtype: 2, tensorContent: new Uint8Array(16) } }), /dtype of the gradient of "w"/],
      [
        push({ w }, { e: { concatTensors: tensorOf(Float32Array.of(1, 1, 1), 1, 3), ids: [1n] } }),
        /\(None, 3\).*\(None, 2\)/,
      ],
      [push({ w }, { e: { concatTensors: tensorOf(Float32Array.of(1, 1), 1, 2), ids: [1n, 2n] } }), /2 ids for 1 rows/],
      [
        push({}, { w: { concatTensors: tensorOf(Float32Array.of(1), 1), ids: [2n] } }),
        /row of the gradient of "w": expected 0 to 1, got 2/,
      ],
      [push({}, { w: { concatTensors: tensorOf(Float32Array.of(1), 1), ids: [-1n] } }), /expected 0 to 1, got -1/],
      [
        client.call("pull_embedding_vectors", PullEmbeddingVectorsRequestSchema, TensorProtoSchema, {
          name: "w",
          ids: [1n],
        }),
        /no embedding table "w"/,
      ],
      [
        client.call("push_embedding_table_infos", ModelSchema, ModelSchema, {
          embeddingTableInfos: [{ name: "x", dim: 2n, initializer: "lovely" }],
        }),
        /no such initializer/,
      ],
      [
        client.call("push_embedding_table_infos", ModelSchema, ModelSchema, {
          embeddingTableInfos: [{ name: "e", dim: 3n, initializer: "uniform" }],
        }),
        /width of embedding table "e": expected 2, got 3/,
      ],
      [client.raw("/proto.Pserver/push_gradients", Uint8Array.of(0x0a, 0x7f)), /damaged/],
    ];
    for (const [call, message] of wrong) {
      const error = await call.then(
        () => undefined,
        (reason: ServiceError) => reason,
      );
      expect(error?.code).toBe(status.INVALID_ARGUMENT);
      expect(error?.details).toMatch(message);
    }
    await expect(client.raw("/proto.Pserver/nope", new Uint8Array(0))).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
    });
    expect(numbers(parameters.dense.get("w")?.bytes as Uint8Array)).toEqual(before);
    expect([parameters.modelVersion, parameters.step, parameters.table("e").rowCount]).toEqual([0, 0, 0]);
  });

  it("may push nothing, and numbers that are not finite", async () => {
    const { address, parameters } = await serve();
    const client = otherClient(address);
    await client.call("push_model", ModelSchema, ModelSchema, {
      denseParameters: { w: tensorOf(Float32Array.of(1), 1) },
    });
    const empty = await client.call("push_gradients", PushGradientsRequestSchema, PushGradientsResponseSchema, {});
    expect(empty).toMatchObject({ accepted: true, version: 1 });
    await client.call("push_gradients", PushGradientsRequestSchema, PushGradientsResponseSchema, {
      gradients: { denseParameters: { w: tensorOf(Float32Array.of(Number.NaN), 1) } },
    });
    expect(numbers(parameters.dense.get("w")?.bytes as Uint8Array)).toEqual([Number.NaN]);
    const none = await client.call("pull_embedding_vectors", PullEmbeddingVectorsRequestSchema, TensorProtoSchema, {
      name: "nope",
    });
    expect(none.tensorContent).toHaveLength(0);
  });
});

describe("the server's framing", () => {
  const echo: UnaryHandler = (request) => (allocate) => {
    const bytes = allocate(request.length);
    bytes.set(request);
    return bytes;
  };

  /** Sends bytes of HTTP/2 data as they are, in pieces, and gives the answer's headers and trailers together. */
  async function exchange(address: string, pieces: Uint8Array[], headers: Record<string, string> = {}) {
    const session = connect(`http://${address}`);
    closers.push(() => session.destroy());
    const stream = session.request({
      ":method": "POST",
      ":path": "/echo",
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    const seen: Record<string, unknown> = {};
    stream.on("response", (more) => Object.assign(seen, more));
    stream.on("trailers", (more) => Object.assign(seen, more));
    stream.on("error", () => {});
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    for (const piece of pieces) stream.write(piece);
    stream.end();
    await new Promise((resolve) => stream.once("close", resolve));
    return { status: Number(seen["grpc-status"]), body: Buffer.concat(chunks) };
  }

  it("takes a message in pieces of any length", async () => {
    const address = await listen(new Map([["/echo", echo]]));
    const message = Uint8Array.of(0, 0, 0, 0, 4, 1, 2, 3, 4);
    for (const cut of [1, 2, 3, 5, 6, 9]) {
      const pieces = [];
      for (let at = 0; at < message.length; at += cut) pieces.push(message.subarray(at, at + cut));
      const { status: code, body } = await exchange(address, pieces);
      expect([code, [...body]]).toEqual([0, [...message]]);
    }
  });

  it("refuses what is no unary call", async () => {
    const address = await listen(new Map([["/echo", echo]]));
    const codes = [];
    for (const bytes of [
      [],
      [0, 0, 0],
      [0, 0, 0, 0, 4, 1],
      [1, 0, 0, 0, 1, 1],
      [0, 0, 0, 0, 0, 9],
      [0, 0xff, 0, 0, 0],
    ]) {
      codes.push((await exchange(address, [Uint8Array.from(bytes)])).status);
    }
    expect(codes).toEqual([13, 13, 13, 12, 12, 8]);
    const message = Uint8Array.of(0, 0, 0, 0, 0);
    expect((await exchange(address, [message], { "content-type": "text/html" })).status).toBe(13);
    expect((await exchange(address, [message], { ":path": "/other" })).status).toBe(12);
    expect((await exchange(address, [message])).status).toBe(0);
  });

  it("ends although a client never finishes its call", async () => {
    const server = new GrpcServer(new Map([["/echo", echo]]));
    const session = connect(`http://127.0.0.1:${await server.listen({ port: 0 })}`);
    const stream = session.request({ ":method": "POST", ":path": "/echo", "content-type": "application/grpc" });
    stream.on("error", () => {});
    session.on("error", () => {});
    stream.write(Uint8Array.of(0, 0, 0, 0, 9));
    await new Promise((resolve) => session.once("remoteSettings", resolve));
    await server.close({ graceMs: 1 });
    session.destroy();
  });

  it("keeps a fault of its own to itself", async () => {
    const address = await listen(
      new Map([
        [
          "/echo",
          () => {
            throw new TypeError("secret");
          },
        ],
      ]),
    );
    const channel = new GrpcChannel(address);
    closers.push(() => channel.close());
    const error = await channel
      .call(
        "/echo",
        (allocate) => allocate(0),
        () => {},
      )
      .catch((reason: unknown) => reason);
    expect(isCairnError(error, "rpc-failed")).toBe(true);
    expect(String(error)).not.toContain("secret");
  });
});

describe("PserverClient", () => {
  async function cluster(count: number) {
    const servers = [];
    for (let i = 0; i < count; i++) servers.push(await serve());
    const client = new PserverClient(servers.map(({ address }) => address));
    closers.push(() => client.close());
    return { client, servers };
  }

  it("sends each variable and row to its server, whatever their number, and gets the same back", async () => {
    const names = ["w", "b", "dense/kernel:0", "变量", ""];
    const ids = toIds([5, -3, 2n ** 63n - 1n, 5, 0, -(2n ** 63n), 123456789012]);
    const results = [];
    for (const count of [1, 2, 3]) {
      const { client, servers } = await cluster(count);
      const first = model({ dense: Object.fromEntries(names.map((name, i) => [name, [i + 1, 2]])), tables: { e: 3 } });
      await client.pushEmbeddingTableInfos(first.tableInfos);
      expect((await client.pullDenseParameters()).isInitialized).toBe(false);
      await client.pushModel(first);
      const { gradients: push } = gradients(
        { dense: { w: [1, 2], 变量: [4, 2] }, rows: { e: [[...ids], 3], b: [[0n, 1n, 1n], 2] } },
        2,
      );
      const { embeddingTables } = push;
      const rows = new Map([["e", embeddingTables.get("e")!]]);
      const denseRows = new Map([["b", embeddingTables.get("b")!]]);
      const modelVersions = new Array(count).fill(0);
      const answers = await client.pushGradients({ dense: push.denseParameters, rows, denseRows, modelVersions });
      expect(answers).toEqual(new Array(count).fill({ accepted: true, modelVersion: 1 }));
      const pulled = await client.pullDenseParameters(modelVersions);
      const dense = Array.from(pulled.dense, ([name, { content }]) => [name, numbers(content)] as const).sort(
        ([a], [b]) => (a < b ? -1 : 1),
      );
      results.push({ dense, rows: Array.from((await client.pullEmbeddingVectors("e", ids)).values) });
      expect((await client.pullDenseParameters([1, 1, 1])).dense.size).toBe(0);
      const again = await client.pullDenseParameters(modelVersions, pulled.dense);
      expect(again.dense.get("w")?.content).toBe(pulled.dense.get("w")?.content);
      const rowCounts = servers.map(({ parameters }) => parameters.table("e").rowCount);
      expect(rowCounts.reduce((a, b) => a + b)).toBe(6);
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
    expect(results[0]?.dense).toHaveLength(5);
  });

  it("says which server refused, and goes on when one comes back", async () => {
    const { client, servers } = await cluster(2);
    const error = await client.pullEmbeddingVectors("nope", [0, 1]).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "rpc-failed",
      status: 3,
      message: expect.stringMatching(/^127\.0\.0\.1:\d+: no embedding table "nope"/),
    });
    const [{ address } = { address: "" }] = servers;
    const lost = new PserverClient([address]);
    await lost.pullDenseParameters();
    await closers.shift()?.();
    await expect(lost.pullDenseParameters()).rejects.toMatchObject({ code: "rpc-failed", status: 14 });
    const again = new GrpcServer(pserverHandlers(new PserverService(servers[0]!.parameters)));
    await again.listen({ port: Number(address.split(":")[1]) });
    closers.push(
      () => again.close(),
      () => lost.close(),
    );
    expect((await lost.pullDenseParameters()).isInitialized).toBe(false);
  });

  it("gives up a call when its time is over or it is not wanted any more", async () => {
    let finish = () => {};
    const address = await listen(
      new Map([
        [
          "/proto.Pserver/pull_dense_parameters",
          async () => {
            await new Promise<void>((resolve) => {
              finish = resolve;
            });
            return (allocate: (length: number) => Uint8Array) => allocate(0);
          },
        ],
      ]),
    );
    const hasty = new PserverClient([address], { timeoutMs: 1 });
    closers.push(() => hasty.close());
    await expect(hasty.pullDenseParameters()).rejects.toMatchObject({ status: 4 });
    const controller = new AbortController();
    const stopped = new PserverClient([address], { signal: controller.signal });
    closers.push(() => stopped.close());
    const call = stopped.pullDenseParameters();
    controller.abort();
    await expect(call).rejects.toMatchObject({ status: 1 });
    finish();
  });
});

it("the paths are those of the schema", () => {
  const text = readFileSync(new URL("../../proto/elasticdl/elasticdl.proto", import.meta.url), "utf8");
  const methods = [...(text.match(/service Pserver \{([^}]*)\}/)?.[1] ?? "").matchAll(/rpc (\w+)/g)].map(
    ([, name]) => `/proto.Pserver/${name}`,
  );
  expect([...pserverHandlers({} as PserverService).keys()].sort()).toEqual(methods.sort());
  expect(floats([1]).content).toHaveLength(4);
});
