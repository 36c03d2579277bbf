/** `llmgw ctl fabrics`: which adapters of which nodes share a declared network. */
import { type Painter, painter } from "../../lib/color.ts";
import { renderTable } from "../../lib/table.ts";
import { type FabricPort, Fabrics, type FabricView } from "../../protocol/api.ts";
import { defineCommand } from "../command.ts";
import { ask } from "./client.ts";
import { SERVER_FLAGS, WATCH_FLAGS } from "./flags.ts";
import { show } from "./watch.ts";
import { counted } from "./words.ts";

export const fabrics = defineCommand({
  name: "fabrics",
  summary: "which adapters share a network, and what contradicts that",
  description: "Names are declared in agent.yaml of each node. What is observed can prove a declaration wrong, and never right.",
  flags: { ...WATCH_FLAGS, ...SERVER_FLAGS },
  examples: ["llmgw ctl fabrics", "llmgw ctl fabrics --json"],
  run: async (ctx, args) =>
    show(ctx, args, async (remote) => {
      const data = await ask(ctx, remote, { method: "GET", path: "/fabrics", answer: Fabrics });
      return { data, text: (view) => renderFabrics(data, painter(view.color)) };
    }),
});

function renderFabrics({ fabrics: declared, undeclared }: Fabrics, paint: Painter): string {
  if (declared.length === 0 && undeclared.length === 0) return "no fabric is declared, and no adapter has an ACTIVE port";
  const rest = `Not declared: ${counted(undeclared.length, "ACTIVE port")} that cannot host replicas of several nodes; name their fabric in agent.yaml`;
  return [
    ...declared.map((view) => fabricText(view, paint)),
    ...(undeclared.length === 0 ? [] : [`${rest}\n${portTable(undeclared, paint)}`]),
  ].join("\n\n");
}

function fabricText({ fabric, ports, contradictions }: FabricView, paint: Painter): string {
  const nodes = new Set(ports.map((port) => port.node_id)).size;
  return [
    `${paint.bold(fabric)}: ${counted(ports.length, "port")} of ${counted(nodes, "node")}`,
    portTable(ports, paint),
    ...contradictions.map((text) => `  ${paint.red("contradicted")}: ${text}`),
  ].join("\n");
}

function portTable(ports: readonly FabricPort[], paint: Painter): string {
  const number = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const table = renderTable(
    [
      { title: "NODE" },
      { title: "HCA" },
      { title: "PORT", align: "right" },
      { title: "STATE" },
      { title: "RATE", align: "right" },
      { title: "LINK" },
      { title: "GID PREFIX" },
      { title: "LID", align: "right" },
      { title: "SM LID", align: "right" },
    ],
    ports.map((port) => [
      port.node_id,
      port.adapter,
      String(port.port),
      port.state === "ACTIVE" ? paint.green(port.state) : port.state,
      // The rate of a port that is not ACTIVE is a placeholder.
      port.state === "ACTIVE" && port.rate_gbps !== undefined ? `${port.rate_gbps} Gb/s` : undefined,
      port.link_layer,
      port.gid_prefix,
      number(port.lid),
      number(port.sm_lid),
    ]),
  );
  return table
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}
