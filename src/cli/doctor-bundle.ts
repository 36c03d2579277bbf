/**
 * `llmgw doctor --bundle FILE`: what a bug report needs, in one file. The findings are those of the recording, not of the host: so they
 * hold the replaced names, and whoever opens the bundle sees the same.
 */
import { resolve } from "node:path";
import { replayedModelDirs } from "../discovery/options.ts";
import { migModes } from "../doctor/cards.ts";
import { runChecks } from "../doctor/check.ts";
import { CHECKS } from "../doctor/checks.ts";
import { collectFacts, collectOptions } from "../doctor/collect.ts";
import { withExcerpts } from "../doctor/collect-driver.ts";
import { waiversOf } from "../domain/agent-config.ts";
import { reportOf } from "../domain/finding.ts";
import { UserError } from "../lib/user-error.ts";
import { checkBundleFile, createBundle, discardRecording, recordForBundle } from "../platform/bundle.ts";
import { openMachine } from "../platform/machine.ts";
import { createRecorder } from "../platform/recorder.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";
import type { Answer } from "./command.ts";
import type { Context } from "./context.ts";
import { renderDoctor } from "./render-doctor.ts";
import { versionLine } from "./version.ts";

export async function bundleAnswer(ctx: Context, given: string): Promise<Answer> {
  const file = resolve(given);
  checkBundleFile(file);
  const host = await ctx.runner();
  const { discover } = await collectOptions(host, ctx.env);
  const recorder = createRecorder(withExcerpts(host), [...discover.modelDirs, ...replayedModelDirs(host.home)]);
  let machine: string | undefined;
  const progress = ctx.progress("looking at this node: all that doctor reads");
  try {
    // Asked through the recorder, so that it is masked as all else is.
    await agentLog(recorder.runner);
    const seen = await collectFacts(recorder.runner, await collectOptions(recorder.runner, ctx.env, ctx.signal));
    const users = [ctx.env.USER, ctx.env.LOGNAME, ctx.env.SUDO_USER].filter((name) => name !== undefined);
    const about = `recorded by llmgw doctor --bundle; ${seen.inventory.gpus.length} devices`;
    const hostnames = seen.inventory.hostname === undefined ? [] : [seen.inventory.hostname];
    machine = recordForBundle(recorder, { about, raw: false, users, hostnames });
    const recorded = await openMachine(machine, { waits: "skip" });
    const facts = await collectFacts(recorded, await collectOptions(recorded, {}));
    const findings = runChecks(CHECKS, facts, { waivers: waiversOf(facts.config) });
    const bundle = createBundle(file, machine, {
      "version.txt": `${versionLine()}\n`,
      "findings.json": `${JSON.stringify(reportOf(findings), undefined, 2)}\n`,
      "doctor.txt": `${renderDoctor(facts.inventory, findings, { color: false, migModes: migModes(facts) })}\n`,
      "agent-log.txt": await agentLog(recorded),
    });
    // Told before it is written, so that an interrupt leaves nothing.
    for (const path of bundle.paths) ctx.log.info("into the bundle", { path });
    bundle.write();
    return {
      data: { file, paths: bundle.paths },
      text: `${file}: ${bundle.paths.length} files, identities replaced. Look at it before you share it.`,
    };
  } finally {
    progress.done();
    if (machine !== undefined) discardRecording(machine);
  }
}

/** The last lines of the agent's unit. One that runs otherwise writes to its own stderr, which nobody keeps for us. */
async function agentLog(runner: Runner): Promise<string> {
  const nothing = "no log of a unit llmgw-agent was found; an agent that runs otherwise logs to its stderr\n";
  try {
    const words = ["journalctl", "-u", "llmgw-agent", "-b", "--no-pager", "-o", "short-iso", "-n", "500"];
    const result = await runner.exec(words, { timeoutMs: 3_000, maxBytes: 512 * 1024 });
    return result === undefined || result.exitCode !== 0 || result.stdout.trim() === "" ? nothing : result.stdout;
  } catch (error) {
    // A journal that hangs, or a recorded machine that was never asked for it.
    if (error instanceof RunnerError || error instanceof UserError) return nothing;
    throw error;
  }
}
