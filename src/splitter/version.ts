import { UnsupportedError } from "../errors.js";
import type { VersionDef } from "../proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";

/**
 * The version of the splitter, for information only; what TensorFlow 2.18 writes.
 * Source: tensorflow/tools/proto_splitter/cc/composable_splitter_base.cc.
 */
export const SPLITTER_VERSION = 1;

/** The version of the merger: what TensorFlow's own files ask for. A file that asks for more may need rules we lack. */
export const MERGER_VERSION = 0;

/**
 * The join version of what goes beyond TensorFlow's files: chunks in other files, and a tree of chunks that is itself
 * chunked. Join versions in between are refused.
 */
export const EXTENDED_JOIN_VERSION = 1000;

/**
 * Checks that this merger may read a file.
 * @throws {@link UnsupportedError} (`unsupported-version`)
 */
export function checkVersion(version: VersionDef | undefined, file: string): void {
  const joinVersion = version?.joinVersion ?? 0;
  const isKnown = joinVersion <= MERGER_VERSION || joinVersion === EXTENDED_JOIN_VERSION;
  const refused = version?.badConsumers.includes(MERGER_VERSION) ?? false;
  if (isKnown && !refused) return;
  const needs = isKnown
    ? `it lists version ${MERGER_VERSION} among its bad consumers`
    : `a merger of version ${joinVersion}`;
  throw new UnsupportedError("unsupported-version", "the chunked proto needs another merger", {
    file,
    expected: needs,
    actual: `versions ${MERGER_VERSION} and ${EXTENDED_JOIN_VERSION}`,
    hint: "Update cairn, or write the file again with an older splitter. To read it as TensorFlow does, which does not look at versions, pass --ignore-version.",
  });
}
