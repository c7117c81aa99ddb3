import type { ByteSource } from "../../bytes/byte-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { CorruptionError } from "../../errors.js";
import type { FieldList } from "../../proto/field-list.js";
import type { MessageView } from "../../proto/message-view.js";
import { placeOf } from "../../proto/wire-head.js";
import { decodeKey } from "../../tensor/key.js";

/** A name in a file is at most this long, 1 MiB. */
const LONGEST_NAME_BYTES = 2 ** 20;
/** An entry up to this size is read at once, 16 KiB: looking into it would take as many bytes. */
const SMALL_ENTRY_BYTES = 16 * 1024;

/** Small parts of a file, read at once; what is large stays where it is. */
export async function readSmall(source: ByteSource): Promise<ByteSource> {
  if (source instanceof MemorySource || source.size > SMALL_ENTRY_BYTES) return source;
  return new MemorySource(await source.read(0, source.size), source.name, placeOf(source, 0).offset);
}

/** A part of `file` that is in memory, as the part of the file that it is: so that it is not held in memory. */
export function backInFile(file: ByteSource, part: ByteSource): ByteSource {
  if (!(part instanceof MemorySource) || file instanceof MemorySource) return part;
  return file.slice(part.base, part.size);
}

/** The value of a varint field as a signed 64-bit number; 0 when it is absent. */
export async function readInteger(view: MessageView, list: FieldList, number: number): Promise<bigint> {
  const field = list.last(number);
  if (field === undefined) return 0n;
  const value = view.value(field);
  const bytes = await value.read(0, value.size);
  let bits = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) bits = (bits << 7n) | BigInt((bytes[i] as number) & 0x7f);
  return BigInt.asIntN(64, bits);
}

/** The same for a count or size. @throws {@link CorruptionError} (`tensor-data`) for one below 0 or over 2^53 */
export async function readSize(view: MessageView, list: FieldList, number: number, what: string): Promise<number> {
  const value = Number(await readInteger(view, list, number));
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new CorruptionError("tensor-data", what, { file: view.name, expected: "0 or more", actual: value });
}

/** A string field as the text that stands for it; see `decodeKey`. @throws {@link CorruptionError} (`invalid-wire`) */
export async function readText(view: MessageView, list: FieldList, number: number): Promise<string> {
  const field = list.last(number);
  if (field === undefined) return "";
  const value = view.value(field);
  if (value.size > LONGEST_NAME_BYTES) {
    throw new CorruptionError("invalid-wire", "a name is too long", { ...placeOf(value, 0), actual: value.size });
  }
  return decodeKey(await value.read(0, value.size));
}

/** The varints of a repeated integer field, packed or not, one after another. */
export function readVarints(view: MessageView, list: FieldList, number: number): ByteSource {
  return joinSources(
    view.name,
    Array.from(list.values(number), (field) => view.value(field)),
  );
}

/** Refuses fields of these numbers that have another wire type. @throws {@link CorruptionError} (`invalid-wire`) */
export function checkWireTypes(list: FieldList, numbers: readonly number[]): void {
  for (const number of numbers) {
    for (let index = 0; index < list.count(number); index++) {
      const field = list.at(number, index);
      if (field === undefined || field.isKnown) continue;
      const { source, start } = field.range;
      const what = `field ${number} has wire type ${field.wireType}`;
      throw new CorruptionError("invalid-wire", what, placeOf(source, start));
    }
  }
}
