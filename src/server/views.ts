/** What the API shows of nodes and of the whole, from what is stored and what is heard at this moment. Pure. */
import { briefly, type InventorySummary, type NodeSigns, nodeState, type ProblemCounts, type Silence } from "../domain/node.ts";
import { compact } from "../lib/compact.ts";
import type { Fabrics, NodeView, Status } from "../protocol/api.ts";
import { fabricViews } from "./fabrics.ts";
import type { LiveNode } from "./sessions.ts";
import type { NodeRow } from "./store/store.ts";

/** The moment at which a view is true. */
export interface Moment {
  readonly nowMs: number;
  readonly listeningSinceMs: number;
  readonly silence: Silence;
  /** The nodes that talk to this server. */
  readonly connected: ReadonlyMap<string, LiveNode>;
  /** Last message heard here, connected or not. */
  readonly lastSeenMs: (nodeId: string) => number | undefined;
}

/** With the whole summary, for what is made of many nodes; `/nodes` shows less (`listed`). */
export type FullNodeView = NodeView & { readonly summary?: InventorySummary };

/** As a list shows it. */
export function listed({ summary, ...view }: FullNodeView): NodeView {
  return summary === undefined ? view : { ...view, summary: briefly(summary) };
}

export function nodeView(row: NodeRow, moment: Moment): FullNodeView {
  const live = moment.connected.get(row.node_id);
  const lastSeenMs = later(row.last_seen_ms, moment.lastSeenMs(row.node_id));
  const signs: NodeSigns = {
    connected: live !== undefined,
    lastSeenMs,
    joinedMs: row.joined_ms,
    cordoned: row.cordoned,
    draining: row.draining,
  };
  return {
    node_id: row.node_id,
    state: nodeState(signs, moment.nowMs, moment.listeningSinceMs, moment.silence),
    connected: live !== undefined,
    cordoned: row.cordoned,
    draining: row.draining,
    joined_at: timeOf(row.joined_ms),
    ...compact({
      cordon_reason: row.cordon_reason,
      last_seen_at: lastSeenMs === undefined ? undefined : timeOf(lastSeenMs),
      hostname: row.hostname,
      mgmt_addr: row.mgmt_addr ?? live?.remote,
      agent_version: row.agent_version,
      machine: row.machine,
      summary: row.summary,
      problems: row.problems,
    }),
  };
}

export function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

function later(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.max(one, other);
}

/** Everything of a status but what it says of the server itself. */
export function statusOf(nodes: readonly FullNodeView[]): Omit<Status, "server"> {
  const states = { ready: 0, late: 0, lost: 0, cordoned: 0, draining: 0 };
  for (const node of nodes) states[node.state]++;
  const there = nodes.filter((node) => node.state !== "lost");
  const devices = new Map<string, { count: number; healthy: number }>();
  for (const { class: name, count, healthy } of there.flatMap((node) => node.summary?.devices ?? [])) {
    const before = devices.get(name) ?? { count: 0, healthy: 0 };
    devices.set(name, { count: before.count + count, healthy: before.healthy + healthy });
  }
  const problems: ProblemCounts = { block: 0, degrade: 0, advise: 0, unknown: 0 };
  for (const counts of there.flatMap((node) => node.problems ?? [])) {
    for (const key of ["block", "degrade", "advise", "unknown"] as const) problems[key] += counts[key];
  }
  const fabrics = fabricViews(there);
  return {
    nodes: states,
    devices: [...devices].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([name, counts]) => ({ class: name, ...counts })),
    problems,
    fabrics: fabrics.fabrics.map((view) => ({
      fabric: view.fabric,
      nodes: new Set(view.ports.map((port) => port.node_id)).size,
      contradictions: view.contradictions.length,
    })),
    attention: attentionOf(nodes, fabrics),
  };
}

/** The worst first, each as one line with the command that tells more. */
function attentionOf(nodes: readonly NodeView[], fabrics: Fabrics): readonly string[] & string[] {
  const named = (which: readonly NodeView[]): string => {
    const names = which.slice(0, 5).map((node) => node.node_id);
    return which.length > names.length ? `${names.join(", ")} and ${which.length - names.length} more` : names.join(", ");
  };
  const line = (which: readonly NodeView[], one: string, many: string, command: string): readonly string[] =>
    which.length === 0 ? [] : [`${which.length} ${which.length === 1 ? one : many}: ${named(which)} (${command})`];
  const lost = nodes.filter((node) => node.state === "lost");
  const late = nodes.filter((node) => node.state === "late");
  const blocked = nodes.filter((node) => node.state !== "lost" && (node.problems?.block ?? 0) > 0);
  const show = (which: readonly NodeView[]): string => `llmgw ctl nodes show ${which.length === 1 ? (which[0]?.node_id ?? "") : "NODE"}`;
  return [
    ...line(lost, "node is lost", "nodes are lost", show(lost)),
    ...line(blocked, "node has problems that block new work", "nodes have problems that block new work", show(blocked)),
    ...line(late, "node is late", "nodes are late", show(late)),
    ...fabrics.fabrics
      .filter((view) => view.contradictions.length > 0)
      .map((view) => `fabric "${view.fabric}" is declared and contradicted by what its ports show (llmgw ctl fabrics)`),
  ];
}
