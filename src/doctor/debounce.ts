/**
 * What an agent makes of findings run after run. `llmgw doctor` reports what is true now; an agent must not move work at every flicker.
 * Pure: the state before and what was found give the state after.
 */
import { type Finding, type Result, type Severity, type Subject, subjectText } from "../domain/finding.ts";

/** Runs until a problem counts, and until it is over. */
export interface DebounceOptions {
  readonly runs: number;
  /** Checks that count at once, such as a card that is gone. */
  readonly atOnce: readonly string[];
}

export const DEBOUNCE: DebounceOptions = { runs: 2, atOnce: ["gpu-off-bus", "gpu-missing", "cp-tls"] };

interface Tracked {
  /** The last finding that was a problem, for its words. */
  readonly finding: Finding;
  /** Runs in a row that showed it, or did not. */
  readonly seen: number;
  readonly missed: number;
  readonly active: boolean;
  /** When it was first seen in this stretch. */
  readonly since: string;
}

/** By check and subject. Start with an empty one. */
export type DebounceState = ReadonlyMap<string, Tracked>;

/**
 * The state after one run. A problem becomes active when seen on `runs` runs in a row, and is over when it was missed on as many.
 * `unknown` and `skipped` neither confirm nor clear: a driver that hangs must not make a lost card look well.
 */
export function debounce(
  before: DebounceState,
  findings: readonly Finding[],
  now: string,
  options: DebounceOptions = DEBOUNCE,
): DebounceState {
  const found = new Map(findings.map((finding) => [keyOf(finding), finding]));
  const after = new Map<string, Tracked>();
  for (const key of new Set([...before.keys(), ...found.keys()])) {
    const next = step(before.get(key), found.get(key) ?? sisterOf(before.get(key), findings), now, options);
    if (next !== undefined) after.set(key, next);
  }
  return after;
}

function keyOf(finding: Finding): string {
  return `${finding.id} ${subjectText(finding.subject)}`;
}

/** A check that now speaks of the node instead of the subject, as when the driver stopped answering. */
function sisterOf(before: Tracked | undefined, findings: readonly Finding[]): Finding | undefined {
  return before === undefined ? undefined : findings.find((one) => one.id === before.finding.id && one.subject.kind === "node");
}

function step(before: Tracked | undefined, finding: Finding | undefined, now: string, options: DebounceOptions): Tracked | undefined {
  const result: Result = finding?.result ?? "ok";
  if (result === "problem" && finding !== undefined) {
    const seen = (before?.seen ?? 0) + 1;
    const wanted = options.atOnce.includes(finding.id) ? 1 : options.runs;
    const since = before?.since ?? now;
    return { finding: { ...finding, since }, seen, missed: 0, active: before?.active === true || seen >= wanted, since };
  }
  if (before === undefined) return undefined;
  if (result === "unknown" || result === "skipped") return { ...before, seen: before.active ? before.seen : 0 };
  const missed = before.missed + 1;
  return !before.active || missed >= options.runs ? undefined : { ...before, seen: 0, missed };
}

/** Problems that count, with the time at which each was first seen. */
export function activeFindings(state: DebounceState): readonly Finding[] {
  return [...state.values()].filter((tracked) => tracked.active).map((tracked) => tracked.finding);
}

/** What a finding does to placement. */
export type Effect =
  | { readonly kind: "no-new-work"; readonly subject: Subject; readonly reason: string }
  | { readonly kind: "not-placeable"; readonly model: string; readonly reason: string }
  | { readonly kind: "cordon"; readonly reason: string }
  | { readonly kind: "prefer-others"; readonly subject: Subject; readonly reason: string };

/**
 * `block` takes a card or instance out of placement, makes a model not placeable here, or cordons the node; `degrade` makes the placer
 * prefer others; `advise` does nothing. What runs keeps running: ending it is nobody's effect. `unknown` does
 * nothing by itself, so a start-up in which little is known yet needs no grace of its own.
 */
export function effectsOf(findings: readonly Finding[]): readonly Effect[] {
  return findings.flatMap((finding) => (finding.result === "problem" ? effectOf(finding.severity, finding) : []));
}

function effectOf(severity: Severity, { subject, message: reason }: Finding): readonly Effect[] {
  switch (severity) {
    case "block":
      return [blocked(subject, reason)];
    case "degrade":
      return [{ kind: "prefer-others", subject, reason }];
    case "advise":
      return [];
    default:
      return severity satisfies never;
  }
}

function blocked(subject: Subject, reason: string): Effect {
  switch (subject.kind) {
    case "gpu":
    case "instance":
    case "adapter":
    case "port":
    case "engine":
      return { kind: "no-new-work", subject, reason };
    case "model":
      return { kind: "not-placeable", model: subject.name, reason };
    case "node":
    case "path":
      return { kind: "cordon", reason };
    default:
      return subject satisfies never;
  }
}
