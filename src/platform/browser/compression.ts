import type { BrotliDecStream } from "brotli-dec-wasm/web";
import { concatBytes } from "../../bytes/byte-sink.js";
import type { ByteStream, Codec, CompressionType } from "../../codecs/compression.js";
import { loadSnappy } from "../../codecs/snappy-codec.js";
import { decompressZstdStream } from "../../codecs/zstd-stream.js";
import { UnsupportedError } from "../../errors.js";
import { loadBrotliDecoder } from "./brotli-wasm.js";

/**
 * Loads the codec of a compression type for browsers. Brotli and Zstd are read there and not written.
 * @throws {@link UnsupportedError} (`unsupported-compression`) when the WebAssembly of Brotli does not load
 */
export async function loadPlatformCodec(type: Exclude<CompressionType, "none">): Promise<Codec> {
  if (type === "snappy") return loadSnappy();
  if (type === "zstd") return readingCodec("Zstd", decompressZstdStream);
  const Decoder = await loadBrotliDecoder().catch((cause: unknown) => {
    throw new UnsupportedError("unsupported-compression", "the WebAssembly of Brotli does not load", {
      cause,
      hint: "Serve brotli_dec_wasm_bg.wasm beside the script, or say with useBrotliWasm() where it is.",
    });
  });
  return readingCodec("Brotli", (chunks) => decompressBrotliStream(Decoder, chunks));
}

/** A codec that decompresses only, by its stream. */
function readingCodec(name: string, decompressStream: (chunks: ByteStream) => ByteStream): Codec {
  return {
    async compress() {
      throw new UnsupportedError("unsupported-compression", `${name} cannot be written in a browser`, {
        hint: "Write with the compression snappy or none.",
      });
    },
    async decompress(bytes, decodedSize) {
      const pieces: Uint8Array[] = [];
      let size = 0;
      for await (const piece of decompressStream(once(bytes))) {
        size += piece.length;
        if (size > decodedSize) throw new RangeError(`more than the announced ${decodedSize} bytes`);
        pieces.push(piece);
      }
      return concatBytes(pieces);
    },
    decompressStream,
  };
}

async function* once(bytes: Uint8Array): ByteStream {
  yield bytes;
}

/** Bytes that the decoder is given at a time: they are copied into its memory at each call, 64 KiB. */
const INPUT_BYTES = 64 * 1024;
/** Bytes that it gives at a time, 256 KiB. */
const OUTPUT_BYTES = 256 * 1024;
/** Result codes of the decoder. Source: brotli-dec-wasm, BrotliStreamResultCode. */
const RESULT = { success: 1, needsMoreInput: 2 } as const;

async function* decompressBrotliStream(Decoder: new () => BrotliDecStream, chunks: ByteStream): ByteStream {
  const stream = new Decoder();
  let isDone = false;
  try {
    for await (const chunk of chunks) {
      let at = 0;
      while (!isDone || at < chunk.length) {
        if (isDone) throw new RangeError("bytes behind the end of the compressed stream");
        const result = stream.dec(chunk.subarray(at, at + INPUT_BYTES), OUTPUT_BYTES);
        const { buf, code, input_offset: consumed } = result;
        result.free();
        at += consumed;
        if (buf.length > 0) yield buf;
        isDone = code === RESULT.success;
        if (at === chunk.length && code === RESULT.needsMoreInput) break;
      }
    }
  } finally {
    stream.free();
  }
  if (!isDone) throw new RangeError("the compressed stream ends early");
}
