import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { formatShape } from "../../tensor/shape.js";
import type { Detection, Fact, Outline, OutlineNode } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import type { DirectoryVersion } from "../versioned-directory.js";
import { locate } from "./locate.js";
import type { EmbeddingTable, TrainingState } from "./model-contents.js";
import { isEmptyState } from "./model-contents.js";
import { VersionContents } from "./version-contents.js";
import { TrainingDirectory } from "./versioned.js";
import { findProblem, formatProblem, type ListedVersion, listVersion } from "./versions.js";

/** What is in a training checkpoint, for people. Names and heads are read, no element. */
export async function outlineTraining({ files, path, description }: Detection): Promise<Outline> {
  const located = await locate(files, path);
  const open: VersionContents[] = [];
  const opened = async (paths: readonly string[]) => {
    const contents = await VersionContents.open(files, paths);
    open.push(contents);
    return contents;
  };
  const close = async () => {
    for (const contents of open.splice(0)) await contents.close();
  };
  if (located?.kind === "root") return { root: await outlineRoot(files, path, description, opened), close };
  const info = located?.info ?? { path, kind: "file" as const, size: 0 };
  const version = await listVersion(files, info);
  const problem = await findProblem(files, version, { quick: true });
  const facts = { version: version.modelVersion ?? null, isComplete: problem === undefined };
  const reason = problem === undefined ? undefined : formatProblem(problem, version.path);
  const detail = reason === undefined ? description : `${description}, not complete: ${reason}`;
  const children = () => outlineVersion(version, opened);
  return { root: { label: path, kind: located?.kind ?? "shard", detail, facts, children }, close };
}

type Open = (paths: readonly string[]) => Promise<VersionContents>;

async function outlineRoot(files: FileStore, path: string, description: string, open: Open): Promise<OutlineNode> {
  const directory = new TrainingDirectory(files, path);
  const { versions, skipped } = await directory.list({ quick: true });
  const { best, metric } = await directory.best({ quick: true });
  const latest = [...versions].reverse().find(({ isComplete }) => isComplete);
  const complete = versions.filter(({ isComplete }) => isComplete).length;
  const detail = `${description}, ${formatCount(versions.length, "version")}, ${complete} complete`;
  const children: OutlineNode[] = versions.map((version) => ({
    label: baseName(version.path),
    kind: "version",
    detail: describeVersion(version),
    facts: versionFacts(version),
    children: async () => {
      const info = await files.stat(version.path);
      return info === undefined ? [] : outlineVersion(await listVersion(files, info), open);
    },
  }));
  for (const stray of skipped) children.push({ label: baseName(stray.path), kind: "stray", detail: stray.reason });
  const facts = { latest: latest?.version ?? null, best: best?.version ?? null, metric: metric ?? null };
  return { label: path, kind: "training", detail, facts, children: async () => children };
}

function describeVersion({ isComplete, reason, shards, byteLength, metrics }: DirectoryVersion): string {
  const parts = [
    isComplete ? "complete" : `not complete: ${reason}`,
    formatCount(shards, "shard"),
    formatBytes(byteLength),
  ];
  for (const [name, value] of Object.entries(metrics ?? {})) parts.push(`${name} ${value}`);
  return parts.join(", ");
}

function versionFacts({ version, isComplete, reason, shards, byteLength, metrics }: DirectoryVersion) {
  const facts: Record<string, Fact> = { version, isComplete, shards, byteLength };
  if (reason !== undefined) facts.reason = reason;
  if (metrics !== undefined) facts.metrics = metrics;
  return facts;
}

/** The tables, variables and shards of a version; of one that lacks shards, what is there. */
async function outlineVersion(version: ListedVersion, open: Open): Promise<OutlineNode[]> {
  if (version.shards.length === 0) return [];
  const contents = await open(version.shards.map(({ path }) => path));
  const nodes: OutlineNode[] = contents.tables.map(outlineTable);
  for (const { name, dtype, shape, shard, slots } of contents.dense) {
    const detail = `${dtype} ${formatShape(shape)}${slots.size === 0 ? "" : `, slots ${[...slots.keys()].join(", ")}`}`;
    const facts = { dtype, shape, shard: shard ?? null, slots: [...slots.keys()] };
    nodes.push({ label: name, kind: "variable", detail, facts });
  }
  for (const [i, { path, byteLength, catalog, hasChecksums }] of contents.shards.entries()) {
    const detail = `${formatBytes(byteLength)}, ${hasChecksums ? "with" : "without"} checksums`;
    const facts: Record<string, Fact> = { byteLength, modelVersion: catalog.modelVersion, hasChecksums };
    const state = contents.states[i];
    if (state !== undefined && !isEmptyState(state)) facts.state = stateFact(state);
    nodes.push({
      label: baseName(path),
      kind: "shard",
      detail,
      facts,
      range: { file: path, start: 0, end: byteLength },
    });
  }
  return nodes;
}

function outlineTable({ name, dim, dtype, initializer, parts, slots }: EmbeddingTable): OutlineNode {
  const rows = parts.reduce((sum, { rowCount }) => sum + rowCount, 0);
  const own = slots.map((slot) => slot.name);
  const detail = [
    `embedding table, ${formatCount(rows, "row")} of ${dim} × ${dtype}`,
    ...(initializer === "" ? [] : [`initializer ${initializer}`]),
    ...(own.length === 0 ? [] : [`slots ${own.join(", ")}`]),
  ].join(", ");
  return { label: name, kind: "embedding", detail, facts: { dtype, dim, rows, initializer, slots: own } };
}

function stateFact({ integers, numbers, texts }: TrainingState): Fact {
  const counts = Array.from(integers, ([name, value]) => [name, String(value)] as const);
  return { ...Object.fromEntries(counts), ...Object.fromEntries(numbers), ...Object.fromEntries(texts) };
}
