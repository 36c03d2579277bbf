/** What the control plane knows of a node: its state, and what it offers in a few numbers. Pure. */
import * as v from "valibot";
import type { Finding, Severity } from "./finding.ts";
import type { Inventory } from "./inventory.ts";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Text = v.string();

/** A node's name in the cluster. It stands in URLs, metrics and file names. */
export const NodeId = v.pipe(
  v.string(),
  v.regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/i,
    "a name of at most 63 letters, digits, '.', '_' and '-', a letter or digit at both ends",
  ),
);

export const NodeState = v.picklist(["ready", "late", "lost", "cordoned", "draining"]);
export type NodeState = v.InferOutput<typeof NodeState>;

/** Silence after which a node is late (nothing new is placed there) and lost (its replicas are placed elsewhere after a grace time). */
export interface Silence {
  readonly lateMs: number;
  readonly lostMs: number;
}

export const SILENCE: Silence = { lateMs: 25_000, lostMs: 90_000 };

export interface NodeSigns {
  readonly connected: boolean;
  /** Last message, ms since 1970; `undefined` when it never said anything. */
  readonly lastSeenMs: number | undefined;
  readonly joinedMs: number;
  readonly cordoned: boolean;
  readonly draining: boolean;
}

/**
 * The one word for a node. Silence outweighs what the operator wished: a cordoned node that is lost is lost. `listeningSinceMs` is when
 * this server began to listen: nobody could be heard before, and a restart of the server makes no node late.
 */
export function nodeState(signs: NodeSigns, nowMs: number, listeningSinceMs: number, silence: Silence = SILENCE): NodeState {
  const silentMs = nowMs - Math.max(signs.lastSeenMs ?? signs.joinedMs, listeningSinceMs);
  if (silentMs > silence.lostMs) return "lost";
  if (silentMs > silence.lateMs) return "late";
  if (signs.draining) return "draining";
  return signs.cordoned ? "cordoned" : "ready";
}

export const ClassCount = v.object({
  class: Text,
  count: Count,
  healthy: v.pipe(Count, v.description("Those that something new may be placed on")),
});
export type ClassCount = v.InferOutput<typeof ClassCount>;

export const AdapterPlace = v.object({
  adapter: Text,
  port: Count,
  fabric: v.optional(v.pipe(Text, v.description("As declared in agent.yaml"))),
  state: v.optional(Text),
  link_layer: v.optional(Text),
  rate_gbps: v.optional(v.number()),
  gid_prefix: v.optional(Text),
  lid: v.optional(Count),
  sm_lid: v.optional(Count),
});
export type AdapterPlace = v.InferOutput<typeof AdapterPlace>;

/** An inventory in a few numbers: what lists of nodes show without reading a thousand inventories. */
export const InventorySummary = v.object({
  source: Text,
  driver_version: v.optional(Text),
  memory_total_mb: v.optional(Count),
  devices: v.array(ClassCount),
  unusable_cards: Count,
  weights: v.pipe(v.array(Text), v.description("Names of complete weights")),
  ports: v.array(AdapterPlace),
  nvlink_domains: v.pipe(v.array(Text), v.description("cluster UUID/clique of its cards")),
});
export type InventorySummary = v.InferOutput<typeof InventorySummary>;

/** What a list of nodes shows: a third of it. Weights and ports of a thousand nodes are a megabyte. */
export const BriefSummary = v.omit(InventorySummary, ["weights", "ports", "nvlink_domains"]);
export type BriefSummary = v.InferOutput<typeof BriefSummary>;

export function briefly({ weights: _weights, ports: _ports, nvlink_domains: _domains, ...brief }: InventorySummary): BriefSummary {
  return brief;
}

export function summarize(inventory: Inventory): InventorySummary {
  const classes = new Map<string, { count: number; healthy: number }>();
  for (const gpu of inventory.gpus) {
    const before = classes.get(gpu.class) ?? { count: 0, healthy: 0 };
    classes.set(gpu.class, { count: before.count + 1, healthy: before.healthy + (gpu.health.ok ? 1 : 0) });
  }
  const domains = inventory.gpus.flatMap(({ nvlink_domain: domain }) =>
    domain?.cluster_uuid === undefined ? [] : [`${domain.cluster_uuid}/${domain.clique_id ?? "-"}`],
  );
  return {
    source: inventory.source,
    ...(inventory.driver_version === undefined ? {} : { driver_version: inventory.driver_version }),
    ...(inventory.memory_total_mb === undefined ? {} : { memory_total_mb: inventory.memory_total_mb }),
    devices: [...classes].map(([name, counts]) => ({ class: name, ...counts })),
    unusable_cards: inventory.unusable_cards.length,
    weights: inventory.weights.filter((weights) => weights.state === "complete").map((weights) => weights.name),
    ports: inventory.hcas.flatMap((hca) =>
      hca.ports.map(({ num, phys_state: _phys, ...port }) => ({ adapter: hca.name, port: num, ...port })),
    ),
    nvlink_domains: [...new Set(domains)],
  };
}

/** Problems by severity; `unknown` counts what could not be found out. */
export const ProblemCounts = v.object({ block: Count, degrade: Count, advise: Count, unknown: Count });
export type ProblemCounts = v.InferOutput<typeof ProblemCounts>;

export function countProblems(findings: readonly Finding[]): ProblemCounts {
  const problems = (severity: Severity): number =>
    findings.filter((finding) => finding.result === "problem" && finding.severity === severity).length;
  return {
    block: problems("block"),
    degrade: problems("degrade"),
    advise: problems("advise"),
    unknown: findings.filter((finding) => finding.result === "unknown").length,
  };
}

/** `2 × a100-80g, 7 × a100-80g-mig-1g.10gb (1 not healthy)`; `-` when there are none. */
export function devicesText(devices: readonly ClassCount[]): string {
  const one = ({ class: name, count, healthy }: ClassCount): string =>
    `${count} × ${name}${healthy === count ? "" : ` (${count - healthy} not healthy)`}`;
  return devices.length === 0 ? "-" : devices.map(one).join(", ");
}
