import { createSha256 } from "#hashing";
import type { ByteSource } from "../bytes/byte-source.js";
import { type CopyOptions, readInOrder } from "../bytes/copy-source.js";

/** The SHA-256 of all bytes of a source, in hex. */
export async function sha256Of(source: ByteSource, options?: CopyOptions): Promise<string> {
  const hash = await createSha256();
  await readInOrder(
    source,
    (pieces) => {
      for (const piece of pieces) hash.update(piece);
    },
    options,
  );
  return hash.hex();
}
