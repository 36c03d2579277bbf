import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLog, LOG_LEVELS, type Log, type LogLevel } from "../../src/lib/log.ts";

function collecting(level: LogLevel): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  return { log: createLog({ level, write: (line) => void lines.push(line), now: () => new Date("2026-11-30T12:00:00Z") }), lines };
}

test("one line: time, level, message, fields in their order", () => {
  const { log, lines } = collecting("info");
  log.info("engine ready", { replica: "chat-0", port: 8000, took_ms: 12.5, adopted: true });
  expect(lines).toEqual(["2026-11-30T12:00:00.000Z info engine ready replica=chat-0 port=8000 took_ms=12.5 adopted=true\n"]);
});

describe("a level shows itself and what is graver", () => {
  for (const [at, level] of LOG_LEVELS.entries()) {
    test(level, () => {
      const { log, lines } = collecting(level);
      for (const each of LOG_LEVELS) log[each]("said");
      expect(lines.map((line) => line.split(" ")[1])).toEqual(LOG_LEVELS.slice(0, at + 1));
    });
  }
});

test("the same line twice is two lines: whoever writes decides what is a repeat", () => {
  const { log, lines } = collecting("info");
  for (let n = 0; n < 10; n++) log.warn("card lost", { device: "GPU-1" });
  expect(lines).toHaveLength(10);
});

test("a field without a value is left out", () => {
  const { log, lines } = collecting("info");
  log.info("seen", { node: undefined, pid: 0, name: "" });
  expect(lines[0]).toEndWith(' info seen pid=0 name=""\n');
});

test("a value is quoted where a reader could not tell where it ends", () => {
  const { log, lines } = collecting("info");
  log.info("x", { plain: "a-b/c:d", space: "a b", quote: 'say "x"', equals: "a=b", wide: "a\u2003b" });
  expect(lines[0]).toEndWith(' plain=a-b/c:d space="a b" quote="say \\"x\\"" equals="a=b" wide="a\u2003b"\n');
});

test("control characters never reach the terminal, whatever their age", () => {
  const { log, lines } = collecting("info");
  log.info("x", {
    esc: "\u001b[31m",
    bell: "\u0007",
    lines: "a\nb\rc",
    del: "\u007f",
    c1: "\u009b31m",
    separator: "a\u2028b",
    bidi: "a\u202eb",
  });
  expect(lines[0]).toEndWith(
    ' esc="\\u001b[31m" bell="\\u0007" lines="a\\nb\\rc" del="\\u007f" c1="\\u009b31m" separator="a\\u2028b" bidi="a\\u202eb"\n',
  );
});

test("any value makes exactly one line, and a quoted one reads back as JSON", () => {
  fc.assert(
    fc.property(
      fc.string({
        unit: fc.oneof(
          fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
          fc.constantFrom("\u009b", "\u{e0001}", '"', "=", " ", "\ud800"),
        ),
      }),
      (value) => {
        const { log, lines } = collecting("info");
        log.info("x", { value });
        expect(lines).toHaveLength(1);
        const shown = (lines[0] ?? "").slice("2026-11-30T12:00:00.000Z info x value=".length, -1);
        expect(shown).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
        expect(shown.startsWith('"') ? JSON.parse(shown) : shown).toBe(value);
      },
    ),
  );
});
