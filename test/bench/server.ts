/** A thousand agents on one server: how long, how large, how busy (DESIGN.md, section 10). The server is a process of its own. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const AGENTS = 1_000;

export interface ServerBench {
  readonly connectedMs: number;
  readonly kibPerAgent: number;
  /** Share of one core while nothing happens but beats. */
  readonly restShare: number;
  /** Whole processes of `llmgw ctl nodes`, median. */
  readonly ctlNodesMs: number;
  /** From the moment at which a killed server listens again until the last agent is connected. */
  readonly reconnectMs: number;
}

export interface Server {
  readonly child: Bun.Subprocess;
  readonly url: string;
}

export async function benchServer(program: string, folder: string): Promise<ServerBench> {
  const state = join(folder, "server-state");
  const env = { PATH: process.env.PATH ?? "", HOME: folder };
  let server = await startServer(program, state, "0", env);
  const { port } = new URL(server.url);
  const secret = readFileSync(join(state, "admin.token"), "utf8").trim();
  const token = (await fetch(`${server.url}/api/v1/tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}` },
    body: JSON.stringify({ uses: AGENTS }),
  }).then((response) => response.json())) as { readonly secret: string };
  const emptyKib = residentKib(server.child.pid);
  const agents = Bun.spawn({
    cmd: [process.execPath, join(import.meta.dir, "fake-agents.ts"), server.url, token.secret, String(AGENTS)],
    env,
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines = lineReader(agents.stdout);
  try {
    const fromMs = performance.now();
    await lines(`connected ${AGENTS}`);
    const connectedMs = performance.now() - fromMs;
    // All reports are stored once two beats have gone by.
    await Bun.sleep(20_000);
    const kibPerAgent = (residentKib(server.child.pid) - emptyKib) / AGENTS;
    const cpuBefore = cpuSeconds(server.child.pid);
    await Bun.sleep(20_000);
    const restShare = (cpuSeconds(server.child.pid) - cpuBefore) / 20;
    const ctlNodesMs = ctlNodes(program, state, env);
    server.child.kill("SIGKILL");
    await server.child.exited;
    await lines("connected 0");
    server = await startServer(program, state, port, env);
    const againMs = performance.now();
    await lines(`connected ${AGENTS}`);
    const reconnectMs = performance.now() - againMs;
    return { connectedMs, kibPerAgent, restShare, ctlNodesMs, reconnectMs };
  } finally {
    agents.kill("SIGKILL");
    server.child.kill("SIGKILL");
    await Promise.all([agents.exited, server.child.exited]);
  }
}

export async function startServer(program: string, state: string, port: string, env: Record<string, string>): Promise<Server> {
  rmSync(join(state, "server.json"), { force: true });
  const child = Bun.spawn({
    cmd: [program, "server", "--listen", `127.0.0.1:${port}`, "--state", state, "--log-level", "error"],
    env,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  });
  while (!existsSync(join(state, "server.json"))) {
    if (child.exitCode !== null) throw new Error("the server ended");
    await Bun.sleep(5);
  }
  return { child, url: JSON.parse(readFileSync(join(state, "server.json"), "utf8")).url };
}

function ctlNodes(program: string, state: string, env: Record<string, string>): number {
  const times = Array.from({ length: 11 }, () => {
    const from = performance.now();
    const run = Bun.spawnSync({ cmd: [program, "ctl", "nodes", "--state", state], env, stdout: "pipe", stderr: "pipe" });
    if (run.exitCode !== 0) throw new Error(`llmgw ctl nodes: ${run.stderr.toString()}`);
    return performance.now() - from;
  });
  return times.toSorted((a, b) => a - b)[5] ?? Number.NaN;
}

export function residentKib(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

/** User and system, at 100 ticks a second (proc_pid_stat(5)). */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Waits for a line that says exactly this. */
function lineReader(stream: ReadableStream<Uint8Array>): (wanted: string) => Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  return async (wanted) => {
    for (;;) {
      const lines = text.split("\n");
      const at = lines.slice(0, -1).indexOf(wanted);
      if (at >= 0) {
        text = lines.slice(at + 1).join("\n");
        return;
      }
      const { done, value } = await reader.read();
      if (done) throw new Error(`the fake agents ended before they said "${wanted}"`);
      text += decoder.decode(value, { stream: true });
    }
  };
}
