import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseCpuList } from "../../src/domain/cpu-list.ts";

test.each([
  ["0-47,96-143", "0-47,96-143"],
  ["1-1", "1"],
  ["0,1,2\n", "0-2"],
  ["96-143, 0-47", "0-47,96-143"],
  ["0-3,2-7,8", "0-8"],
  ["007", "7"],
])("%p is %p", (text, list) => {
  expect(parseCpuList(text)).toBe(list);
});

test.each(["", "N/A", "3-1", "0-", "-1", "0,,1", "0-31:2/4", "0x3", "99999999"])("%p is no CPU list", (text) => {
  expect(parseCpuList(text)).toBeUndefined();
});

test("the list holds the same CPUs as its text, and is its own form", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat({ max: 300 }), fc.nat({ max: 20 })), { minLength: 1, maxLength: 8 }), (ranges) => {
      const list = parseCpuList(ranges.map(([first, more]) => `${first}-${first + more}`).join(",")) ?? "";
      const expected = new Set(ranges.flatMap(([first, more]) => Array.from({ length: more + 1 }, (_, at) => first + at)));
      const found = list.split(",").flatMap((part) => {
        const [first = 0, last = first] = part.split("-").map(Number);
        return Array.from({ length: last - first + 1 }, (_, at) => first + at);
      });
      expect(found).toEqual([...expected].sort((a, b) => a - b));
      expect(parseCpuList(list)).toBe(list);
    }),
  );
});
