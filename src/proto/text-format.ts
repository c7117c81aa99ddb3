import type { DescMessage, Message, MessageShape, Registry } from "@bufbuild/protobuf";
import { LimitError } from "../errors.js";
import { MAX_TEXT_BYTES } from "../limits.js";
import { TextParser } from "./text-parser.js";
import { utf8Length } from "./text-place.js";
import { TextPrinter } from "./text-printer.js";
import { TextTokenizer } from "./text-tokenizer.js";

/** What {@link formatTextFormat} can be told. */
export interface FormatTextOptions {
  /** The types that a `google.protobuf.Any` is spelled out for; one of another type is printed as its bytes. */
  readonly registry?: Registry | undefined;
}

/** What {@link parseTextFormat} can be told. */
export interface ParseTextOptions {
  /** The path or URL that errors print. */
  readonly file?: string | undefined;
  /** The types that a `google.protobuf.Any` can be spelled out with, as `[type.googleapis.com/package.Type] { … }`. */
  readonly registry?: Registry | undefined;
}

/**
 * Parses a message in protobuf's text format (`.pbtxt`, `.txtpb`), as the Text Format Language Specification has it.
 * Extensions are not supported. Errors name the byte offset in the text's UTF-8 form, and line and column.
 * @throws {@link CorruptionError} (`invalid-text`), {@link LimitError} (`limit`) when the text is too long or too deep
 */
export function parseTextFormat<Desc extends DescMessage>(
  text: string,
  schema: Desc,
  options: ParseTextOptions = {},
): MessageShape<Desc> {
  const { file, registry } = options;
  const byteLength = text.length * 3 > MAX_TEXT_BYTES ? utf8Length(text) : text.length;
  if (byteLength > MAX_TEXT_BYTES) {
    throw new LimitError("limit", "size of the text", {
      file,
      expected: `at most ${MAX_TEXT_BYTES} bytes`,
      actual: `${byteLength} bytes`,
    });
  }
  return new TextParser(new TextTokenizer(text, file), registry).parse(schema) as MessageShape<Desc>;
}

/**
 * Formats a message in protobuf's text format, character by character as Python's `text_format.MessageToString`
 * (protobuf 5.29) does. Unknown fields and extensions are left out.
 * @throws {@link LimitError} (`limit`) when the text would be too long or too deep to be parsed
 */
export function formatTextFormat(message: Message, schema: DescMessage, options: FormatTextOptions = {}): string {
  return new TextPrinter(options.registry).print(message, schema);
}
