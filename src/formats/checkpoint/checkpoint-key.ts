import { decodeLatin1, encodeLatin1 } from "../../codecs/latin1.js";
import { decodeKey, encodeKey, isHexKey } from "../../tensor/key.js";

/**
 * A key as the table has it: one character a byte, so that keys sort as their bytes do. Texts for people and for the
 * library's callers are those of `tensor/key.ts`.
 */
export type RawKey = string;

/** The first key of each index, under which its header stands. */
export const HEADER_KEY: RawKey = "";

/** Under this the graph of objects stands. Source: tensorflow/python/checkpoint/trackable/base.py, OBJECT_GRAPH_PROTO_KEY. */
export const OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH";

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
const ASCII = /^[\x00-\x7f]*$/;

/** The text of a key. */
export function textOfKey(raw: RawKey): string {
  return ASCII.test(raw) && !isHexKey(raw) ? raw : decodeKey(encodeLatin1(raw));
}

/** The key of a text. @throws UsageError (`usage`) for bad hex */
export function rawKeyOf(text: string): RawKey {
  return ASCII.test(text) && !isHexKey(text) ? text : decodeLatin1(encodeKey(text));
}
