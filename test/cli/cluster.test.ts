/** A cluster as its operator makes one: real processes, lines that are pasted, restarts of everything. */
import { expect, test } from "bun:test";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { selfSigned } from "../../src/lib/self-signed.ts";
import { type TemporaryFolder, temporaryFolder } from "../support/folders.ts";
import { type Child, startLlmgw, until } from "../support/processes.ts";

const MACHINES = ["a100-mig-mixed", "thermal-power-brake"] as const;

interface Ran {
  readonly exitCode: number;
  readonly output: string;
}

async function run(folder: TemporaryFolder, words: readonly string[]): Promise<Ran> {
  const child = startLlmgw(folder.path, words);
  const exitCode = await child.exited;
  return { exitCode, output: child.output() };
}

const ready = async (child: Child, sign: string): Promise<void> => {
  await until(
    () => {
      if (!child.running()) throw new Error(`it ended: ${child.output()}`);
      return child.output().includes(sign);
    },
    () => child.output(),
  );
};

test("two recorded machines join with two pasted lines, show up with classes and health, and stay right through restarts of everything", async () => {
  using folder = temporaryFolder();
  const [cert, key, state] = ["c.pem", "k.pem", "server"].map((name) => join(folder.path, name)) as [string, string, string];
  const made = await selfSigned({ names: ["gw"], fromMs: 0, untilMs: 4e12, serial: new Uint8Array([1]) });
  writeFileSync(cert, made.cert);
  writeFileSync(key, made.key);
  let port = "0";
  const children = new Set<Child>();
  const start = async (words: readonly string[], sign: string): Promise<Child> => {
    const child = startLlmgw(folder.path, words);
    children.add(child);
    await ready(child, sign);
    return child;
  };
  const startServer = async (): Promise<Child> => {
    const child = await start(
      ["server", "--listen", `127.0.0.1:${port}`, "--state", state, "--tls-cert", cert, "--tls-key", key],
      "server ready",
    );
    port = new URL(JSON.parse(readFileSync(join(state, "server.json"), "utf8")).url).port;
    return child;
  };
  const ctl = (...words: string[]) => run(folder, ["ctl", ...words, "--state", state]);
  const agentState = (machine: string) => join(folder.path, machine);
  const shown = (wanted: readonly RegExp[]) =>
    until(
      async () => {
        const { exitCode, output } = await ctl("nodes");
        const lines = output.split("\n");
        return exitCode === 0 && wanted.every((line) => lines.filter((one) => line.test(one)).length === 1) ? lines : undefined;
      },
      () => [...children].map((child) => child.output().slice(-1_500)).join("\n---\n"),
    );
  const WELL = [
    /^a100-07 +ready +3 × a100-80g, 1 × a100-80g-mig-3g\.40gb, .* ok +\d+ s /,
    /^l40s-09 +ready +2 × l40s-48g \(2 not healthy\) +2 degraded, 2 devices not healthy +\d+ s /,
  ];
  try {
    let server = await startServer();
    const agents = new Map<string, Child>();
    for (const machine of MACHINES) {
      const { output } = await ctl("token", "create");
      const line = output.split("\n").find((one) => one.startsWith("llmgw agent ")) ?? "";
      expect(line).toMatch(/^llmgw agent --server https:\/\/127\.0\.0\.1:\d+ --token llmgw-join-\w+ --fingerprint sha256:[0-9a-f]{64}$/);
      const words = [...line.split(" ").slice(1), "--machine", machine, "--state", agentState(machine)];
      agents.set(machine, await start(words, "connected to the server"));
    }
    expect(await shown(WELL)).toHaveLength(4);
    // From here on no line is pasted: what a node needs is in its state folder.
    const startAgent = async (machine: string) =>
      agents.set(machine, await start(["agent", "--machine", machine, "--state", agentState(machine)], "connected to the server"));
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const code = await server.end(signal);
      if (signal === "SIGTERM") expect(code).toBe(0);
      server = await startServer();
      await shown(WELL);
      for (const machine of MACHINES) {
        const ended = await agents.get(machine)?.end(signal);
        if (signal === "SIGTERM") expect(ended).toBe(0);
        await startAgent(machine);
      }
      await shown(WELL);
    }
    await server.end("SIGKILL");
    for (const agent of agents.values()) await agent.end("SIGKILL");
    server = await startServer();
    for (const machine of MACHINES) await startAgent(machine);
    await shown(WELL);
    expect((await ctl("doctor", "l40s-09")).exitCode).toBe(1);
    expect((await ctl("events", "--json")).output).not.toContain("node lost");
  } finally {
    for (const child of children) if (child.running()) await child.end("SIGKILL");
  }
}, 120_000);

test("SIGHUP has an agent read its configuration again; one that does not fit changes nothing", async () => {
  using folder = temporaryFolder();
  const state = join(folder.path, "server");
  const file = join(folder.path, "agent.yaml");
  writeFileSync(file, "node_id: n1\n");
  const server = startLlmgw(folder.path, ["server", "--listen", "127.0.0.1:0", "--state", state]);
  await ready(server, "server ready");
  const { output } = await run(folder, ["ctl", "token", "create", "--state", state]);
  const line = output.split("\n").find((one) => one.startsWith("llmgw agent ")) ?? "";
  const words = [...line.split(" ").slice(1), "--machine", "h100-nvswitch-8", "--state", join(folder.path, "a"), "--config", file];
  const agent = startLlmgw(folder.path, words);
  try {
    await ready(agent, "connected to the server");
    const gpus = (count: number) =>
      until(
        async () => {
          const shown = await run(folder, ["ctl", "nodes", "show", "n1", "--json", "--state", state]);
          return shown.exitCode === 0 && JSON.parse(shown.output).inventory?.gpus.length === count;
        },
        () => agent.output(),
      );
    await gpus(8);
    writeFileSync(file, "node_id: n1\ndiscovery: { skip_gpu: ['0'] }\n");
    process.kill(agent.pid, "SIGHUP");
    await ready(agent, "the configuration is not used, and the one before stays");
    writeFileSync(file, "node_id: n1\ndiscovery: { skip_gpus: ['0'] }\n");
    process.kill(agent.pid, "SIGHUP");
    await ready(agent, "configuration read again");
    await gpus(7);
  } finally {
    await agent.end("SIGKILL");
    await server.end("SIGKILL");
  }
}, 60_000);

test("up makes everything at its first start, says what to do next, and finds it again at the next", async () => {
  using folder = temporaryFolder();
  const state = join(folder.path, "up");
  const words = ["up", "--listen", "127.0.0.1:0", "--state", state, "--machine", MACHINES[0], "--machine", "h100-nvswitch-8"];
  const first = startLlmgw(folder.path, words);
  try {
    await ready(first, "stop it     Ctrl-C");
    expect(first.output()).toContain(`look at it  llmgw ctl nodes --state ${state}`);
    expect(statSync(join(state, "admin.token")).mode & 0o777).toBe(0o600);
    const nodes = (count: number) =>
      until(
        async () => {
          const { output } = await run(folder, ["ctl", "status", "--json", "--state", state]);
          return output.startsWith("{") && JSON.parse(output).devices.length > 0 && JSON.parse(output).nodes.ready === count;
        },
        () => first.output(),
      );
    await nodes(2);
    const other = await run(folder, words);
    expect(other).toMatchObject({ exitCode: 2, output: expect.stringContaining(`another server uses ${state}`) });
    expect(await first.end("SIGINT")).toBe(0);
    const again = startLlmgw(folder.path, words);
    await ready(again, "stop it     Ctrl-C");
    await nodes(2);
    expect(again.output()).not.toContain("joined the cluster");
    expect(await again.end()).toBe(0);
  } finally {
    if (first.running()) await first.end("SIGKILL");
  }
}, 60_000);
