import { CairnError } from "../errors.js";
import type { VerifyEvent } from "./format.js";

/** Something that a check found. */
export function finding(
  severity: "error" | "warning",
  code: string,
  message: string,
  place: { file: string; offset?: number | undefined; key?: string | undefined },
): VerifyEvent {
  return { kind: "finding", finding: { severity, code, message, ...place } };
}

/** An error as a finding; errors of our own code are thrown on. */
export function findingOf(error: unknown, file: string, more?: string, key?: string): VerifyEvent {
  if (!(error instanceof CairnError)) throw error;
  const { expected, actual } = error;
  let message = error.summary;
  if (expected !== undefined) message += `: expected ${expected}`;
  if (actual !== undefined) message += expected === undefined ? `: got ${actual}` : `, got ${actual}`;
  if (more !== undefined) message += `; ${more}`;
  return finding("error", error.code, message, { file: error.file ?? file, offset: error.offset, key });
}
