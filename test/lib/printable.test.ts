import { expect, test } from "bun:test";
import fc from "fast-check";
import { compact } from "../../src/lib/compact.ts";
import { listed, printable, printableAll } from "../../src/lib/printable.ts";
import { messageOf } from "../../src/lib/user-error.ts";

test("a usual name stays as it is", () => {
  for (const name of ["model-00001-of-00002.safetensors", "模型", "a b", "café", "👍"]) expect(printable(name)).toBe(name);
});

test("what a terminal would act upon is written out", () => {
  expect(printable("\u001b[2Jx")).toBe("\\u{1b}[2Jx");
  expect(printable("a\nb\tc\u007f\u009b")).toBe("a\\u{a}b\\u{9}c\\u{7f}\\u{9b}");
  expect(printable("gpl\u202egnp.exe")).toBe("gpl\\u{202e}gnp.exe");
  expect(printable("a\u2028b\u2029c\ud800d")).toBe("a\\u{2028}b\\u{2029}c\\u{d800}d");
});

test("a long name is cut at 200 characters", () => {
  expect(printable("x".repeat(200))).toBe("x".repeat(200));
  expect(printable("x".repeat(201))).toBe(`${"x".repeat(199)}…`);
});

test("no text at all gets a control character past it, or a second line", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 400 }), (text) => {
      expect(printable(text)).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    }),
  );
});

test("of a long list eight names are shown and the rest is counted", () => {
  const names = Array.from({ length: 12 }, (_, at) => `n${at}`);
  expect(listed(names.slice(0, 8))).toBe("n0, n1, n2, n3, n4, n5, n6, n7");
  expect(listed(names)).toBe("n0, n1, n2, n3, n4, n5, n6, n7 and 4 more");
  expect(listed(["a\u0007"])).toBe("a\\u{7}");
  expect(listed([])).toBe("");
});

test("compact leaves out the keys without a value and no others", () => {
  const record = { zero: 0, empty: "", no: false, nothing: null, unknown: undefined, list: [] };
  expect(Object.keys(compact(record))).toEqual(["zero", "empty", "no", "nothing", "list"]);
  expect(compact({})).toEqual({});
});

test("the message of whatever was thrown is one line", () => {
  expect(messageOf(new Error(" a\n   b\r\n c "))).toBe("a b c");
  expect(messageOf("text")).toBe("text");
  expect(messageOf(undefined)).toBe("undefined");
});

test("what another machine sent is made printable in every text, whole and in its shape", () => {
  const sent = { name: "a\u001b[2J", list: ["x".repeat(300), { n: 1, ok: true, none: null }], text: "two\nlines" };
  expect(printableAll(sent)).toEqual({
    name: "a\\u{1b}[2J",
    list: ["x".repeat(300), { n: 1, ok: true, none: null }],
    text: "two\\u{a}lines",
  });
});
