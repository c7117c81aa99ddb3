import { Command } from "commander";
import type { Finding } from "../../formats/format.js";
import { runCommand } from "../run.js";
import { type CommonOptions, EXIT, type Terminal } from "../terminal.js";

/** Good parts that are shown before the rest is only counted. */
const SHOWN_PARTS = 12;

/** `cairn verify PATH` */
export function verifyCommand(): Command {
  return new Command("verify")
    .summary("check every byte and say exactly what is damaged")
    .description(
      "Checks every checksum and every rule of what a path holds. It goes on after the first finding, and tells what is still good.\nExit code 1 when something is wrong.",
    )
    .argument("<path>", "SavedModel, checkpoint prefix or directory, .pb, .cpb, .pbtxt or Riegeli file")
    .addHelpText("after", "\nExamples:\n  cairn verify my_model\n  cairn verify big.cpb --json")
    .action((path: string, options: CommonOptions) => runCommand(options, (terminal) => run(path, terminal)));
}

async function run(path: string, terminal: Terminal): Promise<number> {
  const { verify } = await import("../../ops/verify.js");
  const { filesFor } = await import("../files.js");
  const { formatBytes, formatCount } = await import("../../formats/text.js");
  const progress = terminal.progress("verify");
  const report = await verify(filesFor(path), path, {
    onBytes: progress.add,
    signal: terminal.signal,
    onEvent: (event) => {
      if (event.kind === "finding") terminal.print(findingLine(event.finding, terminal));
    },
  });
  const { ok, findings, good } = report;
  terminal.json({ ok, format: report.format, findings: findings.map(findingJson), good, path });
  if (findings.length > 0 && good.length > 0) {
    terminal.print("still good:");
    for (const { what, byteLength } of good.slice(0, SHOWN_PARTS))
      terminal.print(`  ${formatBytes(byteLength).padStart(9)}  ${what}`);
    if (good.length > SHOWN_PARTS) terminal.print(`  … and ${good.length - SHOWN_PARTS} more (--json has them all)`);
  }
  const errors = findings.filter(({ severity }) => severity === "error").length;
  const warnings = findings.length - errors;
  const verdict = ok ? terminal.style("green", "good") : terminal.style("red", "damaged");
  const counts = [
    ...(errors > 0 ? [formatCount(errors, "error")] : []),
    ...(warnings > 0 ? [formatCount(warnings, "warning")] : []),
  ];
  const summary =
    counts.length > 0 ? counts.join(", ") : `${formatCount(good.length, "part")} checked to the last byte`;
  terminal.print(`${path}: ${verdict}, ${summary}`);
  return ok ? EXIT.good : EXIT.findings;
}

/** A finding as `--json` shows it: what is not known is null. */
function findingJson({ severity, code, file, offset, key, message }: Finding): Record<string, unknown> {
  return { severity, code, file, offset: offset ?? null, key: key ?? null, message };
}

function findingLine({ severity, code, message, file, offset, key }: Finding, terminal: Terminal): string {
  const place = offset === undefined ? file : `${file}@0x${offset.toString(16)}`;
  const style = severity === "error" ? "red" : "yellow";
  return `${terminal.style(style, severity)}: ${place}: ${message}${key === undefined ? "" : ` (${key})`} [${code}]`;
}
