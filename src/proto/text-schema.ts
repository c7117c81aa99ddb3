import type { DescEnum, DescField, DescMessage } from "@bufbuild/protobuf";

/** What the text format needs to know of a message type, looked up by name. */
export interface TextSchema {
  readonly desc: DescMessage;
  readonly fields: ReadonlyMap<string, DescField>;
  /** Names of fields that are no more; specification, "Fields": what is given for them is ignored. */
  readonly reservedNames: ReadonlySet<string>;
  readonly requiredFields: readonly DescField[];
}

/** google.protobuf.FeatureSet.FieldPresence.LEGACY_REQUIRED (descriptor.proto) */
const LEGACY_REQUIRED = 3;

const schemas = new WeakMap<DescMessage, TextSchema>();
const enumNumbers = new WeakMap<DescEnum, ReadonlyMap<string, number>>();

/** Gives the names of a message type's fields; made once for each type. */
export function textSchemaOf(desc: DescMessage): TextSchema {
  let schema = schemas.get(desc);
  if (schema === undefined) {
    schema = makeSchema(desc);
    schemas.set(desc, schema);
  }
  return schema;
}

/** Gives the numbers of an enum's names, aliases included; made once for each enum. */
export function enumNumbersOf(desc: DescEnum): ReadonlyMap<string, number> {
  let numbers = enumNumbers.get(desc);
  if (numbers === undefined) {
    numbers = new Map(desc.values.map((value) => [value.name, value.number]));
    enumNumbers.set(desc, numbers);
  }
  return numbers;
}

/** The name that a field is printed with: a group's is the name of its type. */
export function textNameOf(field: DescField): string {
  return field.message !== undefined && isGroup(field, field.message) ? field.message.name : field.name;
}

function makeSchema(desc: DescMessage): TextSchema {
  const fields = new Map(desc.fields.map((field) => [field.name, field]));
  for (const field of desc.fields) {
    const name = textNameOf(field);
    if (!fields.has(name)) fields.set(name, field); // the field's own name goes on being one, as in C++ and Python
  }
  return {
    desc,
    fields,
    reservedNames: new Set(desc.proto.reservedName),
    requiredFields: desc.fields.filter((field) => field.presence === LEGACY_REQUIRED),
  };
}

/** Whether a field is a proto2 group or made like one; text_format.py, _IsGroupLike. */
function isGroup(field: DescField, type: DescMessage): boolean {
  if (!("delimitedEncoding" in field) || !field.delimitedEncoding) return false;
  return type.name.toLowerCase() === field.name && type.file === field.parent.file && type.parent === field.parent;
}
