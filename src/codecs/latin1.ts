/** Characters that one call of `String.fromCharCode` takes without passing the limits of arguments. */
const RUN = 4096;

/** Bytes as a string with one character each: such strings sort as their bytes do. */
export function decodeLatin1(bytes: Uint8Array, start = 0, end: number = bytes.length): string {
  if (end - start <= RUN) return String.fromCharCode.apply(null, bytes.subarray(start, end) as unknown as number[]);
  let text = "";
  for (let at = start; at < end; at += RUN) text += decodeLatin1(bytes, at, Math.min(end, at + RUN));
  return text;
}

/** The bytes of a string whose characters are bytes. */
export function encodeLatin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
