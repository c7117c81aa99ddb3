import { Command } from "commander";
import { addConversionOptions, type ConversionFlags, convertPath } from "../conversion.js";
import { runCommand } from "../run.js";

/** `cairn convert SRC OUT` */
export function convertCommand(): Command {
  const command = new Command("convert")
    .summary("write the tensors of one format in another")
    .description(
      "Writes the tensors of SRC to OUT in another format, or in the same with other names, dtypes or shards. Values stream; nothing is loaded whole. The format is that of OUT's name unless --to says it.",
    )
    .argument("<src>", "anything that has tensors")
    .argument("<out>", "the path to write");
  return addConversionOptions(command)
    .addHelpText(
      "after",
      "\nExamples:\n  cairn convert ckpt-100 model.safetensors --drop-slots\n  cairn convert model.safetensors half.safetensors --dtype float32=bfloat16\n  cairn convert model.safetensors ckpt --to checkpoint --rename 'model.*=net/*' --max-shard-size 500MB",
    )
    .action((src: string, out: string, options: ConversionFlags) =>
      runCommand(options, (terminal) => convertPath(src, out, options, terminal)),
    );
}
