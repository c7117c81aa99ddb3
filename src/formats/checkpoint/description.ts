import type { FileStore } from "../../bytes/file-store.js";
import { CairnError, isCairnError, LimitError } from "../../errors.js";
import { MAX_STATE_FILE_BYTES } from "../../limits.js";
import { parseSidecar, type ShardingSidecar } from "../../sharding/sidecar.js";
import { descriptionPath } from "./bundle-paths.js";

/** The text of a small file, or undefined when there is none. @throws LimitError (`limit`) */
export async function readIfThere(files: FileStore, path: string): Promise<string | undefined> {
  try {
    const source = await files.open(path);
    try {
      if (source.size <= MAX_STATE_FILE_BYTES) return new TextDecoder().decode(await source.read(0, source.size));
      const details = { file: path, expected: `at most ${MAX_STATE_FILE_BYTES} bytes`, actual: source.size };
      throw new LimitError("limit", "a text beside a checkpoint", details);
    } finally {
      await source.close();
    }
  } catch (error) {
    if (isCairnError(error, "not-found")) return undefined;
    throw error;
  }
}

/** How a checkpoint was sharded, where cairn wrote that down and it can be read. */
export async function readDescription(files: FileStore, prefix: string): Promise<ShardingSidecar | undefined> {
  const path = descriptionPath(prefix);
  try {
    const text = await readIfThere(files, path);
    return text === undefined ? undefined : parseSidecar(text, path);
  } catch (error) {
    // It helps people, and must not stand in the way of the tensors.
    if (error instanceof CairnError) return undefined;
    throw error;
  }
}
