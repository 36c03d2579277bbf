/** Chance from a seed: the same seed, the same world. xorshift32 after Marsaglia (2003), "Xorshift RNGs". */

export interface Chance {
  /** In [0, 1). */
  next(): number;
  /** Whether something of this probability happens. */
  happens(probability: number): boolean;
  /** From `low` to `high`. */
  between(low: number, high: number): number;
  /** One of a list that is not empty. */
  pick<T>(list: readonly T[]): T;
}

export function chanceOf(seed: number): Chance {
  // Zero would stay zero, and neighbours would begin alike.
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let turn = 0; turn < 8; turn++) next();
  return {
    next,
    happens: (probability) => next() < probability,
    between: (low, high) => low + (high - low) * next(),
    pick: (list) => {
      const chosen = list[Math.floor(next() * list.length)];
      if (chosen === undefined) throw new Error("nothing to pick from");
      return chosen;
    },
  };
}
