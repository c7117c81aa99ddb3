import type { OutlineNode } from "../formats/format.js";
import type { Terminal } from "./terminal.js";

/** Labels are padded to those of their neighbours, up to this width. */
const MAX_LABEL_WIDTH = 44;

/** How an outline is printed. */
export interface TreeOptions {
  /** Levels below the root. */
  readonly depth: number;
  /** How many nodes of one level are shown before the rest is only counted. */
  readonly breadth: number;
}

/** Prints an outline as a tree. */
export async function printTree(root: OutlineNode, options: TreeOptions, terminal: Terminal): Promise<void> {
  terminal.print(`${terminal.style("bold", root.label)}  ${root.detail ?? ""}${rangeText(root, terminal)}`);
  await printChildren(root, options, terminal, "");
}

async function printChildren(
  node: OutlineNode,
  options: TreeOptions,
  terminal: Terminal,
  indent: string,
): Promise<void> {
  if (options.depth === 0 || node.children === undefined) return;
  const children = await node.children();
  const shown = children.slice(0, children.length <= options.breadth + 1 ? children.length : options.breadth);
  const width = Math.min(
    MAX_LABEL_WIDTH,
    Math.max(0, ...shown.map(({ label, detail }) => (detail === undefined ? 0 : label.length))),
  );
  for (const [i, child] of shown.entries()) {
    const isLast = i === children.length - 1;
    const label = child.detail === undefined ? child.label : child.label.padEnd(width);
    const line = `${indent}${isLast ? "└─ " : "├─ "}${terminal.style("bold", label)}  ${child.detail ?? ""}`;
    terminal.print(`${line.trimEnd()}${rangeText(child, terminal)}`);
    await printChildren(
      child,
      { ...options, depth: options.depth - 1 },
      terminal,
      `${indent}${isLast ? "   " : "│  "}`,
    );
  }
  if (shown.length < children.length) {
    terminal.print(
      `${indent}└─ ${terminal.style("dim", `… and ${children.length - shown.length} more (--all shows them)`)}`,
    );
  }
}

function rangeText({ range }: OutlineNode, terminal: Terminal): string {
  return range === undefined ? "" : terminal.style("dim", `  [${range.start}, ${range.end})`);
}
