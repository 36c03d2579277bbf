import { expect, test } from "bun:test";
import fc from "fast-check";
import { painter } from "../../src/lib/color.ts";
import { renderTable } from "../../src/lib/table.ts";

test("columns are as wide as their widest cell, two spaces apart, numbers to the right", () => {
  const table = renderTable(
    [{ title: "NAME" }, { title: "SIZE", align: "right" }, { title: "STATE" }],
    [
      ["a", "5", "ok"],
      ["longer", "12345", "bad"],
    ],
  );
  expect(table).toBe("NAME     SIZE  STATE\na           5  ok\nlonger  12345  bad");
});

test("unknown is -, also where a row is too short, and an empty text stays empty", () => {
  const columns = [{ title: "A" }, { title: "B", align: "right" }, { title: "C" }] as const;
  expect(renderTable(columns, [[undefined, undefined, undefined], ["x"], ["", "", ""]])).toBe("A  B  C\n-  -  -\nx  -  -\n");
});

test("no rows leave the titles", () => {
  expect(renderTable([{ title: "A" }, { title: "B" }], [])).toBe("A  B");
});

test("colour takes no room, and the last column leaves no blanks", () => {
  const paint = painter(true);
  const table = renderTable(
    [{ title: "A" }, { title: "B" }],
    [
      [paint.green("ok"), "x"],
      ["bad!", "longest"],
    ],
  );
  expect(table.split("\n").map((line) => Bun.stripANSI(line))).toEqual(["A     B", "ok    x", "bad!  longest"]);
  for (const line of table.split("\n")) expect(line).toBe(line.trimEnd());
});

test("a wide character takes two columns, a combining one none", () => {
  expect(
    renderTable(
      [{ title: "A" }, { title: "B" }],
      [
        ["日本", "x"],
        ["e\u0301", "y"],
        ["abcd", "z"],
      ],
    ),
  ).toBe("A     B\n日本  x\ne\u0301     y\nabcd  z");
});

test("whatever the cells hold, every column of every row starts and ends where its title's does", () => {
  // Letters of several scripts and widths: one cell never changes what the next one's first character looks like.
  const cell = fc.option(fc.string({ unit: fc.constantFrom("a", "Z", "0", "-", "é", "e\u0301", "日", "한", "🙂", "ｱ"), maxLength: 8 }), {
    nil: undefined,
  });
  fc.assert(
    fc.property(
      fc.array(fc.record({ title: fc.stringMatching(/^[A-Z]{1,6}$/), align: fc.constantFrom("left" as const, "right" as const) }), {
        minLength: 1,
        maxLength: 4,
      }),
      fc.array(fc.array(cell, { maxLength: 4 }), { maxLength: 6 }),
      (columns, rows) => {
        const lines = renderTable(columns, rows).split("\n");
        const shown = [columns.map((column) => column.title), ...rows.map((row) => columns.map((_, at) => row[at] ?? "-"))];
        const widths = columns.map((_, at) => Math.max(...shown.map((row) => Bun.stringWidth(row[at] ?? ""))));
        expect(lines).toHaveLength(shown.length);
        for (const [number, line] of lines.entries()) {
          expect(line).toBe(line.trimEnd());
          let rest = line;
          for (const [at, column] of columns.entries()) {
            const text = shown[number]?.[at] ?? "";
            const room = (widths[at] ?? 0) - Bun.stringWidth(text);
            const whole = column.align === "right" ? " ".repeat(room) + text : text + " ".repeat(room);
            const expected = at === columns.length - 1 ? whole : `${whole}  `;
            expect(rest.padEnd(expected.length).slice(0, expected.length)).toBe(expected);
            rest = rest.slice(expected.length);
          }
          expect(rest).toBe("");
        }
      },
    ),
  );
});
