import { expect, test } from "bun:test";
import fc from "fast-check";
import { suggest } from "../../src/lib/suggest.ts";

const KNOWN = ["inventory", "agent", "completion", "doctor"];

test("one slip of the finger is understood: a letter more, less, another, or two swapped", () => {
  for (const typed of ["inventoryy", "inventry", "imventory", "invnetory", "INVENTORY"]) expect(suggest(typed, KNOWN)).toBe("inventory");
});

test("the beginning of a word is understood from three letters on", () => {
  expect(suggest("comp", KNOWN)).toBe("completion");
  expect(suggest("inv", KNOWN)).toBe("inventory");
  expect(suggest("co", KNOWN)).toBeUndefined();
});

test("the nearest one wins", () => {
  expect(suggest("card", ["cards", "car", "cart", "care", "word"])).toBe("cards");
  expect(suggest("bsh", ["zsh", "bash", "fish"])).toBe("zsh");
});

test("what is like nothing known gets no suggestion", () => {
  for (const typed of ["frobnicate", "x", "", "代理"]) expect(suggest(typed, KNOWN)).toBeUndefined();
  expect(suggest("", ["a"])).toBeUndefined();
  expect(suggest("agent", [])).toBeUndefined();
});

test("a known word suggests itself, and only known words are suggested", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ minLength: 1, maxLength: 20 })), fc.string({ maxLength: 100 }), (known, word) => {
      const near = suggest(word, known);
      expect(near === undefined || known.includes(near)).toBe(true);
      for (const one of known) expect(suggest(one, known)?.toLowerCase()).toBe(one.toLowerCase());
    }),
  );
});

test("a hostile long word costs nothing", () => {
  const long = "a".repeat(1_000_000);
  expect(suggest(long, ["a", long.slice(1)])).toBeUndefined();
});
