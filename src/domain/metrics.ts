/** What `/metrics` of agent and server say of nodes: the table of all metrics (docs/reference/metrics.md), and those of one node. Pure. */
import type { Labels, Metric, MetricsPage } from "../lib/metrics.ts";
import { type Finding, subjectText } from "./finding.ts";
import type { Inventory } from "./inventory.ts";
import type { LoadSample } from "./load-sample.ts";
import type { AdapterPlace } from "./node.ts";

const DEVICE = ["node", "device", "uuid", "class"] as const;
const PORT = ["node", "adapter", "port", "fabric"] as const;

function gauge(name: string, help: string, labels: readonly string[] = []): Metric {
  return { name: `llmgw_${name}`, type: "gauge", help, labels };
}

function counter(name: string, help: string, labels: readonly string[] = []): Metric {
  return { name: `llmgw_${name}_total`, type: "counter", help, labels };
}

/** Every metric there is, by where it is found. */
export const METRICS = {
  both: {
    build: gauge("build_info", "1; the version is in the label", ["version"]),
    residentMemory: { name: "process_resident_memory_bytes", type: "gauge", help: "Resident memory of this process", labels: [] },
    cpu: { name: "process_cpu_seconds_total", type: "counter", help: "CPU time of this process, user and system", labels: [] },
    memoryTotal: gauge("device_memory_total_bytes", "Memory of a device", DEVICE),
    memoryUsed: gauge("device_memory_used_bytes", "Memory in use on a device, whoever uses it", DEVICE),
    temperature: gauge("device_temperature_celsius", "Temperature of a whole card; an instance has none of its own", DEVICE),
    power: gauge("device_power_watts", "Power drawn by a whole card", DEVICE),
    utilization: gauge("device_utilization_ratio", "Share of time in which a whole card ran a kernel, 0 to 1", DEVICE),
    ecc: gauge("device_ecc_uncorrectable_errors", "Uncorrectable memory errors since the driver's last reset of the card", DEVICE),
    healthy: gauge("device_healthy", "1 when something new may be placed on the device, else 0", DEVICE),
    unusableCards: gauge("unusable_cards", "Cards that nothing is placed on", ["node"]),
    portActive: gauge("adapter_port_active", "1 when the port of an adapter is ACTIVE, else 0", PORT),
    portRate: gauge("adapter_port_rate_bytes_per_second", "Rate of an ACTIVE port", PORT),
    findings: gauge("findings", "Problems that doctor finds, by severity", ["node", "severity"]),
    unknownFindings: gauge("findings_unknown", "Checks whose result could not be found out", ["node"]),
  },
  agent: {
    finding: gauge("finding", "1 for each problem that doctor finds", ["node", "check", "severity", "subject"]),
    connected: gauge("stream_connected", "1 while the agent is connected to its server, else 0", ["node"]),
    connects: counter("stream_connects", "Connections to the server that were opened", ["node"]),
    failures: counter("stream_failures", "Connections that failed or ended", ["node"]),
    messages: counter("stream_messages", "Messages of the stream", ["node", "direction"]),
    malformed: counter("stream_malformed_messages", "Messages of the server that could not be read", ["node"]),
  },
  server: {
    nodes: gauge("nodes", "Nodes by state", ["state"]),
    nodeUp: gauge("node_up", "1 when the node is heard in time, 0 when it is late or lost", ["node"]),
    nodeSeen: gauge("node_last_seen_timestamp_seconds", "When the node was last heard", ["node"]),
    devices: gauge("devices", "Devices of nodes that are not lost", ["class", "healthy"]),
    streams: gauge("server_streams", "Agents that are connected to this server"),
    accepted: counter("server_streams_accepted", "Connections that were taken"),
    refused: counter("server_streams_refused", "Agents that were refused"),
    dropped: counter("server_streams_dropped", "Connections that this server ended", ["reason"]),
    messages: counter("server_messages", "Messages of all streams", ["direction"]),
    malformed: counter("server_malformed_messages", "Messages of agents that could not be read"),
    unknownKinds: counter("server_unknown_messages", "Messages of a kind that this version does not know"),
    authFailures: counter("server_auth_failures", "Requests whose secret does not count"),
    storeUp: gauge("store_up", "1 when the database answers, else 0"),
    storeTransactions: counter("store_transactions", "Transactions, failed ones too"),
    storeFailures: counter("store_failures", "Transactions that failed"),
    storeSeconds: counter("store_transaction_seconds", "Time spent in transactions, waiting for their turn included"),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Metric>>>>;

const MIB = 1024 * 1024;

/** Devices, unusable cards and ports of a node, as its inventory and its last load say. */
export function setInventoryMetrics(page: MetricsPage, node: string, inventory: Inventory, load: LoadSample | undefined): void {
  const { both } = METRICS;
  const loads = new Map(load?.devices.map((device) => [device.uuid, device]));
  for (const gpu of inventory.gpus) {
    const labels: Labels = { node, device: gpu.label, uuid: gpu.uuid, class: gpu.class };
    const now = loads.get(gpu.uuid);
    page.set(both.memoryTotal, labels, scaled(gpu.memory_total_mb, MIB));
    page.set(both.memoryUsed, labels, scaled(now?.memory_used_mb, MIB));
    page.set(both.temperature, labels, now?.temperature_c);
    page.set(both.power, labels, now?.power_w);
    page.set(both.utilization, labels, scaled(now?.utilization_pct, 0.01));
    page.set(both.ecc, labels, now?.ecc_uncorrectable);
    page.set(both.healthy, labels, Number(gpu.health.ok));
  }
  page.set(both.unusableCards, { node }, inventory.unusable_cards.length);
  const places = inventory.hcas.flatMap((hca) => hca.ports.map(({ num, ...port }) => ({ adapter: hca.name, port: num, ...port })));
  setPortMetrics(page, node, places);
}

export function setPortMetrics(page: MetricsPage, node: string, ports: readonly AdapterPlace[]): void {
  for (const { adapter, port, fabric, state, rate_gbps } of ports) {
    const labels: Labels = { node, adapter, port, fabric };
    page.set(METRICS.both.portActive, labels, state === undefined ? undefined : Number(state === "ACTIVE"));
    // The rate of a port that is not up is a placeholder.
    page.set(METRICS.both.portRate, labels, state === "ACTIVE" ? scaled(rate_gbps, 1e9 / 8) : undefined);
  }
}

export function setFindingMetrics(page: MetricsPage, node: string, findings: readonly Finding[]): void {
  const seen = new Set<string>();
  for (const { id, severity, result, subject } of findings) {
    const key = `${id} ${severity} ${subjectText(subject)}`;
    if (result !== "problem" || seen.has(key)) continue;
    seen.add(key);
    page.set(METRICS.agent.finding, { node, check: id, severity, subject: subjectText(subject) }, 1);
  }
}

function scaled(value: number | undefined, factor: number): number | undefined {
  return value === undefined ? undefined : value * factor;
}
