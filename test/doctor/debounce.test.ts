import { expect, test } from "bun:test";
import fc from "fast-check";
import { activeFindings, DEBOUNCE, type DebounceState, debounce, effectsOf } from "../../src/doctor/debounce.ts";
import type { Finding, Result, Severity, Subject } from "../../src/domain/finding.ts";

function finding(
  result: Result,
  id = "gpu-thermal",
  severity: Severity = "degrade",
  subject: Subject = { kind: "gpu", index: 3 },
): Finding {
  return { id, group: "gpu", severity, result, subject, message: "words", evidence: [], fix: [], ms: 0 };
}

function after(results: readonly (Result | "none")[], id?: string): DebounceState {
  return results.reduce<DebounceState>(
    (state, result, n) => debounce(state, result === "none" ? [] : [finding(result, id)], `2026-11-30T12:0${n % 10}:00Z`),
    new Map(),
  );
}

test("a problem counts from its second run in a row and is over after two without it", () => {
  expect(activeFindings(after(["problem"]))).toEqual([]);
  expect(activeFindings(after(["problem", "problem"])).map((one) => one.since)).toEqual(["2026-11-30T12:00:00Z"]);
  expect(activeFindings(after(["problem", "problem", "ok"])).length).toBe(1);
  expect(activeFindings(after(["problem", "problem", "ok", "none"]))).toEqual([]);
});

test("a lost card counts at once", () => {
  expect(activeFindings(after(["problem"], "gpu-off-bus")).length).toBe(1);
});

test("what cannot be seen any more is neither confirmed nor cleared", () => {
  expect(activeFindings(after(["problem", "problem", "unknown", "skipped", "unknown", "skipped"])).length).toBe(1);
  expect(activeFindings(after(["problem", "unknown", "problem"]))).toEqual([]);
  const known = after(["problem", "problem"]);
  const hung = [finding("unknown", "gpu-thermal", "degrade", { kind: "node" })];
  expect(activeFindings(debounce(debounce(known, hung, "t"), hung, "t")).length).toBe(1);
});

const results = fc.array(fc.constantFrom<Result | "none">("problem", "ok", "unknown", "skipped", "waived", "none"), { maxLength: 30 });

test("whatever comes: alternating findings never count, two clean runs leave nothing, and what counts was seen twice in a row", () => {
  fc.assert(
    fc.property(results, (history) => {
      expect(activeFindings(after([...history, "ok", "ok"]))).toEqual([]);
      const pairs = history.some((result, at) => result === "problem" && history[at + 1] === "problem");
      if (!pairs) expect(activeFindings(after(history))).toEqual([]);
      const flicker = history.flatMap(() => ["problem", "ok"] as const);
      expect(activeFindings(after(flicker))).toEqual([]);
    }),
  );
});

test("the same findings again change nothing but the count: effects are stable", () => {
  fc.assert(
    fc.property(fc.integer({ min: DEBOUNCE.runs, max: 20 }), (runs) => {
      const state = after(Array.from({ length: runs }, () => "problem" as const));
      expect(effectsOf(activeFindings(state))).toEqual(effectsOf(activeFindings(after(["problem", "problem"]))));
    }),
  );
});

test("block takes a device out, makes a model not placeable, cordons the node; degrade prefers others; advise and the rest do nothing", () => {
  const kinds = (severity: Severity, subject: Subject, result: Result = "problem") =>
    effectsOf([finding(result, "x", severity, subject)]).map((effect) => effect.kind);
  expect(kinds("block", { kind: "gpu", index: 1 })).toEqual(["no-new-work"]);
  expect(kinds("block", { kind: "instance", label: "1/mig0" })).toEqual(["no-new-work"]);
  expect(kinds("block", { kind: "model", name: "chat" })).toEqual(["not-placeable"]);
  expect(kinds("block", { kind: "node" })).toEqual(["cordon"]);
  expect(kinds("degrade", { kind: "gpu", index: 1 })).toEqual(["prefer-others"]);
  expect(kinds("advise", { kind: "gpu", index: 1 })).toEqual([]);
  for (const result of ["ok", "waived", "skipped", "unknown"] as const) expect(kinds("block", { kind: "node" }, result)).toEqual([]);
});

test("every effect carries the finding's words", () => {
  expect(effectsOf([finding("problem")])).toEqual([{ kind: "prefer-others", subject: { kind: "gpu", index: 3 }, reason: "words" }]);
});
