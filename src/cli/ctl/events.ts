/** `llmgw ctl events`: what happened, the latest last, where the eye is. */
import { renderTable } from "../../lib/table.ts";
import { Events } from "../../protocol/api.ts";
import { defineCommand, usageError } from "../command.ts";
import { ask } from "./client.ts";
import { SERVER_FLAGS, WATCH_FLAGS } from "./flags.ts";
import { nodeName } from "./nodes.ts";
import { show } from "./watch.ts";
import { timeText } from "./words.ts";

const USUAL = 100;
const MOST = 1_000;

export const events = defineCommand({
  name: "events",
  summary: "what happened, the latest last",
  flags: {
    node: { kind: "string", hint: "NODE", summary: "only what happened to this node" },
    limit: { kind: "string", hint: "N", summary: `the latest so many, at most ${MOST}; ${USUAL} unless given` },
    ...WATCH_FLAGS,
    ...SERVER_FLAGS,
  },
  examples: ["llmgw ctl events", "llmgw ctl events --node gpu-01 --limit 20"],
  run: async (ctx, args) => {
    const query = new URLSearchParams({ limit: String(limitOf(args.limit)) });
    if (args.node !== undefined) query.set("node", nodeName(args.node));
    return show(ctx, args, async (remote) => {
      const latestFirst = await ask(ctx, remote, { method: "GET", path: `/events?${query}`, answer: Events });
      const data = { events: latestFirst.events.toReversed() };
      return { data, text: () => renderEvents(data) };
    });
  },
});

function limitOf(given: string | undefined): number {
  if (given === undefined) return USUAL;
  const limit = /^\d{1,4}$/.test(given) ? Number(given) : 0;
  if (limit >= 1 && limit <= MOST) return limit;
  throw usageError(`--limit ${given} is no number of events`, `it takes 1 to ${MOST}`, `leave it out for ${USUAL}`);
}

function renderEvents({ events: list }: Events): string {
  if (list.length === 0) return "nothing has happened yet";
  return renderTable(
    [{ title: "TIME" }, { title: "NODE" }, { title: "EVENT" }, { title: "DETAIL" }],
    list.map((event) => [timeText(event.at), event.node_id, event.message, event.detail]),
  );
}
