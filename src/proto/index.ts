/** A lazy view of protobuf messages of any size and any type. */
export { Field, type FieldList, type Segment } from "./field-list.js";
export { FieldTable, readFieldTable } from "./field-table.js";
export { type MapKey, stringKey, textOfKey } from "./map-key.js";
export { mergeInto } from "./message-merge.js";
export { type FoundField, findField, type PathStep, parseMessagePath } from "./message-path.js";
export { type FieldKind, FieldRule, MessageRules, WIRE } from "./message-rules.js";
export { MessageView } from "./message-view.js";
export { checkWire } from "./wire-check.js";
