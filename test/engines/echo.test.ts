import { expect, test } from "bun:test";
import fc from "fast-check";
import { echoOf, embeddingOf, responsesEvents, tokensOf, usageOf } from "../../src/engines/echo/answers.ts";
import { lastSaid } from "../../src/engines/echo/requests.ts";

const GIVEN = { id: "x", created: 1, model: "echo" };

test("tokens joined again are the text", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), (text) => expect(tokensOf(text).join("")).toBe(text)));
});

test("an answer is cut where it may not be longer, and says so", () => {
  const echo = echoOf(GIVEN, "one two three", "one two three", 2);
  expect([echo.tokens.join(""), echo.finish]).toEqual(["one two", "length"]);
  expect(usageOf(echo)).toEqual({ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 });
  expect(echoOf(GIVEN, "a", "a", 5).finish).toBe("stop");
  expect(echoOf(GIVEN, "", "", undefined).tokens.join("")).toBe("nothing was said");
});

test("what is repeated is what the user said last, whatever parts it has", () => {
  expect(
    lastSaid([
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
    ]),
  ).toBe("a");
  const parts = [{ type: "text", text: "x" }, { type: "image_url" }, { type: "text", text: "y" }];
  expect(lastSaid([{ role: "user", content: parts }])).toBe("xy");
  expect(lastSaid([{ role: "system", content: "only" }])).toBe("only");
});

test("an embedding has length 1, is the same for the same text, and hardly alike for another", () => {
  const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0);
  const [one, same, other] = [embeddingOf("hello"), embeddingOf("hello"), embeddingOf("goodbye")];
  expect(dot(one, one)).toBeCloseTo(1);
  expect(same).toEqual(one);
  expect(Math.abs(dot(one, other))).toBeLessThan(0.6);
  expect(embeddingOf("x", 7)).toHaveLength(7);
});

test("the events of a response are numbered, and its deltas make up its text", () => {
  const events = responsesEvents(echoOf(GIVEN, "p", "to be or not", undefined)).map((event) => event.data);
  expect(events.map((event) => event.type.replace("response.", ""))).toEqual([
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    ...Array.from({ length: 4 }, () => "output_text.delta"),
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
  ]);
  expect(events.map((event) => ("sequence_number" in event ? event.sequence_number : -1))).toEqual(events.map((_, at) => at));
  expect(events.flatMap((event) => ("delta" in event ? [event.delta] : [])).join("")).toBe("to be or not");
});
