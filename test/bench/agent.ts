/** One agent at rest on a recorded machine of eight cards, connected to a server (DESIGN.md, section 10). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { cpuSeconds, residentKib, startServer } from "./server.ts";

/** As long as it takes until every kind of look has been made once. */
const MEASURED_MS = 120_000;

export interface AgentBench {
  readonly residentMib: number;
  /** Of one core. */
  readonly share: number;
}

export async function benchAgent(program: string, folder: string): Promise<AgentBench> {
  const state = join(folder, "rest-state");
  // What the unit of the agent sets: the runtime looks for garbage every second otherwise, which costs more than the agent's own work.
  const env = { PATH: process.env.PATH ?? "", HOME: folder, BUN_GC_TIMER_INTERVAL: "30000" };
  const server = await startServer(program, state, "0", env);
  const secret = readFileSync(join(state, "admin.token"), "utf8").trim();
  const response = await fetch(`${server.url}/api/v1/tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}` },
    body: "{}",
  });
  const { secret: token } = (await response.json()) as { readonly secret: string };
  const agent = Bun.spawn({
    cmd: [
      program,
      "agent",
      "--machine",
      "h100-nvswitch-8",
      "--server",
      server.url,
      "--token",
      token,
      "--state",
      join(folder, "rest-agent"),
    ],
    env,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  try {
    await Bun.sleep(10_000);
    const before = cpuSeconds(agent.pid);
    await Bun.sleep(MEASURED_MS);
    if (agent.exitCode !== null) throw new Error(`the agent ended with ${agent.exitCode}`);
    return { residentMib: residentKib(agent.pid) / 1024, share: ((cpuSeconds(agent.pid) - before) * 1000) / MEASURED_MS };
  } finally {
    agent.kill("SIGKILL");
    server.child.kill("SIGKILL");
    await Promise.all([agent.exited, server.child.exited]);
  }
}
