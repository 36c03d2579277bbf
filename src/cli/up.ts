/** `llmgw up`: server and agents in one process, on loopback, with everything in one folder: nothing else to install or to configure. */
import { basename } from "node:path";
import { type RunningAgent, startAgent } from "../agent/agent.ts";
import { readAgentConfig } from "../agent/config.ts";
import { defaultStateDir } from "../domain/state-dir.ts";
import { systemClock } from "../lib/clock.ts";
import { hashSecret, newSecret } from "../protocol/secrets.ts";
import { type RunningServer, startServer } from "../server/server.ts";
import { type ServerSettings, serverSettings } from "../server/settings.ts";
import { defineCommand } from "./command.ts";
import type { Context } from "./context.ts";
import { type OpenLibrary, randomBytes, surroundings, untilStopped, withOpenLibrary } from "./long-running.ts";

export const up = defineCommand({
  name: "up",
  summary: "all of it on one machine: server and agent in one process",
  description: "Runs until SIGTERM or Ctrl-C. Without --machine the node is this host; with it, one recorded machine each.",
  flags: {
    listen: { kind: "string", hint: "ADDRESS:PORT", summary: "where to listen; default 127.0.0.1:8400, which nobody else reaches" },
    state: { kind: "string", hint: "DIR", summary: "folder of all that there is: database, credentials, certificate" },
    json: { kind: "boolean", summary: "print where it ran as data when it ends" },
  },
  examples: ["llmgw up", "llmgw up --machine h100-nvswitch-8 --machine a100-mig-mixed", "llmgw up --listen 0.0.0.0:8400 --state ./state"],
  run: async (ctx, args) => {
    const defaults = { listen: "127.0.0.1:8400", stateDir: defaultStateDir("up", ctx) };
    const settings = serverSettings({}, { listen: args.listen, stateDir: args.state }, defaults);
    const server = await startServer({ settings, ...surroundings(ctx) });
    const nodes: Node[] = [];
    try {
      const machines = ctx.machines.length === 0 ? [undefined] : ctx.machines;
      for (const machine of machines) nodes.push(await startNode(ctx, server, machine));
      ctx.print(welcome(server, nodes, settings, settings.stateDir !== defaults.stateDir));
      await untilStopped(ctx);
    } finally {
      for (const node of nodes.toReversed()) await node.stop();
      await server.stop();
    }
    return {
      data: { server: { url: server.url, state: server.stateDir }, nodes: nodes.map(({ agent }) => ({ node_id: agent.nodeId })) },
      text: "",
    };
  },
});

interface Node {
  readonly agent: RunningAgent;
  stop(): Promise<void>;
}

/** Recorded machines are called by their own names: several may have been recorded on hosts of one name. */
async function startNode(ctx: Context, server: RunningServer, machine: string | undefined): Promise<Node> {
  const runner = await ctx.runnerOf(machine);
  const name = machine === undefined ? undefined : basename(machine);
  const flags = { server: server.url, fingerprint: server.fingerprint };
  const read = async () => {
    const config = await readAgentConfig(runner, undefined, flags);
    return name === undefined || config.node_id !== undefined ? config : { ...config, node_id: name };
  };
  const library: OpenLibrary = withOpenLibrary(runner, ctx);
  const agent = await startAgent({
    config: await read(),
    stateDir: `${server.stateDir}/nodes/${name ?? "this-host"}`,
    runner,
    loadRunner: library.runner,
    machine: name,
    token: () => joinToken(server),
    // The server's own metrics hold what there is to say, and two programs may be up.
    metricsListen: "off",
    ...surroundings(ctx),
  });
  return {
    agent,
    stop: async () => {
      await agent.stop();
      await library.stop();
    },
  };
}

/** For one use, at once. */
async function joinToken({ store }: RunningServer): Promise<string> {
  const secret = newSecret("join", randomBytes);
  const nowMs = systemClock.nowMs();
  const token_id = Buffer.from(randomBytes(5)).toString("hex");
  await store.addToken(
    { token_id, created_ms: nowMs, expires_ms: nowMs + 60_000, uses_left: 1, created_by: "llmgw up" },
    hashSecret(secret),
  );
  return secret;
}

function welcome(server: RunningServer, nodes: readonly Node[], settings: ServerSettings, ownState: boolean): string {
  const state = ownState ? ` --state ${settings.stateDir}` : "";
  return [
    `llmgw is up at ${server.url}, its state in ${settings.stateDir}`,
    `  nodes       ${nodes.map(({ agent }) => agent.nodeId).join(", ")}`,
    `  look at it  llmgw ctl nodes${state}`,
    `              llmgw ctl status${state}`,
    `  add a node  llmgw ctl token create${state}`,
    "  stop it     Ctrl-C; nothing is lost",
    "",
  ].join("\n");
}
