import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import zlib from "node:zlib";
import type { ByteStream, Codec, CompressionType } from "../../codecs/compression.js";
import { loadSnappy } from "../../codecs/snappy-codec.js";
import { ZstdFrameEnd } from "../../codecs/zstd-frame.js";
import { decompressZstdStream, oneZstdFrame } from "../../codecs/zstd-stream.js";
import { MAX_IN_MEMORY_BYTES } from "../../limits.js";

/** Loads the codec of a compression type for Node. */
export async function loadPlatformCodec(type: Exclude<CompressionType, "none">): Promise<Codec> {
  if (type === "brotli") return brotli;
  if (type === "snappy") return loadSnappy();
  return "createZstdDecompress" in zlib ? nativeZstd() : loadZstd();
}

/** Quality of Brotli where none is asked for: Riegeli's own default. */
const BROTLI_QUALITY = 6;
/** Below this a worker thread costs more than it saves. */
const SYNC_BYTES = 32 * 1024;
const STREAM_CHUNK_BYTES = 256 * 1024;
/** The smallest output buffer that zlib accepts. */
const MIN_OUTPUT_BYTES = 64;

const brotliCompress = promisify<zlib.InputType, zlib.BrotliOptions, Buffer>(zlib.brotliCompress);
const brotliDecompress = promisify<zlib.InputType, zlib.BrotliOptions, unknown>(zlib.brotliDecompress);

const brotli: Codec = {
  async compress(bytes, level = BROTLI_QUALITY) {
    const options = brotliOptions(level, bytes.length);
    return plain(
      bytes.length < SYNC_BYTES ? zlib.brotliCompressSync(bytes, options) : await brotliCompress(bytes, options),
    );
  },
  async decompress(bytes, decodedSize) {
    // One byte more than announced, so that a longer stream shows itself.
    const options = {
      maxOutputLength: decodedSize + 1,
      // All in one buffer: gathered in small ones, it would be in memory twice.
      chunkSize: Math.max(MIN_OUTPUT_BYTES, Math.min(decodedSize + 1, MAX_IN_MEMORY_BYTES)),
      info: true,
      params: { [zlib.constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 1 },
    };
    const result =
      bytes.length < SYNC_BYTES ? zlib.brotliDecompressSync(bytes, options) : await brotliDecompress(bytes, options);
    const { buffer, engine } = result as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
    checkConsumed(engine.bytesWritten, bytes.length);
    return plain(buffer);
  },
  compressStream(chunks, size, level = BROTLI_QUALITY) {
    const options = { ...brotliOptions(level, size), chunkSize: STREAM_CHUNK_BYTES };
    return transform(zlib.createBrotliCompress(options), chunks);
  },
  decompressStream(chunks) {
    const params = { [zlib.constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 1 };
    return transform(zlib.createBrotliDecompress({ chunkSize: STREAM_CHUNK_BYTES, params }), chunks);
  },
};

function brotliOptions(level: number, size: number): zlib.BrotliOptions {
  return {
    params: {
      [zlib.constants.BROTLI_PARAM_QUALITY]: level,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: Math.min(size, 2 ** 30),
    },
  };
}

/** Node's zstd, from 22.15 on. Its types are not in the declarations of Node 20. */
interface ZstdZlib {
  createZstdCompress(options: object): zlib.BrotliCompress;
  createZstdDecompress(options: object): zlib.BrotliDecompress;
  zstdCompressSync(bytes: Uint8Array, options: object): Buffer;
  zstdDecompressSync(bytes: Uint8Array, options: object): unknown;
  constants: { ZSTD_c_compressionLevel: number };
}

const ZSTD_LEVEL = 3;

function nativeZstd(): Codec {
  const zstd = zlib as unknown as ZstdZlib;
  const params = (level: number) => ({ [zstd.constants.ZSTD_c_compressionLevel]: level });
  return {
    async compress(bytes, level = ZSTD_LEVEL) {
      return plain(zstd.zstdCompressSync(bytes, { params: params(level) }));
    },
    async decompress(bytes, decodedSize) {
      checkOneFrame(bytes);
      const result = zstd.zstdDecompressSync(bytes, { maxOutputLength: decodedSize + 1, info: true });
      const { buffer, engine } = result as { buffer: Buffer; engine: { bytesWritten: number } };
      checkConsumed(engine.bytesWritten, bytes.length);
      return plain(buffer);
    },
    compressStream(chunks, size, level = ZSTD_LEVEL) {
      const options = { params: params(level), pledgedSrcSize: size, chunkSize: STREAM_CHUNK_BYTES };
      return transform(zstd.createZstdCompress(options), chunks);
    },
    decompressStream(chunks) {
      return transform(zstd.createZstdDecompress({ chunkSize: STREAM_CHUNK_BYTES }), oneZstdFrame(chunks));
    },
  };
}

function checkOneFrame(bytes: Uint8Array): void {
  const frame = new ZstdFrameEnd();
  frame.take(bytes);
  frame.finish();
}

async function loadZstd(): Promise<Codec> {
  const { default: wasm } = await import("@foxglove/wasm-zstd");
  await wasm.isLoaded;
  return {
    async compress(bytes, level = ZSTD_LEVEL) {
      return plain(wasm.compress(bytes, level));
    },
    async decompress(bytes, decodedSize) {
      if (decodedSize > MAX_IN_MEMORY_BYTES) throw new RangeError("too large for one buffer");
      checkOneFrame(bytes);
      return plain(wasm.decompress(bytes, decodedSize));
    },
    decompressStream: decompressZstdStream,
  };
}

/** Runs a zlib stream over chunks, which are copied, since the stream may keep them while the next one is read. */
async function* transform(stream: zlib.BrotliCompress | zlib.BrotliDecompress, chunks: ByteStream): ByteStream {
  let fed = 0;
  async function* copies(): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      fed += chunk.length;
      yield Buffer.from(chunk);
    }
  }
  const feeding = pipeline(Readable.from(copies(), { highWaterMark: 1 }), stream);
  feeding.catch(() => {}); // thrown below, where the stream is read
  try {
    for await (const output of stream) yield plain(output as Buffer);
    await feeding;
    checkConsumed(stream.bytesWritten, fed);
  } finally {
    stream.destroy();
  }
}

/** The bytes of a Buffer as a plain array: Buffer's own `slice` and `toString` would surprise a caller. */
function plain(buffer: Uint8Array): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

function checkConsumed(consumed: number, given: number): void {
  if (consumed !== given) throw new RangeError(`compressed stream ends ${given - consumed} bytes early`);
}
