/** What a check is, and how a list of them becomes findings. Pure: facts in, findings out; the only clock is the one of `ms`. */
import type { Waiver } from "../domain/agent-config.ts";
import { type Evidence, type Finding, type Fix, type Group, type Severity, type Subject, subjectText } from "../domain/finding.ts";
import { compact } from "../lib/compact.ts";
import { messageOf } from "../lib/user-error.ts";
import type { Facts } from "./facts.ts";

/** What a check says of one subject; the node when none is named. */
export type Verdict =
  | {
      readonly result: "ok" | "skipped" | "unknown";
      readonly subject?: Subject;
      readonly message: string;
      readonly evidence?: readonly Evidence[];
    }
  | {
      readonly result: "problem";
      readonly subject?: Subject;
      /** Where it differs from the check's own. */
      readonly severity?: Severity;
      readonly message: string;
      readonly evidence: readonly Evidence[];
      readonly fix: readonly Fix[];
    };

export interface Check {
  /** Stable: scripts, waivers and links depend on it; never reused. */
  readonly id: string;
  readonly group: Group;
  /** Its usual severity. */
  readonly severity: Severity;
  /** Checks whose problem explains this one's: then this one is skipped. */
  readonly depends_on: readonly string[];
  /** What holds when all is well, in a few words. */
  readonly title: string;
  /** Why it matters, what is read, what to do: the text of `--explain`. */
  readonly explain: string;
  readonly judge: (facts: Facts) => readonly Verdict[];
}

export interface RunOptions {
  /** Only these are reported; what they depend on is judged as well. */
  readonly only?: readonly string[] | undefined;
  readonly skip?: readonly string[] | undefined;
  readonly waivers?: readonly Waiver[] | undefined;
  /** Clock for `ms`, ms. Without one every check takes 0. */
  readonly clock?: (() => number) | undefined;
}

/** Findings in the order of the checks. A check that throws becomes one `unknown`: one bug must not blank the report. */
export function runChecks(checks: readonly Check[], facts: Facts, options: RunOptions = {}): readonly Finding[] {
  const judged = new Map<string, readonly Finding[]>();
  const clock = options.clock ?? (() => 0);
  for (const check of inOrder(checks)) {
    const from = clock();
    const verdicts = judgeSafely(check, facts);
    const ms = Math.max(0, Math.round(clock() - from));
    const causes = check.depends_on.flatMap((id) => (judged.get(id) ?? []).filter((finding) => finding.result === "problem"));
    judged.set(check.id, fold(verdicts.map((verdict) => explainedBy(causes, toFinding(check, verdict, ms)))));
  }
  const wanted = checks.filter((check) => (options.only?.includes(check.id) ?? true) && options.skip?.includes(check.id) !== true);
  return wanted.flatMap((check) => (judged.get(check.id) ?? []).map((finding) => waived(finding, options.waivers ?? [], facts.nowMs)));
}

/** Causes before symptoms. */
function inOrder(checks: readonly Check[]): readonly Check[] {
  const byId = new Map(checks.map((check) => [check.id, check]));
  const done = new Set<Check>();
  const visit = (check: Check, above: readonly string[]): void => {
    if (done.has(check) || above.includes(check.id)) return;
    for (const id of check.depends_on) {
      const cause = byId.get(id);
      if (cause !== undefined) visit(cause, [...above, check.id]);
    }
    done.add(check);
  };
  for (const check of checks) visit(check, []);
  return [...done];
}

function judgeSafely(check: Check, facts: Facts): readonly Verdict[] {
  try {
    const verdicts = check.judge(facts);
    return verdicts.length > 0 ? verdicts : [{ result: "skipped", message: "nothing here that it is about" }];
  } catch (error) {
    return [{ result: "unknown", message: `this check failed itself, which is a bug in llmgw: ${messageOf(error)}` }];
  }
}

function toFinding(check: Check, verdict: Verdict, ms: number): Finding {
  return {
    id: check.id,
    group: check.group,
    severity: verdict.result === "problem" ? (verdict.severity ?? check.severity) : check.severity,
    result: verdict.result,
    subject: verdict.subject ?? { kind: "node" },
    // Words of the machine itself may be empty; a line must not be.
    message: verdict.message.trim() === "" ? "no reason is given" : verdict.message,
    evidence: (verdict.evidence ?? []).map((one) => compact(one)),
    fix: verdict.result === "problem" ? verdict.fix.map((fix) => compact({ ...fix, needs: [...fix.needs] })) : [],
    ms,
  };
}

/** A finding whose cause is known is no news: a problem of the node explains all, one of a card what is said of that card. */
function explainedBy(causes: readonly Finding[], finding: Finding): Finding {
  if (finding.result === "skipped") return finding;
  const cause = causes.find((one) => explains(one.subject, finding.subject));
  if (cause === undefined) return finding;
  return { ...finding, result: "skipped", message: `needs ${cause.id}`, evidence: [], fix: [] };
}

function explains(cause: Subject, subject: Subject): boolean {
  if (cause.kind === "node" || subject.kind === "node") return true;
  const key = (of: Subject): string | undefined => ("pci_bus_id" in of ? of.pci_bus_id : undefined);
  return (key(cause) !== undefined && key(cause) === key(subject)) || subjectText(cause) === subjectText(subject);
}

/** Several of one subject with the same words are one. */
function fold(findings: readonly Finding[]): readonly Finding[] {
  const seen = new Set<string>();
  return findings.filter((finding) => {
    const key = `${finding.result} ${subjectText(finding.subject)} ${finding.message}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

function waived(finding: Finding, waivers: readonly Waiver[], nowMs: number): Finding {
  if (finding.result !== "problem") return finding;
  const waiver = waivers.find((one) => one.id === finding.id && holds(one, nowMs) && matches(one.subject, subjectText(finding.subject)));
  return waiver === undefined ? finding : { ...finding, result: "waived", message: `${finding.message} (waived: ${waiver.reason})` };
}

const DAY_MS = 86_400_000;

/** A bare date counts to its end; a time that cannot be read counts for nothing. */
function holds(waiver: Waiver, nowMs: number): boolean {
  if (waiver.until === undefined) return true;
  const until = Date.parse(waiver.until);
  return nowMs < (/^\d{4}-\d{2}-\d{2}$/.test(waiver.until) ? until + DAY_MS : until);
}

/** `*` stands for any text. */
function matches(pattern: string | undefined, subject: string): boolean {
  if (pattern === undefined) return true;
  const parts = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i").test(subject);
}
