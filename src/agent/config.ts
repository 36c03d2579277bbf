/** agent.yaml and flags, as the agent takes them: flags win, and what does not fit is an error here, where inventory only warns. */

import * as v from "valibot";
import { AgentConfig } from "../domain/agent-config.ts";
import { AGENT_CONFIG_PATH } from "../domain/config-paths.ts";
import { NodeId } from "../domain/node.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { parseYamlText } from "../lib/yaml-file.ts";
import { type Runner, RunnerError, readText } from "../platform/runner.ts";
import { readWholeFile } from "../platform/state-files.ts";

/** What flags of `llmgw agent` say; they stay when the file is read again. */
export type AgentFlags = {
  readonly [Key in "server" | "node_id" | "mgmt_addr" | "state_dir" | "metrics_listen" | "token_file"]?: string | undefined;
} & { readonly fingerprint?: string | undefined; readonly ca?: string | undefined };

/** `named`: a file of this host that `--config` gives. Throws `UserError` with every misfit and its place. */
export async function readAgentConfig(runner: Runner, named: string | undefined, flags: AgentFlags): Promise<AgentConfig> {
  const file = named ?? AGENT_CONFIG_PATH;
  const text = named === undefined ? await readUsual(runner) : await readNamed(named);
  const config =
    text === undefined ? {} : await parseYamlText(AgentConfig, text, file, "correct it; its keys are in docs/reference/agent-yaml.md");
  return withFlags(config, flags);
}

async function readUsual(runner: Runner): Promise<string | undefined> {
  try {
    return await readText(runner, AGENT_CONFIG_PATH, { timeoutMs: 5_000 });
  } catch (cause) {
    if (!(cause instanceof RunnerError)) throw cause;
    throw cannotRead(AGENT_CONFIG_PATH, cause);
  }
}

async function readNamed(file: string): Promise<string> {
  let text: string | undefined;
  try {
    text = await readWholeFile(file);
  } catch (cause) {
    throw cannotRead(file, cause);
  }
  if (text === undefined) throw cannotRead(file, new Error("there is no such file"));
  return text;
}

function cannotRead(file: string, cause: unknown): UserError {
  return new UserError(
    { what: `${file} cannot be read`, why: messageOf(cause), fix: "check its path and rights, or give another with --config" },
    { cause },
  );
}

/** Flags are checked by the same schema as the file: one rule for what a server's URL is. */
function withFlags(config: AgentConfig, flags: AgentFlags): AgentConfig {
  const { fingerprint, ca, ...top } = flags;
  const given = Object.fromEntries(Object.entries(top).filter(([, value]) => value !== undefined));
  const tls = { ...config.tls, ...(fingerprint === undefined ? {} : { fingerprint }), ...(ca === undefined ? {} : { ca }) };
  const merged = { ...config, ...given, ...(Object.keys(tls).length === 0 ? {} : { tls }) };
  const checked = v.safeParse(AgentConfig, merged);
  if (checked.success) return checked.output;
  const issue = checked.issues[0];
  const key = v.getDotPath(issue) ?? "";
  const flag = key === "state_dir" ? "--state" : `--${key.replace(/^tls\./, "").replaceAll("_", "-")}`;
  throw new UserError(
    {
      what: `${flag} ${String(issue.input)} cannot be used`,
      why: issue.message,
      fix: `write ${flag} in the form that docs/reference/agent-yaml.md gives for ${key}`,
    },
    { usage: true },
  );
}

/** The node's name in the cluster: as configured, as it was when it joined, else the host name. */
export function nodeIdOf(config: Pick<AgentConfig, "node_id">, joinedAs: string | undefined, hostname: string | undefined): string {
  if (config.node_id !== undefined) return config.node_id;
  if (joinedAs !== undefined) return joinedAs;
  if (hostname === undefined) {
    throw new UserError({
      what: "this node has no name",
      why: "node_id is not configured, and there is no host name to take instead",
      fix: "give one with --node-id NAME, or set node_id in agent.yaml",
    });
  }
  const checked = v.safeParse(NodeId, hostname);
  if (checked.success) return checked.output;
  throw new UserError({
    what: `the host name "${hostname}" cannot be the node's name`,
    why: `it is not ${checked.issues[0].message}`,
    fix: "give another with --node-id NAME, or set node_id in agent.yaml",
  });
}
