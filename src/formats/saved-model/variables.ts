import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";
import { formatShape } from "../../tensor/shape.js";
import type { TensorInfo } from "../../tensor/tensor-source.js";
import { indexPath } from "../checkpoint/bundle-paths.js";
import { type CheckpointReader, openCheckpoint } from "../checkpoint/checkpoint-reader.js";
import type { OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";

/** Where the variables of a SavedModel are. Source: tensorflow/cc/saved_model/constants.h, kSavedModelVariablesDirectory. */
export const VARIABLES_DIRECTORY = "variables";
/** Of a SavedModel, what its graph and its variables are known by. Source: same file, kFingerprintFilenamePb. */
export const FINGERPRINT_FILE = "fingerprint.pb";

/** The prefix of the checkpoint with the variables of a SavedModel. Source: same file, kSavedModelVariablesFilename. */
export function variablesPrefix(directory: string): string {
  return joinPath(directory, VARIABLES_DIRECTORY, "variables");
}

/** Opens the variables of a SavedModel; undefined when it has none. @throws As `openCheckpoint` does */
export async function openVariables(files: FileStore, directory: string): Promise<CheckpointReader | undefined> {
  const prefix = variablesPrefix(directory);
  if ((await files.stat(indexPath(prefix)))?.kind !== "file") return undefined;
  return openCheckpoint(prefix, { files });
}

/** The variables in an outline, by the paths of their objects; nothing when there are none. */
export async function outlineVariables(files: FileStore, directory: string): Promise<OutlineNode[]> {
  let reader: CheckpointReader | undefined;
  try {
    reader = await openVariables(files, directory);
    const variables: TensorInfo[] = [];
    for await (const info of reader?.tensors() ?? []) if (info.role !== "structure") variables.push(info);
    if (variables.length === 0) return [];
    const byteLength = variables.reduce((sum, variable) => sum + variable.byteLength, 0);
    return [
      {
        label: VARIABLES_DIRECTORY,
        kind: "variables",
        detail: `${formatCount(variables.length, "variable")}, ${formatBytes(byteLength)}`,
        facts: { variableCount: variables.length, byteLength },
        children: async () => variables.map(outlineVariable),
      },
    ];
  } catch (error) {
    // The rest of the model can be shown all the same.
    if (error instanceof CairnError) return [{ label: VARIABLES_DIRECTORY, kind: "damage", detail: error.message }];
    throw error;
  } finally {
    await reader?.close();
  }
}

function outlineVariable({ key, name, dtype, shape, byteLength, facts }: TensorInfo): OutlineNode {
  return {
    label: name ?? key,
    kind: "variable",
    detail: `${dtype} ${formatShape(shape)}, ${formatBytes(byteLength)}`,
    facts: { key, dtype, shape: [...shape], byteLength, ...facts },
  };
}
