/** `llmgw agent`: what runs on every GPU node, until it is told to stop. */
import { basename } from "node:path";
import { type RunningAgent, startAgent } from "../agent/agent.ts";
import { type AgentFlags, readAgentConfig } from "../agent/config.ts";
import { AGENT_CONFIG_PATH } from "../domain/config-paths.ts";
import { defaultStateDir, machineStateDir, noStateDir } from "../domain/state-dir.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { Runner } from "../platform/runner.ts";
import { defineCommand, type Listed } from "./command.ts";
import type { Context } from "./context.ts";
import { surroundings, untilStopped, withOpenLibrary } from "./long-running.ts";

const METRICS_LISTEN = "127.0.0.1:8401";

/** `inventory` and `doctor` are listed below it as well: they say what this agent would see. */
export const agentCommand = (subcommands: Readonly<Record<string, Listed>>) =>
  defineCommand({
    name: "agent",
    summary: "what runs on every GPU node: looks at it, and connects it to a server",
    description: `Runs until SIGTERM or Ctrl-C. SIGHUP reads ${AGENT_CONFIG_PATH} again; flags win over it.\nA node that has joined needs no flag.`,
    subcommands,
    flags: {
      config: { kind: "string", hint: "FILE", summary: `read this instead of ${AGENT_CONFIG_PATH}` },
      server: { kind: "string", hint: "URL", summary: "the control plane, such as https://llmgw.example:8400" },
      token: {
        kind: "string",
        hint: "SECRET",
        summary: "join token, for the first start; also LLMGW_TOKEN, which no list of processes shows",
      },
      "token-file": { kind: "string", hint: "FILE", summary: "file with the join token" },
      fingerprint: { kind: "string", hint: "sha256:…", summary: "the one certificate that the server may show" },
      ca: { kind: "string", hint: "FILE", summary: "certificates to trust for the server, PEM" },
      "node-id": { kind: "string", hint: "NAME", summary: "name of this node in the cluster; default the host name" },
      "mgmt-addr": { kind: "string", hint: "ADDRESS", summary: "address at which the control plane reaches engines here" },
      state: { kind: "string", hint: "DIR", summary: "folder of the node's credential" },
      "metrics-listen": { kind: "string", hint: "ADDRESS:PORT", summary: `where /metrics is, or off; default ${METRICS_LISTEN}` },
      json: { kind: "boolean", summary: "print what ran as data when it ends" },
    },
    examples: [
      "llmgw agent --server https://llmgw.example:8400 --token llmgw-join-… --fingerprint sha256:…",
      "llmgw agent",
      "llmgw agent --machine h100-nvswitch-8 --server http://127.0.0.1:8400 --token llmgw-join-…",
    ],
    run: async (ctx, args) => {
      const flags: AgentFlags = {
        server: args.server,
        node_id: args["node-id"],
        mgmt_addr: args["mgmt-addr"],
        state_dir: args.state,
        metrics_listen: args["metrics-listen"],
        token_file: args["token-file"],
        fingerprint: args.fingerprint,
        ca: args.ca,
      };
      const runner = await ctx.runner();
      const machine = machineOf(ctx, runner);
      const read = () => readAgentConfig(runner, args.config, flags);
      const config = await read();
      const library = withOpenLibrary(runner, ctx);
      const running = await startAgent({
        config,
        stateDir: config.state_dir ?? usualStateDir(ctx, machine),
        runner,
        loadRunner: library.runner,
        machine,
        token: async () => args.token ?? nonEmpty(ctx.env.LLMGW_TOKEN),
        metricsListen: config.metrics_listen ?? (machine === undefined ? METRICS_LISTEN : "off"),
        ...surroundings(ctx),
      });
      const forget = ctx.onReload(() => void reload(ctx, running, read));
      await untilStopped(ctx);
      forget();
      await running.stop();
      await library.stop();
      return { data: { agent: { node_id: running.nodeId, metrics: running.metricsUrl } }, text: "" };
    },
  });

/** A file that does not fit changes nothing: an agent must not end because somebody is still typing. */
async function reload(ctx: Context, running: RunningAgent, read: () => ReturnType<typeof readAgentConfig>): Promise<void> {
  try {
    running.reload(await read());
  } catch (error) {
    const why = error instanceof UserError ? `${error.what}: ${error.why}` : messageOf(error);
    ctx.log.error("the configuration is not used, and the one before stays", { problem: why });
  }
}

/** The recorded machine's name, when one stands for this host. */
export function machineOf(ctx: Pick<Context, "machines">, runner: Runner): string | undefined {
  return runner.kind === "host" ? undefined : basename(ctx.machines[0] ?? "");
}

function usualStateDir(ctx: Context, machine: string | undefined): string {
  const folder = machine === undefined ? defaultStateDir("agent", ctx) : machineStateDir(machine, ctx);
  if (folder !== undefined) return folder;
  throw noStateDir();
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
