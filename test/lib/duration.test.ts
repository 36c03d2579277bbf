import { expect, test } from "bun:test";
import { durationText, parseDuration } from "../../src/lib/duration.ts";

test("a span of time is whole numbers with their units", () => {
  const spans = { "30s": 30_000, "30m": 1_800_000, "2h": 7_200_000, "7d": 604_800_000, "1h30m": 5_400_000 };
  for (const [text, ms] of Object.entries(spans)) expect(parseDuration(text)).toBe(ms);
});

test("what could be read in two ways is none", () => {
  for (const text of ["", "5", "1.5h", "-1h", "1 h", "h", "1y", "1H", "1h30", "9999999999s"]) expect(parseDuration(text)).toBeUndefined();
});

test("an age is told in the largest whole unit; what lies ahead is now", () => {
  expect([0, 59_999, 60_000, 3_599_999, 3_600_000, 47 * 3_600_000, 48 * 3_600_000, -5_000].map(durationText)).toEqual([
    "0 s",
    "59 s",
    "1 min",
    "59 min",
    "1 h",
    "47 h",
    "2 d",
    "0 s",
  ]);
});
