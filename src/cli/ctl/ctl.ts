/** `llmgw ctl`: the table of its commands. */
import { type Command, defineGroup } from "../command.ts";

export const ctl: Command = defineGroup({
  name: "ctl",
  summary: "Steers a cluster through its server.",
  subcommands: {
    status: { summary: "the cluster at a glance", load: async () => (await import("./status.ts")).status },
    nodes: { summary: "the nodes, what they have and how they are", load: async () => (await import("./nodes.ts")).nodes },
    fabrics: {
      summary: "which adapters share a network, and what contradicts that",
      load: async () => (await import("./fabrics.ts")).fabrics,
    },
    events: { summary: "what happened, the latest last", load: async () => (await import("./events.ts")).events },
    doctor: { summary: "has a node look at itself: what keeps it from serving", load: async () => (await import("./doctor.ts")).doctor },
    token: { summary: "join tokens, with which nodes come in", load: async () => (await import("./token.ts")).token },
    operator: { summary: "who may use llmgw ctl", load: async () => (await import("./operator.ts")).operator },
    backup: { summary: "copies the server's database into a file", load: async () => (await import("./backup.ts")).backup },
  },
});
