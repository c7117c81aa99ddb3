import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";

/** A message as its properties, which are those that its descriptor names. */
export type Properties = Message & Record<string, unknown>;

/** The field of a message that a value is for. */
export interface Slot<Field extends DescField = DescField> {
  readonly desc: DescMessage;
  readonly message: Properties;
  readonly field: Field;
}

/** A field of several values. */
export type ListField = DescField & { fieldKind: "list" };
/** A field of entries. */
export type MapField = DescField & { fieldKind: "map" };
/** A field of one value. */
export type SingularField = Exclude<DescField, ListField | MapField>;

/** Sets a singular field, and clears the other members of its oneof. Messages are given as messages, here and below. */
export function setValue({ desc, message, field }: Slot<SingularField>, value: unknown): void {
  if (hasLocalForm(field)) reflect(desc, message, false).set(field, toReflect(field, value));
  else if (field.oneof !== undefined) message[field.oneof.localName] = { case: field.localName, value };
  else message[field.localName] = value;
}

/** Adds to a repeated field. */
export function addItem({ desc, message, field }: Slot<ListField>, item: unknown): void {
  if (hasLocalForm(field)) reflect(desc, message, false).get(field).add(toReflect(field, item));
  else (message[field.localName] as unknown[]).push(item);
}

/** Sets an entry of a map field; the last one of a key counts. */
export function setEntry({ desc, message, field }: Slot<MapField>, key: unknown, value: unknown): void {
  // Reflection also guards against keys that are no plain property names.
  if (hasLocalForm(field) || key === "__proto__") {
    reflect(desc, message, false).get(field).set(key, toReflect(field, value));
  } else {
    (message[field.localName] as Record<string, unknown>)[String(key)] = value;
  }
}

/**
 * Whether protobuf-es keeps values of this field in another form than their type's: a wrapper as its value, a
 * `google.protobuf.Struct` as a plain object, an integer of `jstype = JS_STRING` as text.
 */
function hasLocalForm(field: DescField): boolean {
  if (field.message !== undefined) return field.message.typeName.startsWith("google.protobuf.");
  return "longAsString" in field && field.longAsString;
}

function toReflect(field: DescField, value: unknown): unknown {
  return field.message === undefined ? value : reflect(field.message, value as Message, false);
}
