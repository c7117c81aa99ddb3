import { mix32 } from "./id-index.js";

/** Added for each draw: 2^32 divided by the golden ratio. */
const STEP = 0x9e3779b9;

/**
 * Random numbers that depend on a seed, an embedding table's name and a row's id, and on nothing else: neither on the order
 * in which rows are made nor on the server that makes them. A counter is mixed twice with words made of all three.
 */
export class RowRandom {
  private readonly tableWord: number;
  private readonly seed: number;
  private first = 0;
  private second = 0;
  private counter = 0;

  /** The numbers of a table. */
  constructor(seed: number, table: string) {
    this.seed = seed | 0;
    let word = mix32(seed ^ 0x6a09e667);
    for (const byte of new TextEncoder().encode(table)) word = mix32(Math.imul(word ^ byte, 0x01000193));
    this.tableWord = word;
  }

  /** Begins the numbers of a row. */
  startRow(low: number, high: number): void {
    this.first = mix32(mix32(low ^ this.tableWord) + high);
    this.second = mix32(mix32(high ^ this.seed) + Math.imul(low, STEP) + this.tableWord);
    this.counter = 0;
  }

  /** The next number, at least 0 and less than 1, a multiple of 2^-32. */
  uniform(): number {
    this.counter = (this.counter + STEP) | 0;
    return (mix32(mix32(this.counter ^ this.first) + this.second) >>> 0) / 4294967296;
  }

  /** The next number of the normal distribution of mean 0 and deviation 1 (Box and Muller's method). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }

  /** The next number of the normal distribution, those beyond two deviations drawn again. */
  truncatedNormal(): number {
    let value = this.normal();
    while (Math.abs(value) > 2) value = this.normal();
    return value;
  }
}
