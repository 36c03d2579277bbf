/** `llmgw ctl nodes`, and what is done to one of them. */
import * as v from "valibot";
import { NodeId } from "../../domain/node.ts";
import { printable } from "../../lib/printable.ts";
import { Done, NodeDetail, Nodes } from "../../protocol/api.ts";
import { type Answer, defineCommand, type Positional, usageError } from "../command.ts";
import type { Context } from "../context.ts";
import { ask } from "./client.ts";
import { connect, type Remote } from "./connect.ts";
import { REMOVAL_FLAGS, SERVER_FLAGS, type ServerArgs, WATCH_FLAGS } from "./flags.ts";
import { removal } from "./removal.ts";
import { renderNodes } from "./render-nodes.ts";
import { show } from "./watch.ts";

const NODE: Positional = { name: "NODE", summary: "name of the node, as llmgw ctl nodes lists it", required: true };

/** Throws `UserError` for what could not be the name of any node: it would be another path. */
export function nodeName(word: string | undefined): string {
  if (word !== undefined && v.is(NodeId, word)) return word;
  throw usageError(
    `"${printable(word ?? "")}" is no name of a node`,
    "a name has letters, digits, '.', '_' and '-'",
    "see: llmgw ctl nodes",
  );
}

const showNode = defineCommand({
  name: "show",
  summary: "one node: inventory, findings, load",
  flags: { ...WATCH_FLAGS, ...SERVER_FLAGS },
  positionals: [NODE],
  examples: ["llmgw ctl nodes show gpu-01", "llmgw ctl nodes show gpu-01 --watch"],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    const { renderNode } = await import("./render-node.ts");
    return show(ctx, args, async (remote) => {
      const { now, ...detail } = await ask(ctx, remote, { method: "GET", path: `/nodes/${node}`, answer: NodeDetail });
      const nowMs = momentOf(ctx, now);
      const { last_seen_at: _seen, ...lasting } = detail.node;
      return {
        data: detail,
        text: (view) => renderNode(detail, nowMs, view.color),
        news: { ...detail, node: lasting, load: detail.load?.devices },
      };
    });
  },
});

/** By the server's clock where it says what time it is: ages must not depend on the clock of whoever looks. */
export function momentOf(ctx: Pick<Context, "now">, now: string | undefined): number {
  const ms = now === undefined ? Number.NaN : Date.parse(now);
  return Number.isNaN(ms) ? ctx.now().getTime() : ms;
}

const cordon = defineCommand({
  name: "cordon",
  summary: "nothing new is placed on the node; what runs goes on",
  flags: { reason: { kind: "string", hint: "TEXT", summary: "why, for whoever looks later" }, ...SERVER_FLAGS },
  positionals: [NODE],
  examples: ['llmgw ctl nodes cordon gpu-01 --reason "new memory on Tuesday"'],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    const { reason } = args;
    if (reason !== undefined && reason.length > 500) {
      throw usageError("--reason is too long", `it has ${reason.length} characters, and 500 are kept`, "say it in fewer words");
    }
    const body = reason === undefined ? {} : { reason };
    return act(
      ctx,
      args,
      `/nodes/${node}/cordon`,
      body,
      `${node} is cordoned: nothing new is placed there; undo: llmgw ctl nodes uncordon ${node}`,
    );
  },
});

const uncordon = defineCommand({
  name: "uncordon",
  summary: "the node takes new work again",
  flags: SERVER_FLAGS,
  positionals: [NODE],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    return act(ctx, args, `/nodes/${node}/uncordon`, undefined, `${node} takes new work again`);
  },
});

const rotate = defineCommand({
  name: "rotate",
  summary: "gives the node a new credential; the one before ends",
  flags: SERVER_FLAGS,
  positionals: [NODE],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    const text = `${node} has a new credential; the one before counts until its agent uses the new one`;
    return act(ctx, args, `/nodes/${node}/rotate`, undefined, text, 15_000);
  },
});

async function act(ctx: Context, args: ServerArgs, path: string, body: unknown, text: string, timeoutMs?: number): Promise<Answer> {
  const remote = await connect(ctx, args);
  const limit = timeoutMs === undefined ? {} : { timeoutMs };
  const data = await ask(ctx, remote, { method: "POST", path, ...(body === undefined ? {} : { body }), answer: Done, ...limit });
  return { data, text };
}

const remove = defineCommand({
  name: "remove",
  summary: "forgets a node and refuses its agent from then on",
  description: "It comes back only by joining again with a token. Asks first on a terminal; --yes answers.",
  flags: { ...REMOVAL_FLAGS, ...SERVER_FLAGS },
  positionals: [NODE],
  examples: ["llmgw ctl nodes remove gpu-01 --dry-run", "llmgw ctl nodes remove gpu-01 --yes"],
  run: async (ctx, args, [word]) => {
    const node = nodeName(word);
    return removal(ctx, args, {
      path: `/nodes/${node}`,
      thing: `node ${node}`,
      // Whoever mistypes a name learns it before anything is asked.
      find: async (remote) => {
        const { node: found } = await ask(ctx, remote, { method: "GET", path: `/nodes/${node}`, answer: NodeDetail });
        return `it is ${found.state}; its agent is refused from then on, and joins again only with a token`;
      },
    });
  },
});

export const nodes = defineCommand({
  name: "nodes",
  summary: "the nodes, what they have and how they are",
  flags: { ...WATCH_FLAGS, ...SERVER_FLAGS },
  subcommands: {
    show: { summary: showNode.summary, load: async () => showNode },
    cordon: { summary: cordon.summary, load: async () => cordon },
    uncordon: { summary: uncordon.summary, load: async () => uncordon },
    rotate: { summary: rotate.summary, load: async () => rotate },
    remove: { summary: remove.summary, load: async () => remove },
  },
  examples: ["llmgw ctl nodes", "llmgw ctl nodes --watch", "llmgw ctl nodes --json", "llmgw ctl nodes show gpu-01"],
  run: async (ctx, args) =>
    show(ctx, args, async (remote) => {
      const { now, nodes: list } = await listNodes(ctx, remote);
      const nowMs = momentOf(ctx, now);
      return {
        data: { nodes: list },
        text: (view) => renderNodes(list, nowMs, view.color),
        news: list.map(({ last_seen_at: _seen, ...lasting }) => lasting),
      };
    }),
});

function listNodes(ctx: Context, remote: Remote): Promise<Nodes> {
  return ask(ctx, remote, { method: "GET", path: "/nodes", answer: Nodes });
}
