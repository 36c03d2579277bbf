/** `llmgw ctl doctor NODE`: the agent of a node looks at itself, as `llmgw doctor` does there. */
import { DoctorReport } from "../../domain/finding.ts";
import type { Inventory } from "../../domain/inventory.ts";
import { NodeDetail } from "../../protocol/api.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { exitCodeOf } from "../doctor.ts";
import { renderDoctor } from "../render-doctor.ts";
import { ask } from "./client.ts";
import { connect, type Remote } from "./connect.ts";
import { SERVER_FLAGS } from "./flags.ts";
import { nodeName } from "./nodes.ts";
import { knownModes } from "./render-node.ts";

/** The server gives an agent 20 s. */
const TIMEOUT_MS = 25_000;

export const doctor = defineCommand({
  name: "doctor",
  summary: "has a node look at itself: what keeps it from serving",
  description: "Reads only, and ends within 25 s. Exit code 1 when there is a problem at or above --fail-on.",
  flags: {
    "fail-on": {
      kind: "choice",
      choices: ["advise", "degrade", "block"],
      summary: "exit with 1 from this severity on; degrade unless given",
    },
    strict: { kind: "boolean", summary: "also exit with 1 when something is unknown" },
    ...SERVER_FLAGS,
  },
  positionals: [{ name: "NODE", summary: "name of the node, as llmgw ctl nodes lists it", required: true }],
  examples: ["llmgw ctl doctor gpu-01", "llmgw ctl doctor gpu-01 --fail-on block --json"],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    const remote = await connect(ctx, args);
    const report = await askAgent(ctx, remote, node);
    // What it has is told beside what is wrong; a server that has no inventory yet costs that line only.
    const { inventory } = await ask(ctx, remote, { method: "GET", path: `/nodes/${node}`, answer: NodeDetail });
    const shown: Inventory = { ...(inventory ?? NOTHING_KNOWN), hostname: node };
    return {
      data: report,
      text: (view) => renderDoctor(shown, report.findings, { color: view.color, migModes: knownModes(inventory) }),
      exitCode: exitCodeOf(report.findings, args["fail-on"] ?? "degrade", args.strict === true),
    };
  },
});

const NOTHING_KNOWN: Inventory = { source: "unavailable", gpus: [], unusable_cards: [], hcas: [], weights: [], storage: [], warnings: [] };

async function askAgent(ctx: Context, remote: Remote, node: string): Promise<DoctorReport> {
  const progress = ctx.progress(`${node} looks at itself: driver, cards, adapters, kernel log, disks`);
  try {
    return await ask(ctx, remote, { method: "POST", path: `/nodes/${node}/doctor`, answer: DoctorReport, timeoutMs: TIMEOUT_MS });
  } finally {
    progress.done();
  }
}
