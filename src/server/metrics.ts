/** `/metrics` of the server: the nodes as it sees them, its streams, its store. */
import { METRICS, setPortMetrics } from "../domain/metrics.ts";
import { createMetricsPage, type MetricsPage } from "../lib/metrics.ts";
import { cpuSeconds, residentBytes } from "../platform/own-process.ts";
import { type ApiOptions, momentOf } from "./route.ts";
import { StoreError } from "./store/store.ts";
import { type FullNodeView, nodeView, statusOf } from "./views.ts";

/** Never throws: a database that does not answer is itself a figure. */
export async function serverMetrics(options: ApiOptions): Promise<string> {
  const { store, sessions, guard, version } = options;
  const page = createMetricsPage();
  const { both, server } = METRICS;
  page.set(both.build, { version }, 1);
  page.set(both.residentMemory, {}, residentBytes());
  page.set(both.cpu, {}, cpuSeconds());
  const nodes = await viewsOf(options);
  page.set(server.storeUp, {}, Number(nodes !== undefined));
  if (nodes !== undefined) setNodes(page, options, nodes);
  const figures = sessions.figures();
  page.set(server.streams, {}, figures.connected);
  page.set(server.accepted, {}, figures.accepted);
  page.set(server.refused, {}, figures.refused);
  page.set(server.dropped, { reason: "slow" }, figures.slowPeers);
  page.set(server.dropped, { reason: "silent" }, figures.silentPeers);
  page.set(server.messages, { direction: "received" }, figures.received);
  page.set(server.messages, { direction: "sent" }, figures.sent);
  page.set(server.malformed, {}, figures.malformed);
  page.set(server.unknownKinds, {}, figures.unknownKinds);
  page.set(server.authFailures, {}, guard.failures());
  const { transactions, failures, seconds } = store.figures();
  page.set(server.storeTransactions, {}, transactions);
  page.set(server.storeFailures, {}, failures);
  page.set(server.storeSeconds, {}, seconds);
  return page.text();
}

async function viewsOf(options: ApiOptions): Promise<readonly FullNodeView[] | undefined> {
  try {
    const moment = momentOf(options);
    return (await options.store.nodes()).map((row) => nodeView(row, moment));
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}

function setNodes(page: MetricsPage, { sessions }: ApiOptions, nodes: readonly FullNodeView[]): void {
  const { both, server } = METRICS;
  const status = statusOf(nodes);
  for (const [state, count] of Object.entries(status.nodes)) page.set(server.nodes, { state }, count);
  for (const { class: name, count, healthy } of status.devices) {
    page.set(server.devices, { class: name, healthy: "true" }, healthy);
    page.set(server.devices, { class: name, healthy: "false" }, count - healthy);
  }
  const connected = sessions.connected();
  for (const { node_id: node, state, last_seen_at, summary, problems } of nodes) {
    page.set(server.nodeUp, { node }, Number(state !== "late" && state !== "lost"));
    page.set(server.nodeSeen, { node }, last_seen_at === undefined ? undefined : Date.parse(last_seen_at) / 1000);
    for (const severity of ["block", "degrade", "advise"] as const) page.set(both.findings, { node, severity }, problems?.[severity]);
    page.set(both.unknownFindings, { node }, problems?.unknown);
    page.set(both.unusableCards, { node }, summary?.unusable_cards);
    setPortMetrics(page, node, summary?.ports ?? []);
    for (const device of connected.get(node)?.load?.devices ?? []) {
      // Class and label stand in the inventory, which is not read for each scrape: the UUID is what joins.
      const labels = { node, uuid: device.uuid };
      page.set(both.memoryUsed, labels, device.memory_used_mb === undefined ? undefined : device.memory_used_mb * 1024 * 1024);
      page.set(both.temperature, labels, device.temperature_c);
      page.set(both.power, labels, device.power_w);
      page.set(both.utilization, labels, device.utilization_pct === undefined ? undefined : device.utilization_pct / 100);
      page.set(both.ecc, labels, device.ecc_uncorrectable);
    }
  }
}
