/** The table of commands. Each module is loaded when its command is asked for. */
import { type Command, defineGroup, type Listed } from "./command.ts";

const INVENTORY: Listed = {
  summary: "what this node has: cards, MIG instances, adapters, weights",
  load: async () => (await import("./inventory.ts")).inventory,
};

const DOCTOR: Listed = {
  summary: "what keeps this node from serving, and what to do about it",
  load: async () => (await import("./doctor.ts")).doctor,
};

export const root: Command = defineGroup({
  name: "llmgw",
  summary: "llmgw serves large language models from bare-metal GPU nodes.",
  subcommands: {
    inventory: INVENTORY,
    doctor: DOCTOR,
    agent: {
      summary: "what runs on every GPU node",
      load: async () => (await import("./agent.ts")).agentCommand({ inventory: INVENTORY, doctor: DOCTOR }),
    },
    up: {
      summary: "all of it on one machine: server and agent in one process",
      load: async () => (await import("./up.ts")).up,
    },
    server: {
      summary: "control plane: nodes join it, and llmgw ctl steers it",
      load: async () => (await import("./server.ts")).server,
    },
    ctl: {
      summary: "steers a cluster: nodes, status, tokens, operators, backup",
      load: async () => (await import("./ctl/ctl.ts")).ctl,
    },
    engine: {
      summary: "engines that come with llmgw: a probe",
      load: async () =>
        defineGroup({
          name: "engine",
          summary: "Engines that come with llmgw.",
          subcommands: {
            echo: {
              summary: "a probe that speaks the OpenAI API and repeats what it is told; no model",
              load: async () => (await import("./engine/echo.ts")).echo,
            },
          },
        }),
    },
    "nvml-probe": {
      summary: "one look through the NVML library, as JSON; what inventory and agent start for themselves",
      hidden: true,
      load: async () => (await import("./nvml-probe.ts")).nvmlProbe,
    },
    completion: {
      summary: "completion script for bash, zsh or fish",
      load: async () => (await import("./completion.ts")).completionOf(root),
    },
  },
});
