import { InvalidArgumentError } from "commander";
import { isCairnError, UsageError } from "../errors.js";

const UNITS: Record<string, number> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
};

/**
 * Parses a size such as `500MB`, `64MiB` or `1000`, in bytes.
 * @throws {@link UsageError} (`usage`)
 */
export function parseSize(text: string): number {
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text) ?? [];
  const factor = UNITS[(unit ?? "?").toLowerCase()];
  const size = Math.floor(Number(number) * (factor ?? Number.NaN));
  if (size >= 1 && Number.isSafeInteger(size)) return size;
  throw new UsageError("usage", `size "${text}"`, {
    hint: "A size looks like 500MB, 64MiB or 1000, and is at least 1 byte.",
  });
}

/** {@link parseSize} for an argument of the command line. */
export function sizeArgument(text: string): number {
  try {
    return parseSize(text);
  } catch (error) {
    if (isCairnError(error)) throw new InvalidArgumentError(error.hint ?? error.message);
    throw error;
  }
}
