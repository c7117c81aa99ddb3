import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CairnError } from "../../src/errors.js";
import {
  ModelSchema,
  PullDenseParametersRequestSchema,
  PullDenseParametersResponseSchema,
  PullEmbeddingVectorsRequestSchema,
  PushGradientsRequestSchema,
  PushGradientsResponseSchema,
} from "../../src/proto/gen/elasticdl/elasticdl_pb.js";
import {
  decodeDenseParameters,
  decodeDenseRequest,
  decodeGradients,
  decodeGradientsAnswer,
  decodeModel,
  decodeTensor,
  decodeVectorsRequest,
} from "../../src/training/decode-messages.js";
import {
  encodeDenseParameters,
  encodeDenseRequest,
  encodeGradients,
  encodeGradientsAnswer,
  encodeModel,
  encodeVectorsRequest,
} from "../../src/training/encode-messages.js";
import type { GradientsMessage, ModelMessage, TensorMessage } from "../../src/training/messages.js";
import { gradients } from "../support/training.js";

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const int64 = fc.oneof(fc.bigInt({ min: -300n, max: 300n }), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
const text = fc.oneof(fc.string(), fc.constantFrom("", "dense/kernel:0", "变量", "__proto__"));
const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Uint8Array.from(array));
const tensor: fc.Arbitrary<TensorMessage> = fc.record({
  dtype: fc.constantFrom(0, 1, 2, 3, 9, 200),
  shape: fc.array(fc.oneof(fc.nat(300), fc.maxSafeNat()), { maxLength: 4 }),
  content: bytes,
});
const map = <T>(value: fc.Arbitrary<T>) =>
  fc.array(fc.tuple(text, value), { maxLength: 3 }).map((pairs) => new Map(pairs));
const ids = fc.array(int64, { maxLength: 8 }).map((list) => BigInt64Array.from(list));
const model: fc.Arbitrary<ModelMessage> = fc.record({
  modelVersion: int32,
  tableInfos: fc.array(fc.record({ name: text, dim: fc.nat(), initializer: text, dtype: fc.nat(20) }), {
    maxLength: 3,
  }),
  denseParameters: map(tensor),
  embeddingTables: map(fc.record({ tensor, ids })),
});
const push: fc.Arbitrary<GradientsMessage> = fc.record({ gradients: model, learningRate: fc.float({ noNaN: true }) });

/** A message as another implementation writes it after it has read it. */
const through = {
  model: (encoded: Uint8Array) => toBinary(ModelSchema, fromBinary(ModelSchema, encoded)),
  push: (encoded: Uint8Array) => toBinary(PushGradientsRequestSchema, fromBinary(PushGradientsRequestSchema, encoded)),
};

describe("messages", () => {
  it("come back the same from another implementation of protobuf", () => {
    fc.assert(
      fc.property(model, (message) => {
        expect(decodeModel(through.model(encodeModel(message)))).toEqual(message);
        const answer = {
          initialized: true,
          modelVersion: message.modelVersion,
          denseParameters: message.denseParameters,
        };
        const encoded = encodeDenseParameters(answer);
        const other = fromBinary(PullDenseParametersResponseSchema, encoded);
        expect(decodeDenseParameters(toBinary(PullDenseParametersResponseSchema, other))).toEqual(answer);
      }),
    );
    fc.assert(
      fc.property(push, (message) => {
        const back = decodeGradients(through.push(encodeGradients(message)));
        expect(back).toEqual({ ...message, learningRate: message.learningRate || back.learningRate });
      }),
    );
    fc.assert(
      fc.property(text, ids, int32, fc.boolean(), (name, list, modelVersion, accepted) => {
        const request = fromBinary(PullEmbeddingVectorsRequestSchema, encodeVectorsRequest({ name, ids: list }));
        expect([request.name, request.ids]).toEqual([name, [...list]]);
        expect(decodeVectorsRequest(toBinary(PullEmbeddingVectorsRequestSchema, request))).toEqual({ name, ids: list });
        const dense = fromBinary(PullDenseParametersRequestSchema, encodeDenseRequest(modelVersion));
        expect([dense.version, decodeDenseRequest(toBinary(PullDenseParametersRequestSchema, dense))]).toEqual([
          modelVersion,
          modelVersion,
        ]);
        const answer = { accepted, modelVersion };
        const pushed = fromBinary(PushGradientsResponseSchema, encodeGradientsAnswer(answer));
        expect(decodeGradientsAnswer(toBinary(PushGradientsResponseSchema, pushed))).toEqual(answer);
      }),
    );
  });

  it("that follow each other are one message, as protobuf merges them", () => {
    fc.assert(
      fc.property(push, push, (a, b) => {
        const both = Uint8Array.from(Buffer.concat([encodeGradients(a), encodeGradients(b)]));
        expect(decodeGradients(both)).toEqual(decodeGradients(through.push(both)));
      }),
    );
  });

  it("may have their parts in any order, unpacked ids, groups and fields that nobody knows", () => {
    const unpacked = Uint8Array.of(
      0x10,
      5,
      0x0a,
      1,
      0x65,
      0x10,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      1,
      0x12,
      2,
      7,
      8,
    );
    expect(decodeVectorsRequest(unpacked)).toEqual({ name: "e", ids: BigInt64Array.of(5n, -1n, 7n, 8n) });
    // Field 9: a varint, eight bytes, a group with a group in it, bytes and four bytes.
    const unknown = Uint8Array.of(
      0x48,
      1,
      0x49,
      ...new Uint8Array(8),
      0x4b,
      0x53,
      0x08,
      1,
      0x54,
      0x4c,
      0x4a,
      1,
      0,
      0x4d,
      0,
      0,
      0,
      0,
    );
    expect(decodeVectorsRequest(Buffer.concat([unknown, unpacked, unknown]))).toEqual(decodeVectorsRequest(unpacked));
    // A field of a known number and another wire type is one that nobody knows.
    expect(decodeDenseRequest(Uint8Array.of(0x0d, 1, 0, 0, 0))).toBe(0);
    // The released version number that a worker without variables sends: -1 in ten bytes.
    expect(decodeDenseRequest(Uint8Array.of(0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1))).toBe(-1);
  });

  it("that are cut or changed anywhere are another message or a CairnError", () => {
    const { gradients: whole } = gradients({ dense: { w: [3] }, rows: { e: [[1n, -7n], 2] } }, 1);
    whole.tableInfos.push({ name: "e", dim: 2, initializer: "uniform", dtype: 1 });
    const message = encodeGradients({ gradients: whole, learningRate: 0.5 });
    let refused = 0;
    const attempt = (damaged: Uint8Array) => {
      try {
        decodeGradients(damaged);
      } catch (error) {
        if (!(error instanceof CairnError)) throw error;
        refused++;
      }
    };
    for (let length = 0; length < message.length; length++) attempt(message.subarray(0, length));
    for (let at = 0; at < message.length; at++) {
      for (let bit = 0; bit < 8; bit++) attempt(message.map((byte, i) => (i === at ? byte ^ (1 << bit) : byte)));
    }
    expect(refused).toBeGreaterThan(message.length);
  });

  it("cannot announce what is not there, nest without end or have shapes without end", () => {
    const hostile = [
      Uint8Array.of(0x22, 0xff, 0xff, 0xff, 0xff, 0x0f),
      Uint8Array.of(0x22, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
      new Uint8Array(4096).fill(0x4b),
      new Uint8Array(4096).fill(0xff),
      Uint8Array.of(0x4c),
      Uint8Array.of(0x00),
      Uint8Array.of(0x4e),
      Uint8Array.of(0x12, 4, ...[0x12, 2, 0x08, 0xff]),
      Uint8Array.of(0x12, 13, 0x12, 11, 0x08, ...new Uint8Array(9).fill(0xff), 1),
    ];
    for (const damaged of hostile) expect(() => decodeTensor(damaged)).toThrow(CairnError);
    const dims = Buffer.concat(Array.from({ length: 300 }, () => Uint8Array.of(0x12, 2, 0x08, 1)));
    const ranked = Buffer.concat([Uint8Array.of(0x12, 0xb0, 0x09), dims]);
    expect(() => decodeTensor(ranked)).toThrow(expect.objectContaining({ code: "limit" }));
  });

  it("with int32 fields that another implementation wrote are read as it reads them", () => {
    fc.assert(
      fc.property(int32, (version) => {
        const encoded = toBinary(ModelSchema, create(ModelSchema, { version }));
        expect(decodeModel(encoded).modelVersion).toBe(version);
      }),
    );
  });
});
