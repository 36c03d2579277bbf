/** `llmgw ctl status`: the cluster at a glance. */
import { devicesText } from "../../domain/node.ts";
import { painter } from "../../lib/color.ts";
import { Status } from "../../protocol/api.ts";
import { defineCommand } from "../command.ts";
import { ask } from "./client.ts";
import { SERVER_FLAGS, WATCH_FLAGS } from "./flags.ts";
import { show } from "./watch.ts";
import { ageText, counted, factLines, problemsText, stateText } from "./words.ts";

export const status = defineCommand({
  name: "status",
  summary: "the cluster at a glance",
  flags: { ...WATCH_FLAGS, ...SERVER_FLAGS },
  examples: [
    "llmgw ctl status",
    "llmgw ctl status --watch",
    "llmgw ctl status --server https://llmgw.example:8400 --token-file ./me.token",
  ],
  run: async (ctx, args) =>
    show(ctx, args, async (remote) => {
      const data = await ask(ctx, remote, { method: "GET", path: "/status", answer: Status });
      const { now: _now, ...lasting } = data.server;
      return { data, text: (view) => renderStatus(data, remote.url, view.color), news: { ...data, server: lasting } };
    }),
});

function renderStatus({ server, nodes, devices, problems, fabrics, attention }: Status, url: string, color: boolean): string {
  const paint = painter(color);
  const states = (["ready", "late", "lost", "cordoned", "draining"] as const).filter((state) => nodes[state] > 0);
  const total = states.reduce((sum, state) => sum + nodes[state], 0);
  const named = states.map((state) => `${nodes[state]} ${stateText(state, paint)}`).join(", ");
  const found = problemsText(problems, paint);
  const facts = factLines([
    ["cluster", server.cluster_id],
    ["server", `${server.version} at ${url}, up ${ageText(server.started_at, Date.parse(server.now)) ?? "-"}`],
    ["store", server.store],
    ["access", server.open_access === true ? paint.red("open: no token is asked for") : undefined],
    ["nodes", total === 0 ? "none yet: llmgw ctl token create" : `${total}: ${named}`],
    ["devices", devices.length === 0 ? "none" : devicesText(devices)],
    ["problems", found === "" ? paint.green("none") : found],
    ["fabrics", fabrics.length === 0 ? "none declared" : fabrics.map((fabric) => fabricText(fabric)).join(", ")],
  ]);
  return [...facts, ...(attention.length === 0 ? [] : ["", "Look at", ...attention.map((line) => `  ${paint.yellow(line)}`)])].join("\n");
}

function fabricText({ fabric, nodes, contradictions }: Status["fabrics"][number]): string {
  const contradicted = contradictions === 0 ? "" : `, ${counted(contradictions, "contradiction")}`;
  return `${fabric} (${counted(nodes, "node")}${contradicted})`;
}
