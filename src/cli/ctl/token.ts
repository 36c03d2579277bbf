/** `llmgw ctl token`: join tokens. One is a line to paste on a node. */
import { isLoopback } from "../../domain/listen-address.ts";
import { parseDuration } from "../../lib/duration.ts";
import { printable } from "../../lib/printable.ts";
import { renderTable } from "../../lib/table.ts";
import { UserError } from "../../lib/user-error.ts";
import { Done, NewToken, Tokens } from "../../protocol/api.ts";
import { type Command, defineCommand, defineGroup, usageError } from "../command.ts";
import { ask } from "./client.ts";
import { connect } from "./connect.ts";
import { SERVER_FLAGS } from "./flags.ts";
import { momentOf } from "./nodes.ts";
import { counted, timeText } from "./words.ts";

const LONGEST_MS = 366 * 86_400_000;
const MOST_USES = 10_000;

const create = defineCommand({
  name: "create",
  summary: "makes a token and prints the line to paste on a node",
  flags: {
    ttl: { kind: "string", hint: "TIME", summary: "how long it counts, such as 30m, 2h, 7d; 1h unless given" },
    uses: { kind: "string", hint: "N", summary: "how many nodes may join with it; 1 unless given" },
    ...SERVER_FLAGS,
  },
  examples: ["llmgw ctl token create", "llmgw ctl token create --ttl 7d --uses 16", "llmgw ctl token create --json"],
  run: async (ctx, args) => {
    const ttlMs = ttlOf(args.ttl);
    const uses = usesOf(args.uses);
    const body = { ...(ttlMs === undefined ? {} : { ttl_s: ttlMs / 1_000 }), ...(uses === undefined ? {} : { uses }) };
    const remote = await connect(ctx, args);
    const made = await ask(ctx, remote, { method: "POST", path: "/tokens", body, answer: NewToken });
    if (args.json !== true) {
      const { token } = made;
      const nodes = token.uses_left === 1 ? "a node" : `up to ${token.uses_left} nodes`;
      ctx.say(`Paste this line on ${nodes}, as root, before ${timeText(token.expires_at)}. It is shown once.`);
      if (URL.canParse(made.server) && isLoopback(new URL(made.server).hostname)) {
        ctx.say(`${made.server} is this machine's own address: nodes elsewhere cannot reach it (server.yaml: listen, advertise).`);
      }
    }
    return { data: made, text: joinLine(made) };
  },
});

/** Words that a shell might take for something else are quoted: an IPv6 address has brackets. */
function joinLine({ server, secret, fingerprint }: NewToken): string {
  const words = [
    "llmgw",
    "agent",
    "--server",
    server,
    "--token",
    secret,
    ...(fingerprint === undefined ? [] : ["--fingerprint", fingerprint]),
  ];
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

function ttlOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const ms = parseDuration(given);
  if (ms === undefined) {
    const why = /^\d+$/.test(given) ? "a number without a unit may be seconds or days" : "it takes a number and s, m, h or d";
    throw usageError(`--ttl ${given} is no time`, why, "write it as 30m, 2h or 7d");
  }
  if (ms >= 1_000 && ms <= LONGEST_MS) return ms;
  throw usageError(`--ttl ${given} cannot be used`, "a token counts for 1 s to 366 d", "write it as 30m, 2h or 7d");
}

function usesOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const uses = /^\d{1,6}$/.test(given) ? Number(given) : 0;
  if (uses >= 1 && uses <= MOST_USES) return uses;
  throw usageError(`--uses ${given} is no number of nodes`, `it takes 1 to ${MOST_USES}`, "leave it out for one node");
}

const list = defineCommand({
  name: "list",
  summary: "the join tokens, without their secrets",
  flags: SERVER_FLAGS,
  run: async (ctx, args) => {
    const { now, tokens } = await ask(ctx, await connect(ctx, args), { method: "GET", path: "/tokens", answer: Tokens });
    const nowMs = momentOf(ctx, now);
    return { data: { tokens }, text: renderTokens(tokens, nowMs) };
  },
});

function renderTokens(tokens: Tokens["tokens"], nowMs: number): string {
  if (tokens.length === 0) return "there is no join token; make one with: llmgw ctl token create";
  return renderTable(
    [
      { title: "ID" },
      { title: "STATE" },
      { title: "USES LEFT", align: "right" },
      { title: "EXPIRES" },
      { title: "CREATED" },
      { title: "BY" },
    ],
    tokens.map((token) => [
      token.token_id,
      Date.parse(token.expires_at) <= nowMs ? "expired" : token.uses_left === 0 ? "used up" : "counts",
      String(token.uses_left),
      timeText(token.expires_at),
      timeText(token.created_at),
      token.created_by,
    ]),
  );
}

const remove = defineCommand({
  name: "remove",
  summary: "ends a join token; nodes that joined with it stay",
  flags: { "dry-run": { kind: "boolean", summary: "say what would be done, and change nothing" }, ...SERVER_FLAGS },
  positionals: [{ name: "ID", summary: "the token's id, as llmgw ctl token list shows it", required: true }],
  run: async (ctx, args, [word]) => {
    const id = publicId(word, "llmgw ctl token list");
    const remote = await connect(ctx, args);
    if (args["dry-run"] !== true) {
      const data = await ask(ctx, remote, { method: "DELETE", path: `/tokens/${id}`, answer: Done });
      return { data, text: `token ${id} is removed; nodes that joined with it stay` };
    }
    const { tokens } = await ask(ctx, remote, { method: "GET", path: "/tokens", answer: Tokens });
    const found = tokens.find((token) => token.token_id === id);
    if (found === undefined) throw noSuch("join token", id, "llmgw ctl token list");
    const text = `would remove token ${id}, with which ${counted(found.uses_left, "node")} may join; nothing was changed`;
    return { data: { done: false, dry_run: true }, text };
  },
});

/** Throws `UserError` for what could not be an id: it would be another path. Secrets are not repeated. */
export function publicId(word: string | undefined, see: string): string {
  if (word !== undefined && /^[a-z0-9-]{1,64}$/i.test(word) && !word.startsWith("llmgw-")) return word;
  const shown = word?.startsWith("llmgw-") === true ? "a secret" : `"${printable(word ?? "")}"`;
  throw usageError(`${shown} is no id`, "ids are short and public, and stand in the list", `see: ${see}`);
}

export function noSuch(what: string, id: string, see: string): UserError {
  return new UserError({ what: `there is no ${what} "${id}"`, why: "none has this id", fix: `see: ${see}` }, { exitCode: 1 });
}

export const token: Command = defineGroup({
  name: "token",
  summary: "Join tokens, with which nodes come in.",
  subcommands: {
    create: { summary: create.summary, load: async () => create },
    list: { summary: list.summary, load: async () => list },
    remove: { summary: remove.summary, load: async () => remove },
  },
});
