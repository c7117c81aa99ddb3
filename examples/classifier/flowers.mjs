/** Numbers from 0 to 1 that depend on a seed alone (mulberry32). */
function randomBy(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** What flowers of three kinds measure on average; two of the kinds are hard to tell apart. */
const KINDS = [
  [0.1, 0.8, -0.6, -0.7],
  [0.4, -0.2, 0.3, 0.2],
  [0.7, 0.0, 0.6, 0.7],
];

/** Flowers with their measures and the number of their kind. */
export function makeFlowers({ count, seed }) {
  const random = randomBy(seed);
  const spread = () => (random() + random() + random() - 1.5) * 0.5;
  return Array.from({ length: count }, () => {
    const kind = Math.floor(random() * KINDS.length);
    return { kind, measures: KINDS[kind].map((mean) => mean + spread()) };
  });
}
