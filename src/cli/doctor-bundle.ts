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
import { checkBundleFile, createBundle, discardRecording, recordForBundle } from "../platform/bundle.ts";
import { openMachine } from "../platform/machine.ts";
import { createRecorder } from "../platform/recorder.ts";
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
      "agent-log.txt": "no agent has run here\n",
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
