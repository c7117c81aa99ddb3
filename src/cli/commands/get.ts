import { Command, Option } from "commander";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

interface GetOptions extends CommonOptions {
  readonly region?: string;
  readonly ids?: string;
  readonly output?: string;
  readonly as?: "npy" | "raw" | "text";
  readonly force?: boolean;
  readonly verify?: boolean;
}

/** `cairn get PATH KEY`, also `cairn cat PATH KEY` */
export function getCommand(): Command {
  return new Command("get")
    .alias("cat")
    .summary("read one tensor, or a part of it")
    .description(
      "Reads one tensor, or a region of it, and only the bytes of that. Without -o it is printed; long tensors are cut short.",
    )
    .argument("<path>", "SavedModel, checkpoint prefix or directory, .pb, .cpb or .pbtxt file")
    .argument("<key>", 'the tensor\'s key, as "cairn tensors" lists it')
    .option("--region <ranges>", "a part, as in Python: 0:10,: or -5:")
    .option("--ids <list>", "rows of an embedding table by their ids: 5,17")
    .option("-o, --output <file>", ".npy file, .txt file, or raw bytes under any other name; - for standard output")
    .addOption(
      new Option("--as <form>", "form of the output, when the name of the file does not tell").choices([
        "npy",
        "raw",
        "text",
      ]),
    )
    .option("--force", "replace an existing output")
    .option("--verify", "check the whole tensor however large, when only a part of it is read")
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
  const { getRows, getTensor } = await import("../../ops/get.js");
  const { UsageError } = await import("../../errors.js");
  if (options.ids !== undefined && options.region !== undefined) {
    throw new UsageError("usage", "--ids and --region together");
  }
  const { filesFor } = await import("../files.js");
  if (options.output !== undefined && options.output !== "-") {
    const { checkOutputFile } = await import("../../bytes/output.js");
    await checkOutputFile(filesFor(options.output), options.output, options.force);
  }
  const { detection, tensors } = await openTensors(filesFor(path), path);
  try {
    for (const note of detection.notes) terminal.note(note);
    const { ids } = options;
    const tensor = await (ids === undefined ? getTensor(tensors, key, options.region) : getRows(tensors, key, ids));
    const { info, shape } = tensor;
    const isPart = options.output === undefined || options.region !== undefined || ids !== undefined;
    const verified = !isPart || (await verifyPart(tensors, info, options, terminal));
    const facts = { key, dtype: info.dtype, shape, byteLength: tensor.data.size, ids: ids?.split(","), verified };
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
    const { writeTensor } = await import("../write-tensor.js");
    await writeTensor(tensor, options.output, options, terminal, async () => {
      if (!isPart) await tensors.verify();
    });
    if (options.output !== "-") terminal.json({ ...facts, output: options.output });
  } finally {
    await tensors.close();
  }
}

/** Checks the tensor that a part is read of, or says that it was not checked. */
async function verifyPart(
  tensors: TensorSource,
  info: TensorInfo,
  { verify }: GetOptions,
  terminal: Terminal,
): Promise<boolean> {
  const { checkPart } = await import("../../ops/check-part.js");
  const { formatBytes } = await import("../../formats/text.js");
  const progress = verify ? terminal.progress("verify", info.byteLength) : undefined;
  const verified = await checkPart(tensors, info, { always: verify, signal: terminal.signal, onBytes: progress?.add });
  if (!verified) {
    const size = formatBytes(info.byteLength);
    terminal.note(`this part was not checked: the tensor has ${size}, which --verify reads and checks`);
  }
  return verified;
}
