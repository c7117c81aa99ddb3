import { type DescMessage, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/**
 * The deterministic serialization of Python's protobuf (upb), whose hashes the fixtures have: fields in number order,
 * map entries sorted by key. Its order has two oddities: number keys descend, and a string comes before its prefixes.
 */
export function canonicalBytes(schema: DescMessage, bytes: Uint8Array): Uint8Array {
  return sortMaps(schema, toBinary(schema, fromBinary(schema, bytes) as Message));
}

interface Entry {
  readonly number: number;
  readonly key: string | bigint | undefined;
  readonly bytes: Uint8Array;
}

/** Sorts the map entries of a message that protobuf-es wrote, which come with number keys in ascending order. */
function sortMaps(schema: DescMessage, bytes: Uint8Array): Uint8Array {
  const reader = new BinaryReader(bytes);
  const entries: Entry[] = [];
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const [number, wireType] = reader.tag();
    const field = schema.fields.find((one) => one.number === number);
    const inner = field !== undefined && "message" in field ? field.message : undefined;
    if (wireType !== WireType.LengthDelimited || (inner === undefined && field?.fieldKind !== "map")) {
      reader.skip(wireType, number);
      entries.push({ number, key: undefined, bytes: bytes.subarray(start, reader.pos) });
      continue;
    }
    const value = reader.bytes();
    const writer = new BinaryWriter().tag(number, WireType.LengthDelimited);
    if (field?.fieldKind === "map") {
      const { key, sorted } = sortEntry(inner, value);
      entries.push({ number, key, bytes: writer.bytes(sorted).finish() });
    } else
      entries.push({ number, key: undefined, bytes: writer.bytes(sortMaps(inner as DescMessage, value)).finish() });
  }
  entries.sort(compareEntries);
  return Uint8Array.from(Buffer.concat(entries.map((entry) => entry.bytes)));
}

/** protobuf-es writes an entry as key and value, both always. */
function sortEntry(
  valueSchema: DescMessage | undefined,
  bytes: Uint8Array,
): { key: string | bigint; sorted: Uint8Array } {
  const reader = new BinaryReader(bytes);
  const [, keyType] = reader.tag();
  let key: string | bigint;
  if (keyType === WireType.LengthDelimited) key = Buffer.from(reader.bytes()).toString("latin1");
  else if (keyType === WireType.Bit64) key = BigInt(reader.fixed64());
  else if (keyType === WireType.Bit32) key = BigInt(reader.fixed32());
  else key = BigInt(reader.uint64());
  if (valueSchema === undefined) return { key, sorted: bytes };
  const keyEnd = reader.pos;
  reader.tag();
  const value = sortMaps(valueSchema, reader.bytes());
  const writer = new BinaryWriter().raw(bytes.subarray(0, keyEnd)).tag(2, WireType.LengthDelimited).bytes(value);
  return { key, sorted: writer.finish() };
}

function compareEntries(a: Entry, b: Entry): number {
  if (a.number !== b.number) return a.number - b.number;
  if (a.key === undefined || b.key === undefined || a.key === b.key) return 0;
  if (typeof a.key === "bigint" || typeof b.key === "bigint") return a.key < b.key ? 1 : -1;
  const common = Math.min(a.key.length, b.key.length);
  const [left, right] = [a.key.slice(0, common), b.key.slice(0, common)];
  return left === right ? b.key.length - a.key.length : left < right ? -1 : 1;
}
