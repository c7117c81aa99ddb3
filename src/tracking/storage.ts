import type { FileStore } from "../bytes/file-store.js";
import { NotFoundError } from "../errors.js";
import { openCheckpoint } from "../formats/checkpoint/checkpoint-reader.js";
import { decodeObjectGraph, type ObjectGraph } from "../proto/object-graph.js";
import { OBJECT_GRAPH_KEY } from "./object-path.js";
import type { CheckpointTensors } from "./restoration.js";
import { decodeStrings } from "./snapshot.js";
import type { TensorValue } from "./trackable.js";

/** Opens the tensors of a checkpoint. @throws As `openCheckpoint` does */
export async function openTensors(files: FileStore, prefix: string): Promise<CheckpointTensors> {
  const reader = await openCheckpoint(prefix, { files });
  return {
    path: prefix,
    tensors: () => reader.tensors(),
    info: (key) => reader.info(key),
    data: (key, region) => reader.data(key, region),
    verify: () => reader.verify(),
    close: () => reader.close(),
    async *readAll(keys) {
      for await (const { info, bytes } of reader.readAll({ filter: ({ key }) => keys.has(key) })) {
        const value: TensorValue = { dtype: info.dtype, shape: info.shape, bytes };
        yield { key: info.key, value };
      }
    },
  };
}

/**
 * The object graph of a checkpoint.
 * @throws {@link NotFoundError} (`no-such-key`) when it was not written by objects; CorruptionError (`object-graph`)
 */
export async function readGraph(tensors: CheckpointTensors): Promise<ObjectGraph> {
  const data = await tensors.data(OBJECT_GRAPH_KEY).catch((cause) => {
    if (!(cause instanceof NotFoundError)) throw cause;
    throw new NotFoundError("no-such-key", "the checkpoint has no object graph: it was saved by names", {
      file: tensors.path,
      cause,
      hint: "Read its tensors with openCheckpoint.",
    });
  });
  const bytes = await data.read(0, data.size);
  await tensors.verify();
  return decodeObjectGraph(decodeStrings(bytes, tensors.path)[0] ?? new Uint8Array(), tensors.path);
}
