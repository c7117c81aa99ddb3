/**
 * Orders keys by their UTF-8 bytes. JavaScript's own order differs for characters beyond the first 65,536, whose
 * surrogates come before U+E000 to U+FFFF there and after them in UTF-8.
 */
export function compareKeys(a: string, b: string): number {
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return utf8Rank(left) - utf8Rank(right);
  }
  return a.length - b.length;
}

function utf8Rank(unit: number): number {
  if (unit >= 0xe000) return unit - 0x800;
  return unit >= 0xd800 ? unit + 0x2000 : unit;
}
