/** Spans of time as people write and read them. Pure. */

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `30m`, `2h`, `7d`, `1h30m` in ms; `undefined` for anything else, also for a number without a unit. */
export function parseDuration(text: string): number | undefined {
  if (!/^(?:\d{1,9}[smhd])+$/.test(text)) return undefined;
  return [...text.matchAll(/(\d+)([smhd])/g)].reduce((sum, [, count, unit]) => sum + Number(count) * (UNIT_MS[unit ?? ""] ?? 0), 0);
}

/** `3 s`, `5 min`, `2 h`, `4 d`: whole units, the largest that fits; `0 s` for what lies ahead, as clocks differ a little. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
