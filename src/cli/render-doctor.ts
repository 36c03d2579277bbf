/** Findings as people read them: one line for each area that is well, everything about what is not, the verdict last. Pure. */
import type { Check } from "../doctor/check.ts";
import { type Finding, Group, type Severity, subjectText, worstProblem } from "../domain/finding.ts";
import type { Inventory } from "../domain/inventory.ts";
import { type Painter, painter } from "../lib/color.ts";
import { renderTable } from "../lib/table.ts";

export interface DoctorView {
  readonly color: boolean;
  /** MIG mode of each card that can have instances, by index. */
  readonly migModes: ReadonlyMap<number, "on" | "off">;
}

/** Lines without a newline at the end of the last one. */
export function renderDoctor(inventory: Inventory, findings: readonly Finding[], view: DoctorView): string {
  return [nodeLine(inventory), "", renderFindings(inventory, findings, view)].join("\n");
}

/** The same without the line about the node. */
export function renderFindings(inventory: Pick<Inventory, "gpus"> | undefined, findings: readonly Finding[], view: DoctorView): string {
  const paint = painter(view.color);
  const groups = Group.options.flatMap((group) => {
    const own = findings.filter((finding) => finding.group === group);
    return own.length === 0
      ? []
      : groupLines(group, own, group === "mig" && inventory !== undefined ? instanceLines(inventory, view.migModes) : [], paint);
  });
  return [...groups, "", verdict(findings, paint)].join("\n");
}

function nodeLine(inventory: Inventory): string {
  const classes = new Map<string, number>();
  for (const gpu of inventory.gpus) classes.set(gpu.class, (classes.get(gpu.class) ?? 0) + 1);
  const facts = [
    inventory.driver_version === undefined ? undefined : `driver ${inventory.driver_version}`,
    ...[...classes].map(([name, count]) => `${name} × ${count}`),
  ].filter((fact) => fact !== undefined);
  return `Node ${inventory.hostname ?? "-"}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`;
}

function groupLines(group: string, findings: readonly Finding[], facts: readonly string[], paint: Painter): string[] {
  const notOk = foldSame(findings.filter((finding) => finding.result === "problem" || finding.result === "waived"));
  const unclear = foldSame(findings.filter((finding) => finding.result === "unknown"));
  return [
    `${group}: ${summary(findings)}`,
    ...facts.map((line) => `  ${line}`),
    ...notOk.flatMap((folded) => problemLines(folded, paint)),
    ...unclear.map(({ finding, subjects }) => `  ${paint.yellow("unknown")}  ${finding.id}${whom(finding, subjects)}: ${finding.message}`),
  ];
}

/** `13 checks ok, 2 skipped (no NVIDIA card on this node)`. A check counts as the worst that it says of anything. */
function summary(findings: readonly Finding[]): string {
  const order = ["problem", "unknown", "waived", "ok", "skipped"] as const;
  const byCheck = new Map<string, Finding[]>();
  for (const finding of findings) byCheck.set(finding.id, [...(byCheck.get(finding.id) ?? []), finding]);
  const worst = [...byCheck.values()].map((own) => order.find((result) => own.some((finding) => finding.result === result)) ?? "ok");
  const count = (result: string): number => worst.filter((one) => one === result).length;
  const skippedChecks = [...byCheck.values()].filter((_, at) => worst[at] === "skipped");
  const reasons = [...new Set(skippedChecks.flatMap((own) => own.map(reasonOf)))];
  const words = [
    [count("ok"), `${count("ok")} ${count("ok") === 1 ? "check" : "checks"} ok`],
    [count("problem"), `${count("problem")} with problems`],
    [count("waived"), `${count("waived")} waived`],
    [count("unknown"), `${count("unknown")} unknown`],
    [
      count("skipped"),
      `${count("skipped")} skipped${reasons.length === 0 ? "" : ` (${reasons.slice(0, MAX_REASONS).join("; ")}${reasons.length > MAX_REASONS ? "; …" : ""})`}`,
    ],
  ] as const;
  return words.flatMap(([n, text]) => (n === 0 ? [] : [text])).join(", ");
}

const MAX_REASONS = 2;

/** The reason without the name of its subject, so that eight cards give one. */
function reasonOf(finding: Finding): string {
  return finding.message.replace(/^card \S+?(:?) /, "a card$1 ").replace(/^\S+ port \d+(:?) /, "a port$1 ");
}

interface Folded {
  readonly finding: Finding;
  readonly subjects: readonly Finding["subject"][];
}

/** Cards with the same cause are one entry: the same check, severity and words, but for the card's number. */
function foldSame(findings: readonly Finding[]): readonly Folded[] {
  const folded = new Map<string, { finding: Finding; subjects: Finding["subject"][] }>();
  for (const finding of findings) {
    const key = `${finding.id} ${finding.severity} ${finding.result} ${withoutCard(finding)}`;
    const same = folded.get(key);
    if (same === undefined) folded.set(key, { finding, subjects: [finding.subject] });
    else same.subjects.push(finding.subject);
  }
  return [...folded.values()];
}

function withoutCard(finding: Finding): string {
  const { subject } = finding;
  if (subject.kind !== "gpu") return finding.message;
  return finding.message.replace(new RegExp(`card ${subject.index ?? subject.pci_bus_id ?? "-"}(?!\\w|:\\d)`), "card *");
}

/** ` (cards 0-3, 5)` where several are meant. */
function whom(finding: Finding, subjects: readonly Finding["subject"][]): string {
  if (subjects.length < 2) return "";
  const indexes = subjects.flatMap((subject) => (subject.kind === "gpu" && subject.index !== undefined ? [subject.index] : []));
  return indexes.length === subjects.length ? ` (cards ${ranges(indexes)})` : ` (${subjects.length} ${finding.subject.kind}s)`;
}

export function ranges(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const number of [...new Set(numbers)].toSorted((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(", ");
}

function problemLines({ finding, subjects }: Folded, paint: Painter): string[] {
  const many = subjects.length > 1;
  const word = finding.result === "waived" ? "waived" : finding.severity;
  const colour = finding.result === "waived" ? paint.yellow : severityPaint(finding.severity, paint);
  const text = many
    ? withoutCard(finding)
        .replace(/card \*:? ?/, "")
        .trim()
    : finding.message;
  return [
    `  ${colour(word)}  ${finding.id}${whom(finding, subjects)}: ${paint.bold(text)}`,
    ...finding.evidence.map(({ source, value, want }) => `      ${source}: ${value}${want === undefined ? "" : ` (want ${want})`}`),
    ...(finding.result === "waived" ? [] : finding.fix.flatMap((fix) => fixLines(fix, subjects))),
  ];
}

function severityPaint(severity: Severity, paint: Painter): (text: string) => string {
  switch (severity) {
    case "block":
      return paint.red;
    case "degrade":
      return paint.yellow;
    case "advise":
      return paint.green;
    default:
      return severity satisfies never;
  }
}

/** For several cards the command names them all: nvidia-smi's -i takes a list. */
function fixLines({ text, command, needs }: Finding["fix"][number], subjects: Folded["subjects"]): string[] {
  const indexes = subjects.flatMap((subject) => (subject.kind === "gpu" && subject.index !== undefined ? [subject.index] : []));
  const all = subjects.length > 1 && indexes.length === subjects.length;
  const asks = needs.length === 0 ? "" : ` [needs ${needs.join(", ")}]`;
  return [
    `      fix: ${text}${asks}`,
    ...(command === undefined ? [] : [`        $ ${all ? command.replace(/ -i \d+\b/g, ` -i ${indexes.join(",")}`) : command}`]),
  ];
}

/** Each card that can have instances, with those that it has. Cards with MIG off share a line. */
function instanceLines(inventory: Pick<Inventory, "gpus">, modes: DoctorView["migModes"]): string[] {
  const off = [...modes].flatMap(([card, mode]) => (mode === "off" ? [card] : []));
  const on = [...modes].flatMap(([card, mode]) => (mode === "on" ? [card] : []));
  return [
    ...on.map((card) => {
      const instances = inventory.gpus.filter((gpu) => gpu.mig?.card === card).map((gpu) => `${gpu.label} ${gpu.mig?.profile ?? "-"}`);
      return `card ${card}: MIG on, ${instances.length === 0 ? "nothing carved" : instances.join(", ")}`;
    }),
    ...(off.length === 0 ? [] : [`${off.length === 1 ? "card" : "cards"} ${ranges(off)}: MIG off`]),
  ];
}

function verdict(findings: readonly Finding[], paint: Painter): string {
  const count = (severity: Severity): number => findings.filter((one) => one.result === "problem" && one.severity === severity).length;
  const unknown = findings.filter((finding) => finding.result === "unknown").length;
  const waived = findings.filter((finding) => finding.result === "waived").length;
  const rest = [unknown > 0 ? `${unknown} unknown` : "", waived > 0 ? `${waived} waived` : ""].filter((text) => text !== "").join(", ");
  const tail = rest === "" ? "" : ` (${rest})`;
  const counts = (["block", "degrade", "advise"] as const).flatMap((severity) =>
    count(severity) === 0 ? [] : [`${count(severity)} ${severity}`],
  );
  switch (worstProblem(findings)) {
    case undefined:
      return `${unknown > 0 ? paint.yellow("Verdict: no problem found") : paint.green("Verdict: all well")}${tail}`;
    case "block":
      return `${paint.red("Verdict: something here cannot serve")}: ${counts.join(", ")}${tail}`;
    case "degrade":
      return `${paint.yellow("Verdict: this node serves, but slower or at risk")}: ${counts.join(", ")}${tail}`;
    case "advise":
      return `${paint.green("Verdict: this node can serve")}: ${counts.join(", ")}${tail}`;
    default:
      throw new Error("a severity that is not known");
  }
}

export function renderCheckList(checks: readonly Check[]): string {
  return renderTable(
    [{ title: "ID" }, { title: "GROUP" }, { title: "SEVERITY" }, { title: "HOLDS WHEN" }],
    checks.map((check) => [check.id, check.group, check.severity, check.title]),
  );
}

export function renderExplanation(check: Omit<Check, "judge">): string {
  const needs = check.depends_on.length === 0 ? [] : [`Skipped when one of these has a problem: ${check.depends_on.join(", ")}.`];
  return [`${check.id} (${check.group}, ${check.severity}): ${check.title}`, "", check.explain, ...needs].join("\n");
}

/** One line and an exit code, as monitoring agents want them: 0 fine, 1 degraded, 2 blocked, 3 nothing found but something unknown. */
export function renderMonitor(findings: readonly Finding[]): { readonly text: string; readonly exitCode: 0 | 1 | 2 | 3 } {
  const problems = findings.filter((finding) => finding.result === "problem");
  const unknown = findings.filter((finding) => finding.result === "unknown");
  const names = (list: readonly Finding[]): string => list.map((finding) => `${finding.id} ${subjectText(finding.subject)}`).join("; ");
  const worst = worstProblem(findings);
  if (worst === "block") return { text: `LLMGW CRITICAL: ${names(problems)}`, exitCode: 2 };
  if (worst === "degrade") return { text: `LLMGW WARNING: ${names(problems)}`, exitCode: 1 };
  if (unknown.length > 0) return { text: `LLMGW UNKNOWN: ${names(unknown)}`, exitCode: 3 };
  return { text: `LLMGW OK: ${problems.length === 0 ? "no problem" : `advice only: ${names(problems)}`}`, exitCode: 0 };
}
