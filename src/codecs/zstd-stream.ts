import type { ByteStream } from "./compression.js";
import { ZstdFrameEnd } from "./zstd-frame.js";

/** Decompresses one Zstandard frame in JavaScript, for platforms that have no streams of it. */
export async function* decompressZstdStream(chunks: ByteStream): ByteStream {
  const { Decompress } = await import("fzstd");
  let outputs: Uint8Array[] = [];
  const stream = new Decompress((output) => outputs.push(output));
  for await (const chunk of oneZstdFrame(chunks)) {
    stream.push(new Uint8Array(chunk));
    yield* outputs;
    outputs = [];
  }
  stream.push(new Uint8Array(0), true);
  yield* outputs;
}

/** Passes chunks on as long as they belong to one frame. @throws CorruptionError (`decompression`) for more or less */
export async function* oneZstdFrame(chunks: ByteStream): ByteStream {
  const frame = new ZstdFrameEnd();
  for await (const chunk of chunks) {
    frame.take(chunk);
    yield chunk;
  }
  frame.finish();
}
