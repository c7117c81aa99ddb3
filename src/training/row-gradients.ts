/** Places for each row number, so that few are met on the way. */
const PLACES_PER_ROW = 4;

/** Reused by all calls: no call leaves anything in it. */
let places = new Int32Array(4096);

/**
 * Adds up the gradients of rows that occur more than once, in the order in which they come. Afterwards the first `count`
 * row numbers differ, and gradient `i` of `width` numbers is that of row number `i`; gives that count.
 */
export function combineRows(rows: Int32Array, values: Float32Array, width: number): number {
  const capacity = 2 ** Math.ceil(Math.log2(Math.max(2, rows.length * PLACES_PER_ROW)));
  if (places.length < capacity) places = new Int32Array(capacity);
  else places.fill(0, 0, capacity);
  const mask = capacity - 1;
  let count = 0;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as number;
    let at = Math.imul(row, 0x9e3779b1) >>> 7;
    while (places[at & mask] !== 0 && rows[(places[at & mask] as number) - 1] !== row) at++;
    const known = (places[at & mask] as number) - 1;
    if (known >= 0) {
      addRow(values, known * width, i * width, width);
      continue;
    }
    places[at & mask] = count + 1;
    rows[count] = row;
    if (count !== i) values.copyWithin(count * width, i * width, (i + 1) * width);
    count++;
  }
  return count;
}

function addRow(values: Float32Array, to: number, from: number, width: number): void {
  for (let i = 0; i < width; i++) values[to + i] = (values[to + i] as number) + (values[from + i] as number);
}
