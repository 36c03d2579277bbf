/** Nodes as people read them, a line each. Pure. */

import { painter } from "../../lib/color.ts";
import { renderTable } from "../../lib/table.ts";
import type { NodeView } from "../../protocol/api.ts";
import { ageText, healthText, offeredText, stateText } from "./words.ts";

/** `nowMs`: the moment at which the list is true, from which ages are counted. */
export function renderNodes(nodes: readonly NodeView[], nowMs: number, color: boolean): string {
  if (nodes.length === 0) return "no node has joined yet; make a token for one with: llmgw ctl token create";
  const paint = painter(color);
  return renderTable(
    [
      { title: "NODE" },
      { title: "STATE" },
      { title: "DEVICES" },
      { title: "HEALTH" },
      { title: "SEEN", align: "right" },
      { title: "VERSION" },
    ],
    nodes.map((node) => [
      node.node_id,
      stateText(node.state, paint),
      offeredText(node.summary),
      healthText(node, paint),
      ageText(node.last_seen_at, nowMs),
      node.agent_version,
    ]),
  );
}
