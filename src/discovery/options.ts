/** From flags and agent.yaml to what discovery is asked for. Flags win. */

import { AgentConfig } from "../domain/agent-config.ts";
import { AGENT_CONFIG_PATH } from "../domain/config-paths.ts";
import { messageOf } from "../lib/user-error.ts";
import { checkYamlText } from "../lib/yaml-file.ts";
import { type Runner, RunnerError, readText } from "../platform/runner.ts";
import type { DiscoverOptions } from "./discover.ts";

export interface InventoryFlags {
  readonly nvidiaSmi?: string | undefined;
  /** `--nvml` or `--no-nvml`; wins over agent.yaml. */
  readonly nvml?: boolean | undefined;
  readonly nvmlLibrary?: string | undefined;
  readonly ibRoot?: string | undefined;
  readonly modelDirs?: readonly string[] | undefined;
  readonly gpus?: "all" | "none" | "only" | undefined;
}

export interface ChosenOptions {
  readonly options: DiscoverOptions;
  readonly warnings: readonly string[];
  /** Whether the folders to look for weights in were named by somebody, or are the usual places. */
  readonly modelDirsGiven: boolean;
  /** What agent.yaml says, as far as it fits. */
  readonly config: AgentConfig;
}

/** `env` is empty on a recorded machine: the variables of whoever replays it say nothing about it. */
export async function discoverOptions(
  runner: Runner,
  flags: InventoryFlags,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ChosenOptions> {
  const { config, warnings } = await readAgentConfig(runner);
  return { ...chosenOptions(config, flags, runner.home, env), warnings, config };
}

/** The same for a configuration that has been read already. Pure. */
export function chosenOptions(
  config: AgentConfig,
  flags: InventoryFlags,
  home: string,
  env: Readonly<Record<string, string | undefined>>,
): Pick<ChosenOptions, "options" | "modelDirsGiven"> {
  const given = flags.modelDirs !== undefined && flags.modelDirs.length > 0 ? flags.modelDirs : config.model_dirs;
  return {
    options: {
      nvidiaSmi: flags.nvidiaSmi ?? config.discovery?.nvidia_smi,
      nvml: nvmlUse(flags.nvml ?? (flags.nvmlLibrary === undefined ? config.discovery?.prefer_nvml : true)),
      nvmlLibrary: flags.nvmlLibrary,
      ibRoot: flags.ibRoot ?? config.discovery?.ib_root,
      fabrics: config.fabrics,
      hostname: config.hostname,
      modelDirs: given ?? usualModelDirs(home, env),
      skipGpus: config.discovery?.skip_gpus,
      gpus: flags.gpus ?? "all",
    },
    modelDirsGiven: given !== undefined,
  };
}

function nvmlUse(asked: boolean | undefined): DiscoverOptions["nvml"] {
  if (asked === undefined) return "if-there";
  return asked ? "wanted" : "no";
}

/** Where weights usually are. */
export function usualModelDirs(home: string, env: Readonly<Record<string, string | undefined>>): readonly string[] {
  const hub = nonEmpty(env.HF_HUB_CACHE) ?? (nonEmpty(env.HF_HOME) === undefined ? `${home}/.cache/huggingface/hub` : `${env.HF_HOME}/hub`);
  const ollama = nonEmpty(env.OLLAMA_MODELS);
  return [
    "/var/lib/llmgw/models",
    hub,
    ...(ollama === undefined ? [`${home}/.ollama/models`, "/usr/share/ollama/.ollama/models"] : [ollama]),
  ];
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === "" ? undefined : text;
}

interface ReadConfig {
  readonly config: AgentConfig;
  readonly warnings: readonly string[];
}

/** The node's agent.yaml. The inventory is useful without it, so what does not fit is a warning here and an error for the agent. */
async function readAgentConfig(runner: Runner): Promise<ReadConfig> {
  let text: string | undefined;
  try {
    text = await readText(runner, AGENT_CONFIG_PATH, { timeoutMs: 2_000 });
  } catch (error) {
    if (!(error instanceof RunnerError)) throw error;
    return { config: {}, warnings: [`${AGENT_CONFIG_PATH} is not used: ${messageOf(error)}`] };
  }
  if (text === undefined) return { config: {}, warnings: [] };
  const checked = await checkYamlText(AgentConfig, text);
  if (checked.kind === "ok") return { config: checked.value, warnings: [] };
  const { renderMisfit, withoutUnknownKeys } = await import("../lib/schema-error.ts");
  const warnings = checked.misfits.map((misfit) => renderMisfit(misfit, AGENT_CONFIG_PATH));
  const rest = withoutUnknownKeys(AgentConfig, checked);
  if (rest === undefined) return { config: {}, warnings: warnings.map((warning) => `agent.yaml is not used: ${warning}`) };
  return { config: rest, warnings: warnings.map((warning) => `${warning}; the key is not used`) };
}

/** What a recorded machine is asked for by default, whatever folders and variables its recorder had. `home` is that of its recording. */
export function replayedModelDirs(home: string): readonly string[] {
  return usualModelDirs(home, {});
}
