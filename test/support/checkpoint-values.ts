import { createHash } from "node:crypto";
import type { FileStore } from "../../src/bytes/file-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";

/** The SHA-256 of each tensor of a checkpoint. */
export async function tensorsOf(files: FileStore, prefix: string): Promise<Map<string, string>> {
  const reader = await openCheckpoint(prefix, { files });
  try {
    const found = new Map<string, string>();
    for await (const { key } of reader.tensors()) {
      const data = await reader.data(key);
      found.set(
        key,
        createHash("sha256")
          .update(await data.read(0, data.size))
          .digest("hex"),
      );
    }
    await reader.verify();
    return found;
  } finally {
    await reader.close();
  }
}
