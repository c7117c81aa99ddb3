import type { OutlineNode } from "../formats/format.js";
import type { Terminal } from "./terminal.js";
import { wrapText } from "./wrap.js";

/** Labels are padded to those of their neighbours, up to this width. */
const MAX_LABEL_WIDTH = 44;

/** How an outline is printed. */
export interface TreeOptions {
  /** Levels below the root. */
  readonly depth: number;
  /** How many nodes of one level are shown before the rest is only counted. */
  readonly breadth: number;
  /** Columns of the terminal, into which lines are broken; not at all when it is infinite. */
  readonly width: number;
}

/** Prints an outline as a tree. */
export async function printTree(root: OutlineNode, options: TreeOptions, terminal: Terminal): Promise<void> {
  const { label, detail = "" } = root;
  const lines = wrapText(`${label}  ${detail}${rangeText(root)}`.trimEnd(), options.width, options.width, 2);
  terminal.print(`${terminal.style("bold", label)}${(lines[0] ?? "").slice(label.length)}`);
  for (const line of lines.slice(1)) terminal.print(`  ${line}`);
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
  const widthOf = (texts: readonly string[]) => Math.max(0, ...texts.map((text) => text.length));
  const labelled = shown.filter(({ detail }) => detail !== undefined);
  const labelWidth = Math.min(MAX_LABEL_WIDTH, widthOf(labelled.map(({ label }) => label)));
  const rangeWidth = widthOf(shown.map(rangeText));
  for (const [i, child] of shown.entries()) {
    const isLast = i === children.length - 1;
    const below = `${indent}${isLast ? "   " : "│  "}`;
    const label = child.detail === undefined ? child.label : child.label.padEnd(labelWidth);
    // Where ranges stand in the middle of a table they are padded; behind what is short they need not be.
    const range = rangeWidth === 0 ? "" : rangeText(child).padEnd(rangeWidth);
    const text = `${range}  ${child.detail ?? ""}`.trimEnd();
    const room = options.width - indent.length - 3;
    const [first = "", ...rest] = wrapText(text, room - label.length, room, 2);
    terminal.print(`${indent}${isLast ? "└─ " : "├─ "}${terminal.style("bold", label)}${first}`.trimEnd());
    const deeper = child.children !== undefined && options.depth > 1 ? "│ " : "  ";
    for (const line of rest) terminal.print(`${below}${deeper}${line}`);
    await printChildren(child, { ...options, depth: options.depth - 1 }, terminal, below);
  }
  if (shown.length < children.length) {
    terminal.print(
      `${indent}└─ ${terminal.style("dim", `… and ${children.length - shown.length} more (--all shows them)`)}`,
    );
  }
}

function rangeText({ range }: OutlineNode): string {
  return range === undefined ? "" : `  [${range.start}, ${range.end})`;
}
