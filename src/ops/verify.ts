import type { FileStore } from "../bytes/file-store.js";
import { type Leftover, leftoversIn } from "../bytes/leftovers.js";
import { baseName, joinPath, parentPath } from "../bytes/path.js";
import { finding } from "../formats/finding.js";
import type { Finding, Format, VerifyEvent, VerifyOptions } from "../formats/format.js";
import { detectFormat } from "../formats/registry.js";

/** A part that was found good. */
export interface GoodPart {
  readonly what: string;
  readonly byteLength: number;
}

/** What {@link verify} found in all. */
export interface VerifyReport {
  /** Whether there is no finding that is an error. */
  readonly ok: boolean;
  readonly format: string;
  readonly findings: readonly Finding[];
  readonly good: readonly GoodPart[];
}

/** Options of {@link verify}. */
export interface VerifyReportOptions extends VerifyOptions {
  /** Formats to try instead of all that cairn has. */
  readonly formats?: readonly Format[] | undefined;
  /** Called with what is found, as it is found. */
  readonly onEvent?: ((event: VerifyEvent) => void) | undefined;
}

/**
 * Checks all of what a path holds, and goes on after each finding.
 * @throws NotFoundError (`not-found`), UnsupportedError (`unknown-format`)
 */
export async function verify(files: FileStore, path: string, options: VerifyReportOptions = {}): Promise<VerifyReport> {
  const { format, detection } = await detectFormat(files, path, options.formats);
  const findings: Finding[] = [];
  const good: GoodPart[] = [];
  const take = (event: VerifyEvent) => {
    options.onEvent?.(event);
    if (event.kind === "finding") findings.push(event.finding);
    else good.push({ what: event.what, byteLength: event.byteLength });
  };
  for await (const event of format.verify(detection, options)) take(event);
  for (const leftover of await leftoversOf(files, path)) {
    if (findings.some(({ file }) => file === leftover.path)) continue;
    const message = "left by a crash, or somebody is writing it now";
    take(finding("warning", "orphan-file", message, { file: leftover.path }));
  }
  return { ok: findings.every(({ severity }) => severity !== "error"), format: detection.format, findings, good };
}

/** What a crash left of a path: beside it, in it, and in the directory beside a training. */
async function leftoversOf(files: FileStore, path: string): Promise<Leftover[]> {
  const name = baseName(path);
  const beside = (await leftoversIn(files, parentPath(path))).filter(
    (one) => one.name === name || one.name.startsWith(`${name}.`),
  );
  const side = joinPath(parentPath(path), `${name}.cairn`);
  const within = await Promise.all([path, side, joinPath(side, "staging")].map((at) => leftoversIn(files, at)));
  return [...beside, ...within.flat()];
}
