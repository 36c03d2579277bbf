import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import * as v from "valibot";
import { AgentConfig } from "../../src/domain/agent-config.ts";
import { checkValue, checkYaml, parseYamlFile, renderMisfit, withoutUnknownKeys } from "../../src/lib/schema-error.ts";
import { UserError } from "../../src/lib/user-error.ts";

const Schema = v.strictObject({
  listen: v.optional(v.string()),
  port: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  mode: v.optional(v.picklist(["fast", "safe"])),
  engines: v.optional(v.array(v.strictObject({ name: v.string(), args: v.optional(v.array(v.string())) }))),
  labels: v.optional(v.record(v.string(), v.strictObject({ weight: v.number() }))),
});

/** Messages as they are shown for a file called f.yaml; none when the text fits. */
function complaints(text: string, schema: v.GenericSchema = Schema): readonly string[] {
  const checked = checkYaml(schema, text);
  return checked.kind === "ok" ? [] : checked.misfits.map((misfit) => renderMisfit(misfit, "f.yaml"));
}

test("a text that fits gives its value, and an empty one is an empty object", () => {
  expect(checkYaml(Schema, "listen: here\n")).toEqual({ kind: "ok", value: { listen: "here" } });
  for (const text of ["", "\n", "# nothing\n", "---\n", "{}"]) expect(checkYaml(Schema, text)).toEqual({ kind: "ok", value: {} });
});

describe("what does not fit is named with its line and column", () => {
  const cases: readonly (readonly [string, string, readonly string[]])[] = [
    ["an unknown key and its near one", "port: 1\nliten: x\n", ['f.yaml:2:1: unknown key "liten", did you mean "listen"?']],
    ["an unknown key like no other", "zzz: x\n", ['f.yaml:1:1: unknown key "zzz" (known: listen, port, mode, engines, labels)']],
    ["a wrong kind of value", "# first\nport: many\n", ['f.yaml:2:1: port: expected number, found "many"']],
    ["a number that is not whole", "port: 1.5\n", ["f.yaml:1:1: port: expected a whole number, found 1.5"]],
    ["a value outside the choices", "mode: quick\n", ['f.yaml:1:1: mode: expected ("fast" | "safe"), found "quick"']],
    [
      "a key inside a list, with the keys of that list",
      "engines:\n  - name: a\n  - nam: b\n    name: b\n",
      ['f.yaml:3:5: unknown key "nam", did you mean "name"?'],
    ],
    ["a key missing inside a list", "engines:\n  - name: a\n  - args: []\n", ['f.yaml:3:5: engines[1].name: the key "name" is missing']],
    [
      "an item of a list inside a list",
      "engines:\n  - name: a\n    args:\n      - x\n      - 7\n",
      ["f.yaml:5:9: engines[0].args[1]: expected string, found 7"],
    ],
    ["a value inside a map", "labels:\n  a: {weight: 1}\n  b: {weight: x}\n", ['f.yaml:3:7: labels.b.weight: expected number, found "x"']],
    ["a list where a map is wanted", "- a\n", ["f.yaml:1:1: expected Object, found Array"]],
    ["a list where a map is wanted, deeper", "port: 1\nlabels:\n  a: [1, 2]\n", ["f.yaml:3:3: labels.a: expected Object, found Array"]],
    ["a word where a map is wanted", "\nhello\n", ['f.yaml:2:1: expected Object, found "hello"']],
    [
      "all problems at once",
      "liten: x\nport: y\n",
      ['f.yaml:1:1: unknown key "liten", did you mean "listen"?', 'f.yaml:2:1: port: expected number, found "y"'],
    ],
    ["a key in the flow form", "{port: 1, prot: 2}\n", ['f.yaml:1:11: unknown key "prot", did you mean "port"?']],
  ];
  for (const [fact, text, expected] of cases) {
    test(fact, () => expect([...complaints(text)].sort()).toEqual([...expected].sort()));
  }
});

describe("a text that is no YAML is named where it breaks", () => {
  for (const [fact, text, place] of [
    ["an open bracket", "listen: x\nengines: [a\n", /^f\.yaml:[23]:\d+: /],
    ["a tab for indentation", "engines:\n\t- name: x\n", /^f\.yaml:2:1: /],
    ["the same key twice", "port: 1\nport: 2\n", /^f\.yaml:2:1: .*unique/],
    ["two documents", "port: 1\n---\nport: 2\n", /^f\.yaml:[23]:1: /],
    ["an alias to nothing", "listen: *x\n", /^f\.yaml:1:\d+: .*alias/i],
  ] as const) {
    test(fact, () => {
      const found = complaints(text);
      expect(found).toHaveLength(1);
      expect(found[0]).toMatch(place);
      expect(found[0]).not.toContain("\n");
    });
  }

  test("an alias bomb is refused and costs nothing", () => {
    const levels = Array.from({ length: 30 }, (_, at) => `a${at + 1}: &a${at + 1} [${Array(10).fill(`*a${at}`).join(", ")}]`);
    const bomb = `a0: &a0 [x]\n${levels.join("\n")}\n`;
    expect(complaints(bomb)).toEqual([expect.stringContaining("Excessive alias count")]);
  });

  test("brackets nested beyond reason are refused", () => {
    const found = complaints("[".repeat(100_000));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^f\.yaml:1:\d+: /);
    for (const depth of [1_000, 3_000, 6_000]) {
      const text = `a: ${"[".repeat(depth)}${"]".repeat(depth)}`;
      const checked = checkYaml(Schema, text);
      expect(checked.kind).toBe("misfits");
      withoutUnknownKeys(Schema, checked);
    }
  });
});

describe("names that every object has", () => {
  for (const key of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    test(`${key} is an unknown key like any other`, () => {
      expect(complaints(`port: 1\n${key}: 2\n`)).toEqual([`f.yaml:2:1: unknown key "${key}" (known: listen, port, mode, engines, labels)`]);
      const rest = withoutUnknownKeys(Schema, checkYaml(Schema, `port: 1\n${key}: 2\n`));
      expect(rest).toEqual({ port: 1 });
    });
  }
});

describe("a text whose only fault are keys that nobody knows", () => {
  test("is used without them, at every depth", () => {
    const checked = checkYaml(Schema, "port: 1\nliten: x\nengines:\n  - name: a\n    nam: b\n");
    expect(withoutUnknownKeys(Schema, checked)).toEqual({ port: 1, engines: [{ name: "a" }] });
  });

  test("is used without all of them, however many stand side by side", () => {
    const text = "a: 1\nport: 1\nb: 2\nc: 3\nengines:\n  - {x: 1, name: a, y: 2}\n";
    expect(complaints(text).map((line) => line.split(" (")[0])).toEqual([
      'f.yaml:1:1: unknown key "a"',
      'f.yaml:3:1: unknown key "b"',
      'f.yaml:4:1: unknown key "c"',
      'f.yaml:6:6: unknown key "x"',
      'f.yaml:6:21: unknown key "y"',
    ]);
    expect(withoutUnknownKeys(Schema, checkYaml(Schema, text))).toEqual({ port: 1, engines: [{ name: "a" }] });
  });

  test("is not used when something else does not fit", () => {
    expect(withoutUnknownKeys(Schema, checkYaml(Schema, "liten: x\nport: y\n"))).toBeUndefined();
    expect(withoutUnknownKeys(Schema, checkYaml(Schema, "[broken"))).toBeUndefined();
  });

  test("that fits is itself", () => {
    expect(withoutUnknownKeys(Schema, checkYaml(Schema, "port: 1"))).toEqual({ port: 1 });
  });
});

test("a person's file is one error with every problem, the file and the way out", () => {
  const parse = () => parseYamlFile(Schema, "liten: x\nport: y\n", "/etc/f.yaml", "mend it");
  expect(parse).toThrow(UserError);
  try {
    parse();
  } catch (error) {
    expect(error).toMatchObject({
      what: "/etc/f.yaml does not fit",
      why: expect.stringMatching(/^\/etc\/f\.yaml:\d:1: .*; \/etc\/f\.yaml:\d:1: /),
      fix: "mend it",
    });
  }
  expect(parseYamlFile(Schema, "port: 2", "f.yaml", "mend it")).toEqual({ port: 2 });
});

test("a value without a text behind it is named by its path alone", () => {
  const checked = checkValue(Schema, { engines: [{ name: 7 }] });
  expect(checked.kind === "misfits" && checked.misfits.map((misfit) => renderMisfit(misfit, "answer"))).toEqual([
    "answer: engines[0].name: expected string, found 7",
  ]);
});

describe("no text at all makes it throw", () => {
  const yamlish = fc.string({
    unit: fc.oneof(
      fc.constantFrom(
        ..."{}[]:,-?&*!|>'\"%@#\n\t ",
        "\n  ",
        "listen",
        "port",
        "engines",
        "&a",
        "*a",
        "<<",
        "---",
        "!!binary",
        "!!set",
        "!x",
        "1",
        "null",
      ),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    ),
    maxLength: 60,
  });

  test("and each complaint is one line with a place in it", () => {
    fc.assert(
      fc.property(yamlish, (text) => {
        for (const schema of [Schema, AgentConfig, v.unknown()]) {
          const checked = checkYaml(schema, text);
          withoutUnknownKeys(schema, checked);
          if (checked.kind === "ok") continue;
          const lines = text.split("\n").length;
          for (const misfit of checked.misfits) {
            expect(misfit.line ?? 1).toBeGreaterThanOrEqual(1);
            expect(misfit.line ?? 1).toBeLessThanOrEqual(lines + 1);
            expect(misfit.column ?? 1).toBeGreaterThanOrEqual(1);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("cut anywhere, a good text still only complains", () => {
    const good = "hostname: a\nfabrics:\n  - name: f\n    adapters: [mlx5_0, '0000:1a:00.0']\nmodel_dirs: [/a, \"/b\"]\n";
    for (let length = 0; length <= good.length; length++) checkYaml(AgentConfig, good.slice(0, length));
    expect(checkYaml(AgentConfig, good).kind).toBe("ok");
  });
});
