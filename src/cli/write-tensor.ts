import type { GottenTensor } from "../ops/get.js";
import type { Terminal } from "./terminal.js";

/** How {@link writeTensor} writes. */
export interface WriteTensorOptions {
  /** Form of the output; the name of the file tells when it is not given. */
  readonly as?: "npy" | "raw" | "text";
  readonly force?: boolean;
}

/**
 * Writes a tensor to a file, or to standard output for `-`. `verify` is called when all is written and before it becomes
 * visible; a failure of it throws the output away.
 */
export async function writeTensor(
  tensor: GottenTensor,
  output: string,
  options: WriteTensorOptions,
  terminal: Terminal,
  verify: () => Promise<void>,
): Promise<void> {
  const { fillSink } = await import("../bytes/byte-sink.js");
  const { copySource } = await import("../bytes/copy-source.js");
  const { filesFor } = await import("./files.js");
  const { StdoutSink } = await import("./stdout-sink.js");
  const { formatBytes } = await import("../formats/text.js");
  const { formatShape } = await import("../tensor/shape.js");
  const form = options.as ?? formOf(output);
  const source = await contentsOf(tensor, form);
  const sink =
    output === "-"
      ? new StdoutSink()
      : await filesFor(output).create(output, { overwrite: options.force, expectedBytes: source.size });
  await fillSink(sink, async () => {
    const progress = terminal.progress("read", source.size);
    await copySource(source, sink, { onBytes: progress.add, signal: terminal.signal });
    await verify();
  });
  const { info, shape } = tensor;
  if (output !== "-")
    terminal.print(`${output}: ${info.dtype} ${formatShape(shape)}, ${formatBytes(source.size)} as ${form}`);
}

async function contentsOf(tensor: GottenTensor, form: "npy" | "raw" | "text") {
  if (form === "raw") return tensor.data;
  if (form === "npy") return (await import("../ops/get.js")).npySource(tensor);
  const { formatTensor } = await import("../tensor/format-tensor.js");
  const { MemorySource } = await import("../bytes/memory-source.js");
  const text = await formatTensor({ dtype: tensor.info.dtype, shape: tensor.shape, data: tensor.data }, false);
  return new MemorySource(new TextEncoder().encode(`${text}\n`));
}

function formOf(output: string): "npy" | "raw" | "text" {
  if (output.endsWith(".npy") || output === "-") return "npy";
  return output.endsWith(".txt") ? "text" : "raw";
}
