/** What this process uses. */

/** Bytes. */
export function residentBytes(): number {
  return process.memoryUsage.rss();
}

/** User and system together, seconds. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Gives back what is not used any more, now. */
export function collectGarbage(): void {
  Bun.gc(true);
}
