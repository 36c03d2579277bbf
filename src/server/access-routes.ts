/** Who may get in: join tokens for nodes, operators for `ctl`; and the backup, which holds the hashes of all of them. */
import type * as v from "valibot";
import { compact } from "../lib/compact.ts";
import { NewOperatorBody, NewTokenBody, type OperatorView, type TokenView } from "../protocol/api.ts";
import { hashSecret, newSecret } from "../protocol/secrets.ts";
import { ApiRefusal, nothing } from "./refusals.ts";
import { type ApiOptions, bodyOf, type Call, DONE, note, type Route, shortId } from "./route.ts";
import type { JoinToken, Operator } from "./store/store.ts";
import { timeOf } from "./views.ts";

export function accessRoutes(options: ApiOptions): readonly Route[] {
  const { store, clock } = options;
  return [
    {
      method: "GET",
      path: "/tokens",
      role: "admin",
      run: async () => ({ tokens: (await store.tokens()).map(tokenView), now: timeOf(clock.nowMs()) }),
    },
    {
      method: "POST",
      path: "/tokens",
      role: "admin",
      run: async (call) => {
        const made = await createToken(options, call);
        await note(options, call, "join token created", undefined, made.token.token_id);
        return made;
      },
    },
    {
      method: "DELETE",
      path: "/tokens/:id",
      role: "admin",
      run: async (call) => {
        if (!(await store.removeToken(call.id))) throw nothing("join token", call.id, "llmgw ctl token list");
        await note(options, call, "join token removed", undefined, call.id);
        return DONE;
      },
    },
    { method: "GET", path: "/operators", role: "admin", run: async () => ({ operators: (await store.operators()).map(operatorView) }) },
    {
      method: "POST",
      path: "/operators",
      role: "admin",
      run: async (call) => {
        const { name, role } = await bodyOf(call.request, NewOperatorBody);
        const operator: Operator = { operator_id: shortId(options), name, role, created_ms: clock.nowMs() };
        const secret = newSecret("operator", options.random);
        await store.addOperator(operator, hashSecret(secret));
        await note(options, call, "operator created", undefined, `${name} (${role})`);
        return { operator: operatorView(operator), secret };
      },
    },
    {
      method: "DELETE",
      path: "/operators/:id",
      role: "admin",
      run: async (call) => {
        await removeOperator(options, call.id);
        await note(options, call, "operator removed", undefined, call.id);
        return DONE;
      },
    },
    {
      method: "GET",
      path: "/backup",
      role: "admin",
      run: async () => new Response(new Uint8Array(await store.backup()), { headers: { "content-type": "application/vnd.sqlite3" } }),
    },
  ];
}

const DAY_MS = 86_400_000;

async function createToken(options: ApiOptions, call: Call) {
  const { store, clock, random } = options;
  const { ttl_s = 3_600, uses = 1 } = await bodyOf(call.request, NewTokenBody);
  const nowMs = clock.nowMs();
  // Those that ended long ago help nobody; they go when new ones come.
  for (const old of await store.tokens()) if (old.expires_ms < nowMs - 7 * DAY_MS) await store.removeToken(old.token_id);
  const token: JoinToken = {
    token_id: shortId(options),
    created_ms: nowMs,
    expires_ms: nowMs + ttl_s * 1000,
    uses_left: uses,
    created_by: call.operator.name,
  };
  const secret = newSecret("join", random);
  await store.addToken(token, hashSecret(secret));
  const { server, fingerprint } = options.joinAt(call.request);
  return { token: tokenView(token), secret, server, ...compact({ fingerprint }) };
}

async function removeOperator({ store }: ApiOptions, operatorId: string): Promise<void> {
  const operators = await store.operators();
  const one = operators.find((operator) => operator.operator_id === operatorId);
  if (one === undefined) throw nothing("operator", operatorId, "llmgw ctl operator list");
  if (one.role === "admin" && operators.filter((operator) => operator.role === "admin").length === 1) {
    throw new ApiRefusal(409, {
      what: `"${one.name}" is the last admin`,
      why: "without one nobody could change anything any more",
      fix: "create another first: llmgw ctl operator create NAME --role admin",
    });
  }
  await store.removeOperator(operatorId);
}

function tokenView({ token_id, created_ms, expires_ms, uses_left, created_by }: JoinToken): v.InferOutput<typeof TokenView> {
  return { token_id, created_at: timeOf(created_ms), expires_at: timeOf(expires_ms), uses_left, created_by };
}

function operatorView({ operator_id, name, role, created_ms }: Operator): v.InferOutput<typeof OperatorView> {
  return { operator_id, name, role, created_at: timeOf(created_ms) };
}
