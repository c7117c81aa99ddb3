import type { MessageView } from "../../proto/message-view.js";
import { formatShape } from "../../tensor/shape.js";
import type { Fact, OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import { constantFacts } from "./constants.js";
import type { NodeList } from "./graphs.js";
import { type NodeFacts, walkNodes } from "./nodes.js";

/** How many of the largest constants are listed. */
const LARGEST_CONSTANTS = 12;
/** A constant that takes fewer bytes in its node than this is not looked at as one of the largest. */
const SMALLEST_LISTED_BYTES = 512;

interface LargeConstant {
  readonly key: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
}

/** What a graph with its functions holds. */
export interface GraphSummary {
  readonly nodeCount: number;
  readonly functionCount: number;
  readonly functionNodeCount: number;
  /** How often each op occurs, in graph and functions together, most frequent first. */
  readonly ops: readonly (readonly [string, number])[];
  /** The largest constants, largest first. */
  readonly constants: readonly LargeConstant[];
}

/** Goes over all nodes of a graph and its functions. */
export async function summarizeGraph(lists: AsyncIterable<NodeList>, file: string): Promise<GraphSummary> {
  const ops = new Map<string, number>();
  const constants: LargeConstant[] = [];
  let nodeCount = 0;
  let functionCount = 0;
  let functionNodeCount = 0;
  for await (const list of lists) {
    let count = 0;
    await walkNodes(list.view, list.field, (node) => {
      count++;
      ops.set(node.op, (ops.get(node.op) ?? 0) + 1);
      return isListed(node, constants) ? noteConstant(constants, list, node, file) : undefined;
    });
    if (list.functionName === undefined) nodeCount += count;
    else {
      functionCount++;
      functionNodeCount += count;
    }
  }
  const byCount = [...ops].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return { nodeCount, functionCount, functionNodeCount, ops: byCount, constants };
}

function isListed(node: NodeFacts, constants: readonly LargeConstant[]): boolean {
  if (node.op !== "Const") return false;
  const smallest = constants.length < LARGEST_CONSTANTS ? SMALLEST_LISTED_BYTES : (constants.at(-1)?.byteLength ?? 0);
  return node.bytes === undefined || node.byteLength >= smallest;
}

async function noteConstant(constants: LargeConstant[], list: NodeList, node: NodeFacts, file: string): Promise<void> {
  const key = list.keyPrefix + node.name();
  constants.push({ key, ...(await constantFacts(node, key, file)) });
  constants.sort((a, b) => b.byteLength - a.byteLength);
  if (constants.length > LARGEST_CONSTANTS) constants.pop();
}

/** The outline of a summary. */
export function outlineGraph(
  summary: GraphSummary,
  label: string,
  functions: () => Promise<readonly OutlineNode[]>,
): OutlineNode {
  const { nodeCount, functionCount, functionNodeCount, ops, constants } = summary;
  const inFunctions =
    functionCount === 0
      ? ""
      : `, ${formatCount(functionCount, "function")} with ${formatCount(functionNodeCount, "node")}`;
  return {
    label,
    kind: "graph",
    detail: `${formatCount(nodeCount, "node")}${inFunctions}, ${formatCount(ops.length, "op type")}`,
    facts: { nodeCount, functionCount, functionNodeCount, ops: Object.fromEntries(ops) as Record<string, Fact> },
    children: async () => [
      { label: "ops", kind: "ops", detail: listOps(ops) },
      ...(constants.length === 0 ? [] : [outlineConstants(constants)]),
      ...(functionCount === 0
        ? []
        : [
            {
              label: "functions",
              kind: "functions",
              detail: formatCount(functionCount, "function"),
              children: functions,
            },
          ]),
    ],
  };
}

function listOps(ops: GraphSummary["ops"]): string {
  const listed = ops.slice(0, 12).map(([op, count]) => `${op} ${count.toLocaleString("en-US")}`);
  return listed.join(", ") + (ops.length > 12 ? `, and ${ops.length - 12} more` : "");
}

function outlineConstants(constants: readonly LargeConstant[]): OutlineNode {
  return {
    label: "largest constants",
    kind: "constants",
    children: async () =>
      constants.map(({ key, dtype, shape, byteLength }) => ({
        label: key,
        kind: "constant",
        detail: `${dtype} ${formatShape(shape)} ${formatBytes(byteLength)}`,
        facts: { key, dtype, shape: [...shape], byteLength },
      })),
  };
}

/** The nodes of one function, counted, for its line in the outline. */
export async function outlineFunction(view: MessageView, name: string, field: number): Promise<OutlineNode> {
  const list = await view.open();
  const count = list.count(field);
  return { label: name, kind: "function", detail: `${count} nodes`, facts: { nodeCount: count } };
}
