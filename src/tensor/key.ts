import { UsageError } from "../errors.js";

/** Begins the text of a key that is given by its bytes in hex. */
const HEX_PREFIX = "hex:";

/**
 * The text that stands for a key. TensorFlow's keys are bytes; one that is UTF-8 is its own text, any other is
 * `hex:` and its bytes. So that each text means one key, a key that begins with `hex:` itself is given in hex as well.
 */
export function decodeKey(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!text.startsWith(HEX_PREFIX)) return text;
  } catch {
    // Not UTF-8.
  }
  return HEX_PREFIX + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The bytes of a key given as text; see {@link decodeKey}.
 * @throws {@link UsageError} (`usage`) when `hex:` is not followed by hex digits in pairs
 */
export function encodeKey(key: string): Uint8Array {
  if (!key.startsWith(HEX_PREFIX)) return new TextEncoder().encode(key);
  const digits = key.slice(HEX_PREFIX.length);
  if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) {
    throw new UsageError("usage", `"${key}" is no key in hex`, { hint: "hex: is followed by pairs of hex digits." });
  }
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Whether a key stands in hex because its bytes are not plain text. */
export function isHexKey(key: string): boolean {
  return key.startsWith(HEX_PREFIX);
}

/** The hex digits of a key that stands in hex, or undefined. */
export function hexOfKey(key: string): string | undefined {
  return isHexKey(key) ? key.slice(HEX_PREFIX.length) : undefined;
}
