import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { sidePath } from "./names.js";

/** Which versions still wait for their evaluation: retention leaves them alone. */
export interface PendingEvaluation {
  /** Every so many versions one is evaluated. */
  readonly evaluationSteps: number;
  /** Versions up to this one have been. */
  readonly evaluatedThrough: number;
}

/** Where a checkpoint directory's is, beside it. */
export function pendingEvaluationPath(root: string): string {
  return joinPath(sidePath(root), "evaluation.json");
}

/** Reads which versions wait; undefined when none does, or it cannot be told. */
export async function readPendingEvaluation(files: FileStore, root: string): Promise<PendingEvaluation | undefined> {
  try {
    const path = pendingEvaluationPath(root);
    if ((await files.stat(path))?.kind !== "file") return undefined;
    const source = await files.open(path);
    try {
      // Two numbers: what is longer is something else.
      if (source.size > 1000) return undefined;
      const value = JSON.parse(
        new TextDecoder().decode(await source.read(0, source.size)),
      ) as Partial<PendingEvaluation>;
      const { evaluationSteps, evaluatedThrough } = value;
      if (!Number.isSafeInteger(evaluationSteps) || !Number.isSafeInteger(evaluatedThrough)) return undefined;
      return value as PendingEvaluation;
    } finally {
      await source.close();
    }
  } catch {
    return undefined;
  }
}

/** Whether a version waits for its evaluation. */
export function isPending(modelVersion: number, pending: PendingEvaluation | undefined): boolean {
  if (pending === undefined || pending.evaluationSteps <= 0) return false;
  return modelVersion > pending.evaluatedThrough && modelVersion % pending.evaluationSteps === 0;
}
