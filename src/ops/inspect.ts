import type { FileStore } from "../bytes/file-store.js";
import type { ByteRange, Detection, Fact, Format, Outline, OutlineNode } from "../formats/format.js";
import { detectFormat } from "../formats/registry.js";

/** What {@link inspect} gives. Close the outline in the end. */
export interface Inspection extends Outline {
  readonly detection: Detection;
}

/**
 * Looks into whatever a path holds.
 * @throws NotFoundError (`not-found`), UnsupportedError (`unknown-format`), and what damaged files give
 */
export async function inspect(files: FileStore, path: string, formats?: readonly Format[]): Promise<Inspection> {
  const { format, detection } = await detectFormat(files, path, formats);
  return { detection, ...(await format.outline(detection)) };
}

/** An outline as JSON has it. */
export interface OutlineJson {
  readonly label: string;
  readonly kind: string;
  readonly detail?: string;
  readonly facts?: Readonly<Record<string, Fact>>;
  readonly range?: ByteRange;
  readonly children?: readonly OutlineJson[];
}

/** An outline down to a depth, for `--json`. The root is depth 0. */
export async function outlineToJson(node: OutlineNode, depth: number): Promise<OutlineJson> {
  const { label, kind, detail, facts, range, children } = node;
  return {
    label,
    kind,
    ...(detail === undefined ? {} : { detail }),
    ...(facts === undefined ? {} : { facts }),
    ...(range === undefined ? {} : { range }),
    ...(children === undefined || depth === 0
      ? {}
      : { children: await Promise.all((await children()).map((child) => outlineToJson(child, depth - 1))) }),
  };
}
