import { RowRandom } from "../random.js";

/**
 * Runs `work` while `Math.random` gives numbers made of a seed. TF.js draws the seeds of its initializers from there when
 * none is said, and the first values of a model have to be the same in every process and every run.
 */
export async function withSeededRandom<Result>(seed: number, work: () => Result | Promise<Result>): Promise<Result> {
  const random = new RowRandom(seed, "model");
  random.startRow(0, 0);
  const usual = Math.random;
  Math.random = () => random.uniform();
  try {
    return await work();
  } finally {
    Math.random = usual;
  }
}
