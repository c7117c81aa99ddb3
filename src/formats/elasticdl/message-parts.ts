import { type ByteSource, SlicedSource, sliceSource } from "../../bytes/byte-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { CorruptionError } from "../../errors.js";
import type { Field, FieldList } from "../../proto/field-list.js";
import type { MessageView } from "../../proto/message-view.js";
import { placeOf } from "../../proto/wire-head.js";
import { decodeKey } from "../../tensor/key.js";

/** A name in a file is at most this long, 1 MiB. */
const LONGEST_NAME_BYTES = 2 ** 20;
/** An entry up to this size is read at once, 16 KiB: looking into it would take as many bytes. */
const SMALL_ENTRY_BYTES = 16 * 1024;

/**
 * The value of a field of `file`; a small one is read at once. Whatever kind of source the file is, the place of every
 * part of the value in the file is known, see {@link offsetInFile}.
 */
export async function readSmall(field: Field): Promise<ByteSource> {
  const { source, valueStart, end } = field.range;
  if (end - valueStart > SMALL_ENTRY_BYTES) return sliceSource(source, valueStart, end - valueStart);
  return new MemorySource(await source.read(valueStart, end - valueStart), source.name, valueStart);
}

/** Where a part of a value begins in its file. */
export function offsetInFile(part: ByteSource): number {
  if (part instanceof MemorySource) return part.base;
  return part instanceof SlicedSource ? part.start : Number.NaN;
}

/** A part of `file` that is in memory, as the part of the file that it is: so that it is not held in memory. */
export function backInFile(file: ByteSource, part: ByteSource): ByteSource {
  return part instanceof MemorySource ? sliceSource(file, part.base, part.size) : part;
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
