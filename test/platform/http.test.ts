import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { BlockCache } from "../../src/bytes/cached-source.js";
import { copySource } from "../../src/bytes/copy-source.js";
import { MemoryStore, memoryScratch } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { openSafetensors } from "../../src/formats/safetensors/public.js";
import { inspect } from "../../src/ops/inspect.js";
import { openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { HttpFiles, type HttpFilesOptions } from "../../src/platform/http/index.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { DataType } from "../../src/proto/gen/tensorflow/core/framework/types_pb.js";
import { GraphDefSplitter } from "../../src/splitter/splitters.js";
import { testByteSource } from "../conformance/byte-source.js";
import { expectBytes } from "../support/bytes.js";
import { readFixture } from "../support/fixtures.js";
import { rangeOf, sendRange, TestServer } from "../support/http-server.js";
import { randomBytes } from "../support/odd-sources.js";

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.stop());
afterEach(() => void server.take());

const BYTES = randomBytes(3_000_000, 11);
const pauses: number[] = [];
afterEach(() => void pauses.splice(0));

/** A store that writes down its pauses and does not wait. */
function store(options: HttpFilesOptions = {}): HttpFiles {
  const wait = async (ms: number) => void pauses.push(ms);
  return new HttpFiles({ wait, stallTimeoutMs: 10_000, ...options });
}

async function readAll(files: HttpFiles, url: string): Promise<Uint8Array> {
  const source = await files.open(url);
  const sink = new MemorySink();
  await copySource(source, sink);
  await source.close();
  return new Uint8Array(sink.bytes);
}

/** Answers the first request, which asks for the head of the file, as a good server; and the others as told. */
function afterHead(handler: (request: IncomingMessage, response: ServerResponse, count: number) => void) {
  return (request: IncomingMessage, response: ServerResponse, count: number) => {
    if (count === 0) sendRange(request, response, BYTES, { etag: '"1"' });
    else handler(request, response, count - 1);
  };
}

testByteSource("a file on a web server", async () => {
  const bytes = randomBytes(100_000, 7);
  const source = await store({ cache: new BlockCache({ blockBytes: 1000 }) }).open(server.serve("/conform", bytes));
  return { source, bytes };
});

describe("a good web server", () => {
  it("gives a small file in one request, and a large one in few", async () => {
    const files = store();
    const small = server.serve("/small", BYTES.subarray(0, 1000));
    expect(await files.stat(small)).toEqual({ path: small, kind: "file", size: 1000, identity: '"1"' });
    expectBytes(await readAll(files, small), BYTES.subarray(0, 1000));
    expect(server.take()).toEqual({ requests: 1, bytes: 1000 });
    const large = server.serve("/large", BYTES);
    expectBytes(await readAll(files, large), BYTES);
    const { requests, bytes } = server.take();
    expect(requests).toBe(2);
    expect(bytes).toBeLessThanOrEqual(BYTES.length + 65_536);
  });

  it("is asked once for what several open or look at together, and for what is not there", async () => {
    const files = store();
    const url = server.serve("/shared", BYTES);
    await Promise.all([files.stat(url), files.open(url), files.open(url), files.stat(url)]);
    const missing = server.url("/missing");
    for (let i = 0; i < 3; i++) expect(await files.stat(missing)).toBeUndefined();
    await expect(files.open(missing)).rejects.toMatchObject({ code: "not-found", file: missing });
    expect(server.take().requests).toBe(2);
  });

  it("gives an empty file, whether it says that no range of it can be had or sends nothing", async () => {
    const files = store();
    expect(await readAll(files, server.serve("/empty", new Uint8Array(0)))).toEqual(new Uint8Array(0));
    const plain = server.on("/empty2", (_, response) => void response.writeHead(200, { "content-length": 0 }).end());
    expect(await readAll(files, plain)).toEqual(new Uint8Array(0));
  });

  it("is asked not to compress, and sent the validator it gave", async () => {
    for (const [headers, expected] of [
      [{ etag: '"a"', "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT" }, '"a"'],
      [{ "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT" }, "Mon, 01 Jan 2024 00:00:00 GMT"],
      [{ etag: 'W/"a"' }, undefined],
      [{}, undefined],
    ] as const) {
      expectBytes(await readAll(store(), server.serve("/validated", BYTES, headers)), BYTES);
      expect(server.requests.at(-1)?.headers).toMatchObject({ "accept-encoding": "identity" });
      expect(server.requests.at(-1)?.headers["if-range"]).toBe(expected);
    }
  });

  it("may redirect, and is then asked where the file is", async () => {
    const target = server.serve("/target", BYTES);
    const url = server.on("/moved", (_, response) => void response.writeHead(302, { location: target }).end());
    const files = store();
    expectBytes(await readAll(files, url), BYTES);
    const paths = server.requests.map(({ path }) => path);
    expect(paths).toEqual(["/moved", "/target", "/target"]);
  });

  it("may redirect to an address that ends, and is then asked anew", async () => {
    let target = server.serve("/signed-1", BYTES);
    const url = server.on("/signed", (_, response) => void response.writeHead(302, { location: target }).end());
    const source = await store().open(url);
    server.on("/signed-1", (_, response) => void response.writeHead(403).end());
    target = server.serve("/signed-2", BYTES);
    expectBytes(await source.read(1_000_000, 10), BYTES.subarray(1_000_000, 1_000_010));
    expect(server.requests.map(({ path }) => path).slice(2)).toEqual(["/signed-1", "/signed", "/signed-2"]);
  });

  it("gets the headers of the user, and one that it redirects to does not", async () => {
    const other = new TestServer();
    await other.start();
    try {
      const target = other.serve("/target", BYTES);
      const url = server.on("/moved", (_, response) => void response.writeHead(307, { location: target }).end());
      const files = store({ headers: { authorization: "Bearer secret" } });
      expectBytes(await readAll(files, url), BYTES);
      expect(server.requests[0]?.headers.authorization).toBe("Bearer secret");
      expect(other.requests.length).toBe(2);
      expect(other.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
    } finally {
      await other.stop();
    }
  });

  it("shows a directory by a redirect to an address with a slash", async () => {
    const url = server.on("/dir", (_, response) => void response.writeHead(301, { location: "/dir/" }).end());
    server.serve("/dir/", new TextEncoder().encode("<html>"));
    const files = store();
    expect(await files.stat(url)).toMatchObject({ kind: "directory" });
    expect(await files.stat(`${url}/`)).toMatchObject({ kind: "directory" });
    await expect(files.open(`${url}/`)).rejects.toMatchObject({ code: "usage" });
    await expect(files.list(`${url}/`)).rejects.toMatchObject({ code: "unsupported-operation" });
  });

  it("is never written to", async () => {
    const url = server.serve("/file", BYTES);
    const files = store();
    for (const change of [files.create(url), files.remove(url), files.rename(url)]) {
      await expect(change).rejects.toMatchObject({ code: "unsupported-operation", file: url });
    }
    expect(server.take().requests).toBe(0);
    await expect(files.open("http://user:secret@127.0.0.1/")).rejects.toMatchObject({ code: "usage" });
    await expect(files.open("http://user:secret@127.0.0.1/")).rejects.not.toThrow(/secret/);
    expect(await files.isSame(url, `${url}#part`)).toBe(true);
    expect(await files.isSame(url, server.url("/missing"))).toBe(false);
  });
});

describe("a web server that gives no ranges", () => {
  const whole = (headers: Record<string, string | number>) => (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(200, headers).end(BYTES);

  it("is asked for the whole file once it is opened, and not again for a while", async () => {
    const files = store();
    const url = server.on("/whole", whole({ "content-length": BYTES.length }));
    expect(await files.stat(url)).toMatchObject({ size: BYTES.length });
    expectBytes(await readAll(files, url), BYTES);
    expectBytes(await readAll(files, url), BYTES);
    expect(server.take().requests).toBe(2);
  });

  it("may keep the size to itself", async () => {
    const files = store();
    const url = server.on("/unknown", whole({}));
    expect(await files.stat(url)).toMatchObject({ size: BYTES.length });
    expectBytes(await readAll(files, url), BYTES);
    expect(server.take().requests).toBe(2);
  });

  it("is refused a file over the limit, announced or not, before it is in memory", async () => {
    for (const headers of [{ "content-length": BYTES.length }, {}] as Record<string, number>[]) {
      const url = server.on("/over", whole(headers));
      const opening = store({ maxSpooledBytes: 1_000_000 }).open(url);
      await expect(opening).rejects.toMatchObject({ code: "limit", file: url });
    }
  });

  it("is asked again when the body ends too early, and what came is thrown away", async () => {
    const disposed: number[] = [];
    const scratch = async (size?: number) => {
      const room = await memoryScratch(size);
      return { ...room, dispose: async () => void disposed.push(room.sink.position) };
    };
    const url = server.on("/cut-whole", (_, response, count) => {
      response.writeHead(200, { "content-length": BYTES.length });
      if (count !== 1) response.end(BYTES);
      else response.write(BYTES.subarray(0, 100_000), () => response.destroy());
    });
    expectBytes(await readAll(store({ scratch }), url), BYTES);
    expect(disposed.length).toBe(1);
  });
});

describe("a web server that fails for a while", () => {
  it.each([429, 500, 503])("with %i is asked again after pauses that grow", async (status) => {
    const url = server.on("/busy", (request, response, count) => {
      if (count < 3) response.writeHead(status).end("busy");
      else sendRange(request, response, BYTES);
    });
    expect(await store().stat(url)).toMatchObject({ size: BYTES.length });
    expect(pauses.length).toBe(3);
    for (const [i, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThanOrEqual(125 * 2 ** i);
      expect(pause).toBeLessThanOrEqual(250 * 2 ** i);
    }
  });

  it("is given the pause that it asks for, in seconds or as a date, but not an hour", async () => {
    const asking = (text: () => string) => (request: IncomingMessage, response: ServerResponse, count: number) => {
      if (count === 0) response.writeHead(503, { "retry-after": text() }).end();
      else sendRange(request, response, BYTES);
    };
    await store().stat(
      server.on(
        "/later",
        asking(() => "7"),
      ),
    );
    await store().stat(
      server.on(
        "/date",
        asking(() => new Date(Date.now() + 20_000).toUTCString()),
      ),
    );
    expect(pauses[0]).toBe(7_000);
    expect(pauses[1]).toBeGreaterThan(15_000);
    const hour = store().stat(
      server.on(
        "/hour",
        asking(() => "3600"),
      ),
    );
    await expect(hour).rejects.toMatchObject({ code: "read-failed", actual: 503 });
    expect(pauses.length).toBe(2);
  });

  it("is given up after a few requests", async () => {
    const url = server.on("/down", (_, response) => void response.writeHead(502).end());
    await expect(store({ attempts: 3 }).open(url)).rejects.toMatchObject({ code: "read-failed", file: url });
    expect(server.take().requests).toBe(3);
  });

  it("breaks connections, and is asked for what is missing only", async () => {
    const url = server.on(
      "/broken",
      afterHead((request, response, count) => {
        const { start, last } = rangeOf(request) as { start: number; last: number };
        if (count === 2) return sendRange(request, response, BYTES, { etag: '"1"' });
        const range = `bytes ${start}-${last}/${BYTES.length}`;
        response.writeHead(206, { "content-range": range, "content-length": last + 1 - start, etag: '"1"' });
        response.write(BYTES.subarray(start, start + 50_000), () => response.destroy());
      }),
    );
    const source = await store().open(url);
    const { bytes: head } = server.take();
    expectBytes(await source.read(1_000_000, 1_500_000), BYTES.subarray(1_000_000, 2_500_000));
    const starts = server.requests.map(({ range }) => Number(/\d+/.exec(range ?? "")?.[0]));
    // The first request is repeated where it broke: nothing that came is asked for again.
    expect(starts[0]).toBe(1_000_000);
    expect(starts.length).toBe(3);
    expect(starts[1]).toBeGreaterThan(1_000_000);
    expect(head).toBe(65_536);
  });

  it("refuses connections", async () => {
    const gone = new TestServer();
    await gone.start();
    const url = gone.url("/x");
    await gone.stop();
    await expect(store({ attempts: 2 }).open(url)).rejects.toMatchObject({
      code: "read-failed",
      message: expect.stringMatching(/ECONNREFUSED/),
    });
    expect(pauses.length).toBe(1);
  });

  it("stalls before or within a body, and is given up each time", async () => {
    const url = server.on("/stall", (request, response, count) => {
      if (count === 0) return;
      if (count === 1) sendRange(request, response, BYTES, { etag: '"1"' });
      else if (count === 2)
        response.writeHead(206, { "content-range": `bytes 1000000-1000999/${BYTES.length}` }).write("x");
      else sendRange(request, response, BYTES, { etag: '"1"' });
    });
    const files = store({ stallTimeoutMs: 100, cache: new BlockCache({ blockBytes: 1000 }) });
    const source = await files.open(url);
    expect((await source.read(1_000_000, 1000)).length).toBe(1000);
    expect(server.take().requests).toBe(4);
    const silent = server.on("/silent", () => {});
    await expect(store({ stallTimeoutMs: 50, attempts: 2 }).open(silent)).rejects.toMatchObject({
      code: "read-failed",
      message: expect.stringMatching(/sent nothing for 0.05 s/),
    });
  });

  it("is not asked again once the caller has stopped", async () => {
    const stopping = new AbortController();
    const url = server.on(
      "/stopped",
      afterHead((_, response) => {
        stopping.abort(new CairnError("interrupted", "stop"));
        response.writeHead(503).end();
      }),
    );
    const source = await store().open(url);
    await expect(source.read(1_000_000, 10, { signal: stopping.signal })).rejects.toMatchObject({
      code: "interrupted",
    });
    expect(server.take().requests).toBe(2);
    const already = source.read(2_000_000, 10, { signal: AbortSignal.abort(new CairnError("interrupted", "stop")) });
    await expect(already).rejects.toMatchObject({ code: "interrupted" });
    expect(server.take().requests).toBe(0);
  });
});

describe("a web server that lies", () => {
  const part = (request: IncomingMessage) => {
    const { start, last } = rangeOf(request) as { start: number; last: number };
    return { start, last, bytes: BYTES.subarray(start, last + 1) };
  };

  it.each<[string, (request: IncomingMessage, response: ServerResponse) => void, string]>([
    [
      "another range",
      (request, response) => {
        const { start, last, bytes } = part(request);
        response.writeHead(206, { "content-range": `bytes ${start + 1}-${last + 1}/${BYTES.length}` }).end(bytes);
      },
      "read-failed",
    ],
    ["no range", (request, response) => response.writeHead(206).end(part(request).bytes), "read-failed"],
    [
      "a range that is no range",
      (request, response) => response.writeHead(206, { "content-range": "bytes a-b/c" }).end(part(request).bytes),
      "read-failed",
    ],
    [
      "more bytes than announced",
      (request, response) => {
        const { start, last } = part(request);
        response.writeHead(206, { "content-range": `bytes ${start}-${last}/${BYTES.length}` });
        response.end(BYTES.subarray(start, last + 100));
      },
      "read-failed",
    ],
    [
      "fewer bytes than announced, each time",
      (request, response) => {
        const { start, last } = part(request);
        response.writeHead(206, { "content-range": `bytes ${start}-${last}/${BYTES.length}` }).end();
      },
      "truncated",
    ],
    [
      "compressed bytes",
      (request, response) =>
        response
          .writeHead(206, {
            "content-range": `bytes ${part(request).start}-${part(request).last}/${BYTES.length}`,
            "content-encoding": "gzip",
          })
          .end(gzipSync(part(request).bytes)),
      "read-failed",
    ],
    [
      "the whole file",
      (_, response) => response.writeHead(200, { etag: '"1"', "content-length": BYTES.length }).end(BYTES),
      "read-failed",
    ],
    [
      "that there is no such range",
      (_, response) => response.writeHead(416, { "content-range": `bytes */${BYTES.length}` }).end(),
      "read-failed",
    ],
    ["403", (_, response) => response.writeHead(403).end(), "read-failed"],
    ["404", (_, response) => response.writeHead(404).end(), "not-found"],
  ])("and answers with %s gives an error, never other bytes", async (_, answer, code) => {
    const url = server.on("/liar", afterHead(answer));
    const source = await store().open(url);
    const reading = source.read(1_000_000, 1000);
    await expect(reading).rejects.toMatchObject({ code, file: url });
    await expect(reading).rejects.toBeInstanceOf(CairnError);
  });

  it("and gives fewer bytes than were asked for, but says so, is asked for the rest", async () => {
    const url = server.on(
      "/portions",
      afterHead((request, response) => {
        const { start, last } = part(request);
        const end = Math.min(last + 1, start + 30_000);
        const headers = { "content-range": `bytes ${start}-${end - 1}/${BYTES.length}`, etag: '"1"' };
        response.writeHead(206, headers).end(BYTES.subarray(start, end));
      }),
    );
    const source = await store().open(url);
    expectBytes(await source.read(1_000_000, 100_000), BYTES.subarray(1_000_000, 1_100_000));
  });

  it.each<[string, (request: IncomingMessage, response: ServerResponse) => void]>([
    ["another entity tag, under If-Range", (request, response) => sendRange(request, response, BYTES, { etag: '"2"' })],
    [
      "another entity tag, with a range",
      (request, response) => {
        const { start, last, bytes } = part(request);
        response.writeHead(206, { "content-range": `bytes ${start}-${last}/${BYTES.length}`, etag: '"2"' }).end(bytes);
      },
    ],
    [
      "another size",
      (request, response) => {
        const { start, last, bytes } = part(request);
        response.writeHead(206, { "content-range": `bytes ${start}-${last}/${BYTES.length + 1}` }).end(bytes);
      },
    ],
    ["412", (_, response) => void response.writeHead(412).end()],
    ["416 with a smaller size", (_, response) => void response.writeHead(416, { "content-range": "bytes */10" }).end()],
  ])(
    "or has another file by now, as %s tells, gives file-changed, and the new file when it is opened again",
    async (_, answer) => {
      const files = store();
      const url = server.on("/changing", afterHead(answer));
      const source = await files.open(url);
      await expect(source.read(1_000_000, 10)).rejects.toMatchObject({ code: "file-changed", file: url });
      await source.close();
      const other = BYTES.subarray(5);
      server.serve("/changing", other, { etag: '"2"' });
      expectBytes(await readAll(files, url), other);
    },
  );

  it("and compresses the first bytes is refused", async () => {
    const url = server.on(
      "/gzip",
      (_, response) => void response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(BYTES)),
    );
    await expect(store().open(url)).rejects.toMatchObject({
      code: "read-failed",
      message: expect.stringMatching(/gzip/),
    });
  });

  it("and refuses to show a file says why when it is opened", async () => {
    const url = server.on("/secret", (_, response) => void response.writeHead(403, "Forbidden").end());
    const files = store();
    expect(await files.stat(url)).toBeUndefined();
    await expect(inspect(files, url)).rejects.toMatchObject({
      code: "read-failed",
      message: expect.stringMatching(/Forbidden/),
    });
    await expect(inspect(files, server.url("/missing"))).rejects.toMatchObject({ code: "not-found" });
    expect(pauses).toEqual([]);
  });
});

/** A .cpb of a graph of constants, each in a chunk of its own. */
async function modelOf(count: number, byteLength: number): Promise<Uint8Array> {
  const node = Array.from({ length: count }, (_, i) => {
    const tensorContent = BYTES.slice(i * byteLength, (i + 1) * byteLength);
    const tensorShape = { dim: [{ size: BigInt(byteLength) }] };
    const value = { case: "tensor" as const, value: { dtype: DataType.DT_UINT8, tensorShape, tensorContent } };
    return { name: `constant${i}`, op: "Const", attr: { value: { value } } };
  });
  const graph = toBinary(GraphDefSchema, create(GraphDefSchema, { node }));
  const files = new MemoryStore();
  await new GraphDefSplitter(graph, { maxChunkSize: byteLength }).write("x", { files, compression: "none" });
  const source = await files.open("x.cpb");
  return source.read(0, source.size);
}

describe("models on a web server", () => {
  it.each([
    [1, 1_000_000, 3],
    // The length of each record stands in its own chunk of the file.
    [8, 100_000, 2 + 8],
  ])("gives one of %i constants of a .cpb, %i bytes each, in %i requests", async (count, byteLength, most) => {
    const url = server.serve("/model.cpb", await modelOf(count, byteLength));
    const { tensors } = await openTensors(store(), url);
    const at = (count - 1) * byteLength;
    const data = await tensors.data(`constant${count - 1}`);
    expectBytes(await data.read(0, data.size), BYTES.subarray(at, at + byteLength));
    await tensors.close();
    expect(server.requests.every(({ path }) => path === "/model.cpb")).toBe(true);
    expect(server.take().requests).toBeLessThanOrEqual(most);
  });

  it("shows a SavedModel by the address of its directory", async () => {
    server.serve("/tiny/saved_model.pb", readFixture("cpb/models/tiny/saved_model.pb"));
    const { root, close } = await inspect(store(), server.url("/tiny/"));
    expect(root.facts).toMatchObject({ type: "SavedModel", metaGraphCount: 1 });
    await close();
  });

  it("gives one tensor of a sharded safetensors model in 2 requests when its shard is small", async () => {
    for (const name of [
      "model.safetensors.index.json",
      "model-00001-of-00003.safetensors",
      "model-00002-of-00003.safetensors",
      "model-00003-of-00003.safetensors",
    ]) {
      server.serve(`/hub/${name}`, readFixture(`safetensors/sharded/${name}`));
    }
    const files = store();
    const model = await openSafetensors(server.url("/hub/model.safetensors.index.json"), { files });
    const data = await model.data("layer.1.weight");
    await data.read(0, data.size);
    expect(server.take().requests).toBe(2);
    await model.close();
    expect(await verify(files, server.url("/hub/"))).toMatchObject({ ok: true });
  });

  it("gives a region of one tensor of a large file in 2 requests", async () => {
    const header = '{"a":{"dtype":"U8","shape":[1000,2000],"data_offsets":[0,2000000]}}';
    const bytes = new Uint8Array(8 + header.length + 2_000_000);
    new DataView(bytes.buffer).setUint32(0, header.length, true);
    bytes.set(new TextEncoder().encode(header), 8);
    bytes.set(BYTES.subarray(0, 2_000_000), 8 + header.length);
    const model = await openSafetensors(server.serve("/big.safetensors", bytes), { files: store() });
    const rows = await model.data("a", [
      { start: 700, end: 710 },
      { start: 0, end: 2000 },
    ]);
    expectBytes(await rows.read(0, rows.size), BYTES.subarray(1_400_000, 1_420_000));
    const { requests, bytes: count } = server.take();
    expect(requests).toBe(2);
    expect(count).toBeLessThanOrEqual(65_536 * 3);
    await model.close();
  });
});
