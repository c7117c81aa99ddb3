/**
 * Breaks a text into lines: the first of at most `first` columns, the others of `width` less `indent`, which the caller
 * puts before them. Lines end at spaces; a word that is longer than a line is cut short in its middle.
 */
export function wrapText(text: string, first: number, width: number, indent: number): string[] {
  if (text.length <= first) return [text];
  const room = Math.max(16, width - indent);
  const lines: string[] = [];
  let line = "";
  // Several spaces separate columns and stay as they are within a line.
  for (const [, spaces = "", word = ""] of text.matchAll(/(\s*)(\S+)/g)) {
    const limit = lines.length === 0 ? Math.max(0, first) : room;
    if (line === "" && lines.length > 0) line = shorten(word, room);
    else if (line.length + spaces.length + word.length <= limit) line += spaces + word;
    else {
      lines.push(line);
      line = shorten(word, room);
    }
  }
  return [...lines, line];
}

/** A word in at most `width` columns: both ends tell more of a path than its middle. */
function shorten(word: string, width: number): string {
  if (word.length <= width) return word;
  const head = Math.ceil((width - 1) / 2);
  return `${word.slice(0, head)}…${word.slice(word.length - (width - 1 - head))}`;
}
