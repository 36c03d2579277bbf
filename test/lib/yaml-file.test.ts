import { expect, test } from "bun:test";
import fc from "fast-check";
import * as v from "valibot";
import { parse, stringify } from "yaml";
import { checkYaml } from "../../src/lib/schema-error.ts";
import { checkYamlText, mayRepeatKeys, parseYamlText } from "../../src/lib/yaml-file.ts";

const Any = v.unknown();

test.each([
  ["at the top", "a: 1\nb: 2\na: 3\n"],
  ["inside a mapping", "a:\n  x: 1\n  y: 2\n  x: 3\n"],
  ["inside a list item", "list:\n  - a: 1\n    a: 2\n"],
  ["quoted once", 'a: 1\n"a": 2\n'],
  ["in a flow mapping", "a: { x: 1, x: 2 }\n"],
  ["after a deeper mapping", "a:\n  x:\n    y: 1\n  x: 2\n"],
])("a key that stands twice %s is refused, with its line", async (_where, text) => {
  expect(mayRepeatKeys(text)).toBe(true);
  expect(await checkYamlText(Any, text)).toMatchObject({ kind: "misfits" });
});

test.each([
  ["items of a list", "commands:\n  - argv: [a]\n    exit: 1\n  - argv: [b]\n    exit: 2\n"],
  ["two mappings side by side", "a:\n  x: 1\nb:\n  x: 2\n"],
  ["a list whose items are lists", "- - a: 1\n- - a: 2\n"],
])("the same key in %s is no repetition", (_where, text) => {
  expect(mayRepeatKeys(text)).toBe(false);
});

test("what does not fit is told with its place", async () => {
  const schema = v.strictObject({ about: v.string() });
  const refused = parseYamlText(schema, "about: x\nabuot: y\n", "machine.yaml", "mend it");
  expect(refused).rejects.toMatchObject({ name: "UserError", why: expect.stringContaining("machine.yaml:2:1: unknown key") });
  expect(await parseYamlText(schema, "about: x\n", "machine.yaml", "mend it")).toEqual({ about: "x" });
});

test("the quick way and the strict way agree on every value that can be written", async () => {
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom("yes", "0x10", "1e3", "~", "- a", "a: b", "#x", "2026-11-30"),
  );
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { depthSize: "small" },
      leaf,
      fc.array(tie("any"), { maxLength: 4 }),
      fc.dictionary(fc.stringMatching(/^[a-z_]{1,8}$/), tie("any"), { maxKeys: 5 }),
    ),
  })).any;
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.stringMatching(/^[a-z_]{1,8}$/), value, { minKeys: 1, maxKeys: 6 }), async (written) => {
      const text = stringify(written);
      const quick = await checkYamlText(Any, text);
      expect(quick.kind === "ok" ? quick.value : quick).toEqual(parse(text));
    }),
    { numRuns: 300 },
  );
});

test("any text at all: never a throw, and a refusal of the strict way is never passed by the quick one for a repeated key", async () => {
  const line = fc
    .tuple(
      fc.constantFrom("", "  ", "    ", "- ", "  - "),
      fc.constantFrom("a", "b", '"a"', "c"),
      fc.constantFrom(":", ": 1", ": {x: 1}", ": [1]"),
    )
    .map((parts) => parts.join(""));
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        fc.array(line, { maxLength: 8 }).map((lines) => lines.join("\n")),
      ),
      async (text) => {
        const quick = await checkYamlText(Any, text);
        const strict = checkYaml(Any, text);
        if (strict.kind === "misfits" && strict.misfits.some((misfit) => /unique/.test(misfit.message))) expect(quick.kind).toBe("misfits");
      },
    ),
    { numRuns: 500 },
  );
});
