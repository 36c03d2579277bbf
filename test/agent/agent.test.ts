import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AgentOptions, type RunningAgent, startAgent } from "../../src/agent/agent.ts";
import { nodeIdOf, readAgentConfig } from "../../src/agent/config.ts";
import type { AgentConfig } from "../../src/domain/agent-config.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import { openMachine } from "../../src/platform/machine.ts";
import { newSecret } from "../../src/protocol/secrets.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { lintMetrics } from "../support/metrics-lint.ts";
import { until } from "../support/processes.ts";
import { random, testServer } from "../support/server.ts";
import { type LogLines, logLines } from "../support/wire.ts";

const server = await testServer();
const folder = temporaryFolder();
const running: RunningAgent[] = [];
afterAll(async () => {
  for (const agent of running) await agent.stop();
  await server[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

let agents = 0;

async function start(
  config: AgentConfig,
  more: Partial<AgentOptions> = {},
): Promise<{ agent: RunningAgent; log: LogLines; stateDir: string }> {
  const log = logLines();
  const stateDir = more.stateDir ?? join(folder.path, `agent-${agents++}`);
  const agent = await startAgent({
    config: { server: server.running.url, ...config },
    runner: await openMachine("h100-nvswitch-8", { waits: "skip" }),
    machine: "h100-nvswitch-8",
    token: async () => (await server.call("POST", "/tokens", {})).body.secret,
    metricsListen: "off",
    clock: systemClock,
    chance: Math.random,
    random,
    log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date() }),
    version: "1.0.0",
    env: {},
    ...more,
    stateDir,
  });
  running.push(agent);
  return { agent, log, stateDir };
}

/** What the server shows of a node once that holds. */
async function shown(nodeId: string, holds: (detail: NodeBody) => boolean): Promise<NodeBody> {
  return until(
    async () => {
      const { status, body } = await server.call("GET", `/nodes/${nodeId}`);
      return status === 200 && holds(body) ? (body as NodeBody) : undefined;
    },
    () => server.log.lines.slice(-20).join(""),
  );
}

interface NodeBody {
  readonly node: Record<string, unknown> & { readonly connected: boolean };
  readonly inventory?: { readonly gpus: readonly unknown[]; readonly warnings: readonly string[] };
  readonly findings?: readonly { readonly id: string; readonly result: string }[];
  readonly load?: { readonly devices: readonly unknown[] };
}

describe("an agent", () => {
  test("shows its node on the server: inventory, findings, load, name and machine", async () => {
    const { agent } = await start({ mgmt_addr: "192.0.2.7" });
    expect(agent.nodeId).toBe("hgx-01");
    const { node, inventory } = await shown("hgx-01", (detail) => detail.findings !== undefined && detail.inventory !== undefined);
    expect(node).toMatchObject({
      state: "ready",
      hostname: "hgx-01",
      mgmt_addr: "192.0.2.7",
      machine: "h100-nvswitch-8",
      agent_version: "1.0.0",
    });
    expect(inventory?.gpus.length).toBe(8);
    expect((await server.call("POST", "/nodes/hgx-01/doctor")).body.findings.length).toBeGreaterThan(20);
  });

  test("is rotated by the server while it runs, and comes back by itself", async () => {
    const { stateDir } = await start({ node_id: "rotated" });
    await shown("rotated", (detail) => detail.node.connected);
    const before = JSON.parse(readFileSync(join(stateDir, "credential.json"), "utf8")).credential;
    expect((await server.call("POST", "/nodes/rotated/rotate")).status).toBe(200);
    const after = await until(
      () => {
        const file = JSON.parse(readFileSync(join(stateDir, "credential.json"), "utf8"));
        return file.next_credential === undefined && file.credential !== before ? file.credential : undefined;
      },
      () => server.log.lines.slice(-10).join(""),
    );
    await shown("rotated", (detail) => detail.node.connected);
    expect((await server.call("GET", "/stream", undefined, before)).status).toBe(401);
    expect((await server.call("GET", "/stream", undefined, after)).status).toBe(426);
  });

  test("takes a configuration that is read again, and says what needs a new start", async () => {
    const { agent, log } = await start({ node_id: "reread" });
    await shown("reread", (detail) => detail.inventory?.gpus.length === 8);
    agent.reload({ server: server.running.url, node_id: "renamed", discovery: { skip_gpus: ["0", "1"] } });
    await shown("reread", (detail) => detail.inventory?.gpus.length === 6);
    expect(log.count("a change that needs a new start of the agent key=node_id")).toBe(1);
  });

  test("declares fabrics for its adapters, and what contradicts them is reported by node and server", async () => {
    await start(
      { node_id: "railed", fabrics: [{ name: "rail0", adapters: ["mlx5_0", "mlx5_4"] }] },
      { runner: await openMachine("two-fabrics-same-prefix", { waits: "skip" }) },
    );
    const { inventory } = await shown("railed", (detail) => detail.inventory !== undefined);
    expect(inventory?.warnings.join("\n")).toContain('fabric "rail0" in agent.yaml: its subnet managers differ');
    const { body } = await server.call("GET", "/fabrics");
    const rail = body.fabrics.find((one: { fabric: string }) => one.fabric === "rail0");
    expect(rail.ports.map((port: { node_id: string; adapter: string }) => `${port.node_id} ${port.adapter}`)).toEqual([
      "railed mlx5_0",
      "railed mlx5_4",
    ]);
    expect(rail.contradictions[0]).toContain("railed mlx5_0 port 1");
  });

  test("serves metrics that follow the conventions", async () => {
    const { agent } = await start({ node_id: "measured" }, { metricsListen: "127.0.0.1:0" });
    await shown("measured", (detail) => detail.inventory !== undefined && detail.findings !== undefined);
    await until(
      () => agent.watch.load(),
      () => "no load",
    );
    const { samples, problems } = lintMetrics(await (await fetch(`${agent.metricsUrl}/metrics`)).text());
    expect(problems).toEqual([]);
    expect([...samples.keys()].filter((name) => name.startsWith("llmgw_device_memory_used_bytes")).length).toBe(8);
    expect(samples.get('llmgw_stream_connected{node="measured"}')).toBe(1);
    expect((await fetch(`${agent.metricsUrl}/healthz`)).status).toBe(200);
    await expect(start({ node_id: "measured-2" }, { metricsListen: new URL(agent.metricsUrl ?? "").host })).rejects.toMatchObject({
      what: `the agent's metrics cannot be served at ${new URL(agent.metricsUrl ?? "").host}`,
    });
  });

  test("remembers its last inventory on disk", async () => {
    const { agent, stateDir } = await start({ node_id: "remembers" });
    await until(
      () => agent.watch.inventory(),
      () => "no inventory",
    );
    await agent.stop();
    expect(JSON.parse(readFileSync(join(stateDir, "inventory.json"), "utf8"))).toMatchObject({
      version: 1,
      inventory: { source: expect.any(String) },
    });
  });
});

describe("an agent that cannot run says so", () => {
  test("in a state folder that another one uses", async () => {
    const { stateDir } = await start({ node_id: "first" });
    await expect(start({ node_id: "second" }, { stateDir })).rejects.toMatchObject({ what: `another agent uses ${stateDir}` });
  });

  test("under another name than the one it joined with", async () => {
    const { agent, stateDir } = await start({ node_id: "before" });
    await agent.stop();
    await expect(start({ node_id: "after" }, { stateDir })).rejects.toMatchObject({
      what: 'this node joined as "before", and is to be called "after" now',
    });
    // Without a name it is who it was, whatever the host is called now.
    const { agent: again } = await start({}, { stateDir });
    expect(again.nodeId).toBe("before");
  });

  test("without a server, or with one that is not encrypted", async () => {
    const { server: _server, ...none } = { server: "" };
    const options = { stateDir: join(folder.path, "none") };
    await expect(
      startAgent({
        config: none,
        runner: await openMachine("h100-nvswitch-8", { waits: "skip" }),
        metricsListen: "off",
        clock: systemClock,
        chance: Math.random,
        random,
        log: createLog({ level: "error", write: () => undefined, now: () => new Date() }),
        version: "1",
        env: {},
        ...options,
      }),
    ).rejects.toMatchObject({ what: "this agent has no server" });
    await expect(start({ server: "http://gw.example:8400" })).rejects.toMatchObject({ what: "http://gw.example:8400 is not encrypted" });
  });

  test("with a token that does not count, and leaves its folder for the next try", async () => {
    const stateDir = join(folder.path, "wrong");
    await expect(start({ node_id: "wrong" }, { stateDir, token: async () => newSecret("join", random) })).rejects.toMatchObject({
      what: 'the node "wrong" may not join',
    });
    await start({ node_id: "wrong" }, { stateDir });
    await shown("wrong", (detail) => detail.node.connected);
  });
});

describe("the configuration", () => {
  const machine = async (yaml: string) => {
    using own = temporaryFolder();
    layOut(own.path, {
      "machine.yaml": "about: a node\nsource: composed\nfrom: nothing\nrecorded_at: 2026-01-01T00:00:00Z\n",
      "root/etc/llmgw/agent.yaml": yaml,
    });
    const runner = await openMachine(own.path);
    return readAgentConfig(runner, undefined, { server: "https://flag.example" });
  };

  test("is taken from the flags where they speak, else from the file", async () => {
    expect(await machine("server: https://file.example\nnode_id: n7\ntls: { ca: /etc/ca.pem }\n")).toEqual({
      server: "https://flag.example",
      node_id: "n7",
      tls: { ca: "/etc/ca.pem" },
    });
  });

  test("that does not fit is an error with its place", async () => {
    await expect(machine("nodeid: n7\n")).rejects.toMatchObject({ name: "UserError", why: expect.stringContaining("node_id") });
  });

  test("from a file that is named must be there, and a flag must fit as the file does", async () => {
    const runner = await openMachine("h100-nvswitch-8");
    await expect(readAgentConfig(runner, "/nowhere/agent.yaml", {})).rejects.toMatchObject({ what: "/nowhere/agent.yaml cannot be read" });
    mkdirSync(join(folder.path, "conf"), { recursive: true });
    const file = join(folder.path, "conf/agent.yaml");
    writeFileSync(file, "mgmt_addr: 192.0.2.1\n");
    expect(await readAgentConfig(runner, file, { mgmt_addr: "192.0.2.9" })).toEqual({ mgmt_addr: "192.0.2.9" });
    await expect(readAgentConfig(runner, file, { server: "gw.example" })).rejects.toMatchObject({
      what: "--server gw.example cannot be used",
    });
    await expect(readAgentConfig(runner, file, { node_id: "a b" })).rejects.toMatchObject({ what: "--node-id a b cannot be used" });
  });

  test("names the node, else what it joined as does, else the host name; none, or one that cannot be, is an error", () => {
    expect(nodeIdOf({ node_id: "given" }, "joined", "host")).toBe("given");
    expect(nodeIdOf({}, "joined", "host")).toBe("joined");
    expect(nodeIdOf({}, undefined, "host")).toBe("host");
    expect(() => nodeIdOf({}, undefined, undefined)).toThrow("this node has no name");
    expect(() => nodeIdOf({}, undefined, "my host")).toThrow('the host name "my host" cannot be the node\'s name');
  });
});
