import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { MAX_MESSAGE_BYTES, readAgentMessage, readServerMessage } from "../../src/protocol/messages.ts";
import { OLDEST_PROTOCOL, PROTOCOL } from "../../src/protocol/version.ts";

const FRAMES = join(import.meta.dir, "frames");
const AGENT_KINDS = ["hello", "inventory", "findings", "beat", "answer"];
const SERVER_KINDS = ["welcome", "refuse", "ack", "ask"];

test("there are frames of every accepted protocol number, with every kind", () => {
  for (let number = OLDEST_PROTOCOL; number <= PROTOCOL; number++) {
    const kinds = readdirSync(join(FRAMES, String(number))).map((file) => JSON.parse(frame(number, file)).kind);
    expect([...new Set(kinds)].sort()).toEqual([...AGENT_KINDS, ...SERVER_KINDS].sort());
  }
});

for (let number = OLDEST_PROTOCOL; number <= PROTOCOL; number++) {
  for (const file of readdirSync(join(FRAMES, String(number)))) {
    test(`the released frame ${number}/${file} is understood without a loss`, () => {
      const text = frame(number, file);
      const value = JSON.parse(text);
      const read = AGENT_KINDS.includes(value.kind) ? readAgentMessage(text) : readServerMessage(text);
      expect(read).toEqual({ kind: "message", message: value });
    });
  }
}

function frame(number: number, file: string): string {
  return readFileSync(join(FRAMES, String(number), file), "utf8");
}

test("keys of a newer version are ignored", () => {
  expect(readAgentMessage('{"kind":"beat","seq":1,"mood":"good"}')).toEqual({ kind: "message", message: { kind: "beat", seq: 1 } });
});

test("kinds of a newer version are unknown, and of the other direction too", () => {
  expect(readAgentMessage('{"kind":"poem"}')).toEqual({ kind: "unknown", name: "poem" });
  expect(readAgentMessage('{"kind":"welcome"}')).toEqual({ kind: "unknown", name: "welcome" });
});

test("what does not fit is malformed, with its place", () => {
  expect(readAgentMessage("{")).toEqual({ kind: "malformed", problem: "not JSON" });
  expect(readAgentMessage("[1]")).toEqual({ kind: "malformed", problem: "not an object with a kind" });
  expect(readAgentMessage('{"kind":"inventory","revision":0,"hash":"h","inventory":{}}')).toMatchObject({
    kind: "malformed",
    problem: expect.stringContaining("inventory at revision"),
  });
  expect(readServerMessage("x".repeat(MAX_MESSAGE_BYTES + 1))).toMatchObject({
    kind: "malformed",
    problem: expect.stringContaining("longer"),
  });
});

test("no text makes the readers throw", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json(),
        fc.jsonValue().map((value) => JSON.stringify({ kind: "ask", id: "1", question: value })),
      ),
      (text) => {
        for (const read of [readAgentMessage(text), readServerMessage(text)])
          expect(["message", "unknown", "malformed"]).toContain(read.kind);
      },
    ),
  );
});
