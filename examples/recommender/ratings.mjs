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

/** Ratings from 1 to 5 that users of hidden tastes give to items of hidden kinds. */
export function makeRatings({ users, items, count, seed }) {
  const random = randomBy(seed);
  const vectors = (rows) => Array.from({ length: rows }, () => [random() - 0.5, random() - 0.5, random() - 0.5]);
  const tastes = vectors(users);
  const kinds = vectors(items);
  return Array.from({ length: count }, () => {
    const user = Math.floor(random() * users);
    const item = Math.floor(random() * items);
    const match = tastes[user].reduce((sum, taste, k) => sum + taste * kinds[item][k], 0);
    const rating = 3 + 6 * match + 0.3 * (random() - 0.5);
    return { user, item, rating: Math.min(5, Math.max(1, rating)) };
  });
}
