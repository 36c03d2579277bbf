/** "Did you mean": the nearest of some known words, by edit distance. Pure. */

/** The known word nearest to a mistyped one, `undefined` when none is near enough to be meant. */
export function suggest(word: string, known: readonly string[]): string | undefined {
  if (word === "") return undefined;
  const limit = Math.max(1, Math.floor(word.length / 3));
  const ranked = known
    .map((candidate) => ({ candidate, distance: distanceOf(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= limit || (word.length >= 3 && candidate.startsWith(word)))
    .sort((a, b) => a.distance - b.distance);
  return ranked[0]?.candidate;
}

/** Edits between two words: insert, delete, replace, or swap two neighbours. */
function distanceOf(a: string, b: string): number {
  // Names are short; a hostile long one must not cost its square.
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  let before: readonly number[] = [];
  let above: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current: number[] = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      const edits = [(above[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1, (above[column - 1] ?? 0) + (same ? 0 : 1)];
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) edits.push((before[column - 2] ?? 0) + 1);
      current.push(Math.min(...edits));
    }
    before = above;
    above = current;
  }
  return above[b.length] ?? 0;
}
