/** How `ctl` words what lists share: health, times, devices. Pure. */
import { type BriefSummary, devicesText, type NodeState, type ProblemCounts } from "../../domain/node.ts";
import type { Painter } from "../../lib/color.ts";
import { durationText } from "../../lib/duration.ts";

/** `2026-11-30 12:00:00Z`; what is no time stays as it is. */
export function timeText(iso: string): string {
  const ms = Date.parse(iso);
  return Number.isNaN(ms)
    ? iso
    : new Date(ms)
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z$/, "Z");
}

/** How long ago, by the clock of `nowMs`; `undefined` for what is not known. */
export function ageText(iso: string | undefined, nowMs: number): string | undefined {
  const ms = iso === undefined ? Number.NaN : Date.parse(iso);
  return Number.isNaN(ms) ? undefined : durationText(nowMs - ms);
}

/** `1 blocking, 2 degraded, 1 unknown`; empty when there is nothing. Advice changes nothing about a node's health. */
export function problemsText(problems: ProblemCounts, paint: Painter): string {
  return [
    problems.block > 0 ? paint.red(`${problems.block} blocking`) : "",
    problems.degrade > 0 ? paint.yellow(`${problems.degrade} degraded`) : "",
    problems.unknown > 0 ? paint.yellow(`${problems.unknown} unknown`) : "",
  ]
    .filter((text) => text !== "")
    .join(", ");
}

interface Judged {
  readonly summary?: BriefSummary | undefined;
  readonly problems?: ProblemCounts | undefined;
}

/** `ok` only for a node whose findings have arrived; `undefined` while nothing is known. */
export function healthText({ summary, problems }: Judged, paint: Painter): string | undefined {
  const found = problems === undefined ? "" : problemsText(problems, paint);
  // A finding that blocks speaks of the same cards.
  const devices = (problems?.block ?? 0) > 0 || summary === undefined ? [] : deviceProblems(summary);
  const words = [...(found === "" ? [] : [found]), ...devices.map((text) => paint.red(text))];
  if (words.length > 0) return words.join(", ");
  return problems === undefined ? undefined : paint.green("ok");
}

function deviceProblems({ source, devices, unusable_cards: unusable }: BriefSummary): readonly string[] {
  const sick = devices.reduce((sum, { count, healthy }) => sum + count - healthy, 0);
  return [
    ...(source === "unavailable" ? ["the driver does not answer"] : []),
    ...(sick > 0 ? [`${sick} ${sick === 1 ? "device" : "devices"} not healthy`] : []),
    ...(unusable > 0 ? [`${unusable} ${unusable === 1 ? "card" : "cards"} out of placement`] : []),
  ];
}

/** `undefined` when it is not known what a node has, which is something else than nothing. */
export function offeredText(summary: BriefSummary | undefined): string | undefined {
  if (summary === undefined || (summary.devices.length === 0 && summary.source === "unavailable")) return undefined;
  return summary.devices.length === 0 ? "none" : devicesText(summary.devices);
}

export function stateText(state: NodeState, paint: Painter): string {
  switch (state) {
    case "ready":
      return paint.green(state);
    case "late":
    case "cordoned":
    case "draining":
      return paint.yellow(state);
    case "lost":
      return paint.red(state);
    default:
      return state satisfies never;
  }
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Two columns, the first one padded, below each other; what is not known is left out. */
export function factLines(facts: readonly (readonly [string, string | undefined])[]): readonly string[] {
  const known = facts.filter(([, value]) => value !== undefined);
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}
