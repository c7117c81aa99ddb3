/** Characters of the text that an error repeats. */
const MAX_QUOTED_LENGTH = 40;

/** A place in a text, as people and as files count it. */
export interface TextPlace {
  /** From 1. */
  readonly line: number;
  /** In characters (code points) of the line, from 1. */
  readonly column: number;
  /** In bytes of the text's UTF-8 form. */
  readonly offset: number;
}

/** Quotes what stands in a text, for an error: escaped to fit on a line, and cut when it is long. */
export function quoteText(text: string): string {
  const isLong = text.length > MAX_QUOTED_LENGTH;
  return JSON.stringify(isLong ? `${text.slice(0, MAX_QUOTED_LENGTH)}…` : text);
}

/** Finds line, column and byte offset of a character; takes time in proportion to its distance from the start. */
export function placeOf(text: string, position: number): TextPlace {
  let line = 1;
  let lineStart = 0;
  for (let at = text.indexOf("\n"); at >= 0 && at < position; at = text.indexOf("\n", lineStart)) {
    line++;
    lineStart = at + 1;
  }
  let column = 1;
  for (let at = lineStart; at < position; at += characterLength(text, at)) column++;
  return { line, column, offset: utf8Length(text, position) };
}

/** Bytes that the first `end` characters of `text` take in UTF-8. A lone surrogate takes three, as U+FFFD does. */
export function utf8Length(text: string, end: number = text.length): number {
  let length = 0;
  for (let at = 0; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) {
      length += 1;
    } else if (code < 0x800) {
      length += 2;
    } else if (characterLength(text, at) === 2) {
      length += 4;
      at++;
    } else {
      length += 3;
    }
  }
  return length;
}

/** How many UTF-16 units the character at `position` takes. */
export function characterLength(text: string, position: number): number {
  const code = text.charCodeAt(position);
  if (code < 0xd800 || code > 0xdbff) return 1;
  const low = text.charCodeAt(position + 1);
  return low >= 0xdc00 && low <= 0xdfff ? 2 : 1;
}
