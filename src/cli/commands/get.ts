import { Command, Option } from "commander";
import type { GottenTensor } from "../../ops/get.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface GetOptions extends CommonOptions {
  readonly region?: string;
  readonly output?: string;
  readonly as?: "npy" | "raw" | "text";
  readonly force?: boolean;
}

/** `cairn get PATH KEY`, also `cairn cat PATH KEY` */
export function getCommand(): Command {
  return new Command("get")
    .alias("cat")
    .summary("read one tensor, or a part of it")
    .description(
      "Reads one tensor, or a region of it, and only the bytes of that. Without -o it is printed; long tensors are cut short.",
    )
    .argument("<path>", "SavedModel directory, .pb, .cpb or .pbtxt file")
    .argument("<key>", 'the tensor\'s key, as "cairn tensors" lists it')
    .option("--region <ranges>", "a part, as in Python: 0:10,: or -5:")
    .option("-o, --output <file>", ".npy file, .txt file, or raw bytes under any other name; - for standard output")
    .addOption(
      new Option("--as <form>", "form of the output, when the name of the file does not tell").choices([
        "npy",
        "raw",
        "text",
      ]),
    )
    .option("--force", "replace an existing output")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn get my_model embedding/Const\n  cairn get my_model embedding/Const --region 0:10,: -o rows.npy\n  cairn get my_model embedding/Const --as raw -o - | xxd | head",
    )
    .action((path: string, key: string, options: GetOptions) =>
      runCommand(options, (terminal) => run(path, key, options, terminal)),
    );
}

async function run(path: string, key: string, options: GetOptions, terminal: Terminal): Promise<void> {
  const { openTensors } = await import("../../ops/tensors.js");
  const { getTensor } = await import("../../ops/get.js");
  const { filesFor } = await import("../files.js");
  const { detection, tensors } = await openTensors(filesFor(path), path);
  try {
    for (const note of detection.notes) terminal.note(note);
    const tensor = await getTensor(tensors, key, options.region);
    const { info, shape } = tensor;
    const facts = { key, dtype: info.dtype, shape, byteLength: tensor.data.size };
    if (options.output === undefined && !(options.json && options.as === undefined)) {
      const { formatTensor } = await import("../../tensor/format-tensor.js");
      terminal.print(await formatTensor({ dtype: info.dtype, shape, data: tensor.data }, true));
      terminal.json({ ...facts });
      return;
    }
    if (options.output === undefined) {
      terminal.json(facts);
      return;
    }
    await writeTensor(tensor, options.output, options, terminal, () => tensors.verify());
    if (options.output !== "-") terminal.json({ ...facts, output: options.output });
  } finally {
    await tensors.close();
  }
}

async function writeTensor(
  tensor: GottenTensor,
  output: string,
  options: GetOptions,
  terminal: Terminal,
  verify: () => Promise<void>,
): Promise<void> {
  const { copySource } = await import("../../bytes/copy-source.js");
  const { filesFor } = await import("../files.js");
  const { StdoutSink } = await import("../stdout-sink.js");
  const { formatBytes } = await import("../../formats/text.js");
  const { formatShape } = await import("../../tensor/shape.js");
  const form = options.as ?? formOf(output);
  const source = await contentsOf(tensor, form);
  const sink =
    output === "-"
      ? new StdoutSink()
      : await filesFor(output).create(output, { overwrite: options.force, expectedBytes: source.size });
  try {
    const progress = terminal.progress("read", source.size);
    await copySource(source, sink, { onBytes: progress.add, signal: terminal.signal });
    if (options.region === undefined) await verify();
    await sink.close();
  } catch (error) {
    await sink.abort();
    throw error;
  }
  const { info, shape } = tensor;
  if (output !== "-")
    terminal.print(`${output}: ${info.dtype} ${formatShape(shape)}, ${formatBytes(source.size)} as ${form}`);
}

async function contentsOf(tensor: GottenTensor, form: "npy" | "raw" | "text") {
  if (form === "raw") return tensor.data;
  if (form === "npy") return (await import("../../ops/get.js")).npySource(tensor);
  const { formatTensor } = await import("../../tensor/format-tensor.js");
  const { MemorySource } = await import("../../bytes/memory-source.js");
  const text = await formatTensor({ dtype: tensor.info.dtype, shape: tensor.shape, data: tensor.data }, false);
  return new MemorySource(new TextEncoder().encode(`${text}\n`));
}

function formOf(output: string): "npy" | "raw" | "text" {
  if (output.endsWith(".npy") || output === "-") return "npy";
  return output.endsWith(".txt") ? "text" : "raw";
}
