/** `llmgw doctor`: why can this node not serve, and what to do about it. */

import { migModes } from "../doctor/cards.ts";
import { type Check, runChecks } from "../doctor/check.ts";
import { CHECKS } from "../doctor/checks.ts";
import { collectFacts, collectOptions } from "../doctor/collect.ts";
import type { Facts } from "../doctor/facts.ts";
import { waiversOf } from "../domain/agent-config.ts";
import { atLeast, type Finding, reportOf, type Severity, worstProblem } from "../domain/finding.ts";
import { defaultStateDir } from "../domain/state-dir.ts";
import { suggest } from "../lib/suggest.ts";
import type { Runner } from "../platform/runner.ts";
import { type Answer, defineCommand, usageError } from "./command.ts";
import type { Context } from "./context.ts";
import { renderCheckList, renderDoctor, renderExplanation, renderMonitor } from "./render-doctor.ts";

export const doctor = defineCommand({
  name: "doctor",
  summary: "what keeps this node from serving, and what to do about it",
  description:
    "Reads only, and ends within 15 s. Exit code 1 when there is a problem at or above --fail-on. What could not be found out is unknown, never ok.",
  flags: {
    json: { kind: "boolean", summary: "print the findings as data, ok ones included" },
    only: { kind: "string", hint: "ID[,ID]", multiple: true, summary: "report these checks and no others" },
    skip: { kind: "string", hint: "ID[,ID]", multiple: true, summary: "leave these checks out" },
    list: { kind: "boolean", summary: "list the checks" },
    explain: { kind: "string", hint: "ID", summary: "say what a check is about, what it reads and what to do" },
    "fail-on": {
      kind: "choice",
      choices: ["advise", "degrade", "block"],
      summary: "exit with 1 from this severity on; degrade unless given",
    },
    strict: { kind: "boolean", summary: "also exit with 1 when something is unknown" },
    bundle: {
      kind: "string",
      hint: "FILE.tar.gz",
      summary: "also write recording, findings and version for a bug report, identities replaced",
    },
    monitor: { kind: "boolean", summary: "one line for a monitoring agent: 0 fine, 1 degraded, 2 blocked, 3 only unknown" },
  },
  examples: [
    "llmgw doctor --bundle ./node-7.tar.gz",
    "llmgw doctor",
    "llmgw doctor --machine ecc-row-remap",
    "llmgw doctor --explain gpu-xid",
    "llmgw doctor --only driver-loaded,gpu-missing --json",
  ],
  run: async (ctx, args) => {
    if (args.list === true) return listAnswer();
    if (args.explain !== undefined) return explainAnswer(args.explain);
    if (args.monitor === true && args.json === true) {
      throw usageError("--monitor and --json contradict each other", "one prints a line, the other data", "give one of them");
    }
    if (args.bundle !== undefined) return (await import("./doctor-bundle.ts")).bundleAnswer(ctx, args.bundle);
    const [only, skip] = [idsOf(args.only), idsOf(args.skip)];
    const facts = await inspect(ctx);
    for (const { id } of waiversOf(facts.config)) {
      if (!CHECKS.some((check) => check.id === id)) ctx.log.warn("a waiver names no check", { id, near: suggest(id, CHECK_IDS) });
    }
    const clock = (): number => performance.now();
    const findings = runChecks(CHECKS, facts, { only, skip, waivers: waiversOf(facts.config), clock });
    if (args.monitor === true) return { data: reportOf(findings), ...renderMonitor(findings) };
    return {
      data: reportOf(findings),
      text: (view) => renderDoctor(facts.inventory, findings, { color: view.color, migModes: migModes(facts) }),
      exitCode: exitCodeOf(findings, args["fail-on"] ?? "degrade", args.strict === true),
    };
  },
});

const CHECK_IDS = CHECKS.map((check) => check.id);

export function exitCodeOf(findings: readonly Finding[], line: Severity, strict: boolean): 0 | 1 {
  const worst = worstProblem(findings);
  if (worst !== undefined && atLeast(worst, line)) return 1;
  return strict && findings.some((finding) => finding.result === "unknown") ? 1 : 0;
}

async function inspect(ctx: Context): Promise<Facts> {
  const runner = await ctx.runner();
  const options = await collectOptions(runner, ctx.env, ctx.signal);
  const progress = ctx.progress("looking at this node: driver, cards, adapters, kernel log, disks");
  try {
    const [facts, beside] = await Promise.all([collectFacts(runner, options), lookBeside(ctx, runner)]);
    return { ...facts, ...beside };
  } finally {
    progress.done();
  }
}

/** What an agent of this node knows, as far as this user may read its state: the way to its server, and cards that were here before. */
async function lookBeside(ctx: Context, runner: Runner): Promise<Pick<Facts, "controlPlane" | "remembered">> {
  const stateDir = runner.kind === "host" ? defaultStateDir("agent", ctx) : undefined;
  if (stateDir === undefined) return { controlPlane: undefined, remembered: undefined };
  const [{ joinedPlace, controlPlaneFacts }, { cardsFile, readKnownCards }] = await Promise.all([
    import("../agent/control-plane.ts"),
    import("../agent/known-cards.ts"),
  ]);
  const [place, remembered] = await Promise.all([joinedPlace(stateDir), readKnownCards(cardsFile(stateDir))]);
  const controlPlane = place === undefined ? undefined : await controlPlaneFacts(place, () => ctx.now().getTime(), ctx.signal);
  return { controlPlane, remembered };
}

function listAnswer(): Answer {
  const checks = CHECKS.map(({ id, group, severity, depends_on, title }) => ({ id, group, severity, depends_on, title }));
  return { data: { checks }, text: renderCheckList(CHECKS) };
}

function explainAnswer(id: string): Answer {
  const { judge: _judge, ...words } = checkOf(id);
  return { data: words, text: renderExplanation(words) };
}

function idsOf(given: readonly string[] | undefined): readonly string[] | undefined {
  const ids = given?.flatMap((text) => text.split(",")).map((id) => id.trim());
  return ids?.filter((id) => id !== "").map((id) => checkOf(id).id);
}

function checkOf(id: string): Check {
  const check = CHECKS.find((one) => one.id === id);
  if (check !== undefined) return check;
  const near = suggest(id, CHECK_IDS);
  throw usageError(
    `there is no check "${id}"`,
    "llmgw doctor --list names them all",
    near === undefined ? "choose one of them" : `did you mean ${near}?`,
  );
}
