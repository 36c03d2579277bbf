import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseBusId, smiBusId } from "../../src/domain/bus-id.ts";

test.each([
  ["00000000:17:00.0", "0000:17:00.0"],
  ["0000:17:00.0", "0000:17:00.0"],
  ["GPU0000:17:00.0", "0000:17:00.0"],
  ["GPU 00000000:C1:00.0", "0000:c1:00.0"],
  ["  00000000:0B:1F.7\n", "0000:0b:1f.7"],
  ["00010000:01:00.0", "10000:01:00.0"],
  ["10000:01:00.0", "10000:01:00.0"],
])("%p is %p", (text, busId) => {
  expect(parseBusId(text)).toBe(busId);
});

test.each([
  "",
  "17:00.0",
  "0000:17:00",
  "0000:17:00.8",
  "0000:17:20.0",
  "000000000:17:00.0",
  "mlx5_0",
  "0000:17:00.0 x",
  "a088:c203:0074:cfda",
])("%p is no bus id", (text) => {
  expect(parseBusId(text)).toBeUndefined();
});

test("nvidia-smi's form has eight digits of domain, in capitals", () => {
  expect(smiBusId("0000:c1:00.0")).toBe("00000000:C1:00.0");
  expect(smiBusId("10000:01:00.0")).toBe("00010000:01:00.0");
  expect(smiBusId("GPU0000:0b:00.0")).toBe("00000000:0B:00.0");
  expect(smiBusId("nonsense")).toBe("nonsense");
});

const hex = (digits: number, value: number): string => value.toString(16).padStart(digits, "0");
const busIds = fc
  .tuple(
    fc.integer({ min: 0, max: 0xffff_ffff }),
    fc.integer({ min: 0, max: 255 }),
    fc.integer({ min: 0, max: 31 }),
    fc.integer({ min: 0, max: 7 }),
  )
  .map(([domain, bus, device, func]) => `${hex(4, domain)}:${hex(2, bus)}:${hex(2, device)}.${func}`);

test("every bus id survives nvidia-smi's form and any case", () => {
  fc.assert(
    fc.property(busIds, (busId) => {
      expect(parseBusId(busId)).toBe(busId);
      expect(parseBusId(smiBusId(busId))).toBe(busId);
      expect(parseBusId(`GPU${busId.toUpperCase()}`)).toBe(busId);
    }),
  );
});

test("any text is a bus id or none, and a bus id is its own form", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."0123aF:. GPU") }), (text) => {
      const busId = parseBusId(text);
      if (busId !== undefined) expect(parseBusId(busId)).toBe(busId);
    }),
  );
});
