import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sidePath } from "../../formats/elasticdl/names.js";

/** Where the processes of a training write their logs: where it is said, beside the checkpoint directory, or a new temporary folder. */
export function trainingLogDir(logDir: string | undefined, checkpointDir: string | undefined): string {
  if (logDir !== undefined) return logDir;
  if (checkpointDir !== undefined) return join(sidePath(checkpointDir), "logs");
  return mkdtempSync(join(tmpdir(), "cairn-train-"));
}
