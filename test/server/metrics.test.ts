import { afterAll, expect, test } from "bun:test";
import { loadOf } from "../../src/domain/load-sample.ts";
import { METRICS } from "../../src/domain/metrics.ts";
import { inventoryOf } from "../support/machines.ts";
import { lintMetrics } from "../support/metrics-lint.ts";
import { handAgent, testServer } from "../support/server.ts";

const server = await testServer();
afterAll(() => server[Symbol.asyncDispose]());

async function scrape(): Promise<string> {
  const response = await fetch(`${server.running.url}/metrics`, { headers: { authorization: `Bearer ${server.admin}` } });
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  return response.text();
}

test("a scrape of the server follows the conventions, and says what it sees", async () => {
  const credential = await server.joined("gpu-01");
  await server.joined("gpu-02");
  using agent = await handAgent(server, credential);
  agent.send({ kind: "hello", protocol: 1, node_id: "gpu-01", instance: "i", agent_version: "1" });
  await agent.next("welcome");
  const inventory = await inventoryOf("a100-mig-mixed");
  agent.send({ kind: "inventory", revision: 1, hash: "h", inventory });
  await agent.next("ack");
  agent.send({ kind: "beat", seq: 0, load: loadOf(inventory, "2026-12-01T00:00:00Z") });
  await agent.next("ack");
  const { samples, problems } = lintMetrics(await scrape());
  expect(problems).toEqual([]);
  expect(samples.get('llmgw_nodes{state="ready"}')).toBe(2);
  expect(samples.get('llmgw_node_up{node="gpu-01"}')).toBe(1);
  expect(samples.get("llmgw_server_streams{}")).toBe(1);
  expect(samples.get("llmgw_store_up{}")).toBe(1);
  expect(samples.get("llmgw_store_transactions_total{}")).toBeGreaterThan(5);
  const whole = inventory.gpus.find((gpu) => gpu.mig === undefined);
  const used = `llmgw_device_memory_used_bytes{node="gpu-01",device="",uuid="${whole?.uuid}",class=""}`;
  expect(samples.get(used)).toBe((whole?.memory_used_mb ?? 0) * 1024 * 1024);
  const total = [...samples].filter(([name]) => name.startsWith("llmgw_devices{")).reduce((sum, [, value]) => sum + value, 0);
  expect(total).toBe(inventory.gpus.length);
});

test("failures of authentication are counted", async () => {
  await fetch(`${server.running.url}/metrics`);
  await fetch(`${server.running.url}/metrics`, { headers: { authorization: "Bearer nobody" } });
  expect(lintMetrics(await scrape()).samples.get("llmgw_server_auth_failures_total{}")).toBe(1);
});

test("every metric in the table is a name of its own", () => {
  const names = Object.values(METRICS).flatMap((group) => Object.values(group).map((metric) => metric.name));
  expect(new Set(names).size).toBe(names.length);
});
