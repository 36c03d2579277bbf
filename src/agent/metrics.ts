/** `/metrics` of the agent: what it sees of its own node, and its stream. Without a secret, so on loopback unless configured otherwise. */
import { METRICS, setFindingMetrics, setInventoryMetrics } from "../domain/metrics.ts";
import { countProblems } from "../domain/node.ts";
import { createMetricsPage } from "../lib/metrics.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { cpuSeconds, residentBytes } from "../platform/own-process.ts";
import type { Link } from "./link.ts";
import type { Watch } from "./watch.ts";

export interface AgentFigures {
  readonly nodeId: string;
  readonly version: string;
  readonly watch: Pick<Watch, "inventory" | "load" | "findings">;
  /** `undefined` until there is one. */
  readonly link: () => Pick<Link, "state" | "figures"> | undefined;
}

export function agentMetrics({ nodeId: node, version, watch, link }: AgentFigures): string {
  const page = createMetricsPage();
  const { both, agent } = METRICS;
  page.set(both.build, { version }, 1);
  page.set(both.residentMemory, {}, residentBytes());
  page.set(both.cpu, {}, cpuSeconds());
  const inventory = watch.inventory();
  if (inventory !== undefined) setInventoryMetrics(page, node, inventory, watch.load());
  const findings = watch.findings();
  const { unknown, ...problems } = countProblems(findings);
  for (const severity of ["block", "degrade", "advise"] as const) page.set(both.findings, { node, severity }, problems[severity]);
  page.set(both.unknownFindings, { node }, unknown);
  setFindingMetrics(page, node, findings);
  const stream = link();
  page.set(agent.connected, { node }, Number(stream?.state().kind === "connected"));
  if (stream !== undefined) {
    const figures = stream.figures();
    page.set(agent.connects, { node }, figures.connects);
    page.set(agent.failures, { node }, figures.failures);
    page.set(agent.messages, { node, direction: "received" }, figures.received);
    page.set(agent.messages, { node, direction: "sent" }, figures.sent);
    page.set(agent.malformed, { node }, figures.malformed);
  }
  return page.text();
}

export interface MetricsServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** `listen`: ADDRESS:PORT. Throws `UserError` when it cannot listen there. */
export function serveMetrics(listen: string, figures: AgentFigures): MetricsServer {
  const at = listen.lastIndexOf(":");
  const [hostname, port] = [listen.slice(0, at).replace(/^\[|\]$/g, ""), Number(listen.slice(at + 1))];
  try {
    const server = Bun.serve({
      hostname,
      port,
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        if (pathname === "/healthz") return new Response("ok\n");
        if (pathname !== "/metrics") return new Response("there is /metrics and /healthz\n", { status: 404 });
        return new Response(agentMetrics(figures), { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
      },
    });
    return { url: server.url.origin, stop: () => server.stop(true) };
  } catch (cause) {
    throw new UserError(
      {
        what: `the agent's metrics cannot be served at ${listen}`,
        why: messageOf(cause),
        fix: "give another place with --metrics-listen ADDRESS:PORT, or --metrics-listen off",
      },
      { cause },
    );
  }
}
