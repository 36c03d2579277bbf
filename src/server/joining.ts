/** How a node gets in: a join token, once looked up, counts down, and the credential that the agent chose is its own from then on. */
import { JoinRequestBody } from "../protocol/api.ts";
import { hashSecret, secretKind } from "../protocol/secrets.ts";
import { ApiRefusal, limited } from "./refusals.ts";
import { type ApiOptions, bodyOf, momentOf } from "./route.ts";
import { nodeView, timeOf } from "./views.ts";

export async function join(options: ApiOptions, request: Request, remote: string) {
  const { store, guard, clock, log } = options;
  if (!guard.mayTry(remote)) throw limited(3);
  const body = await bodyOf(request, JoinRequestBody);
  const { node_id, credential_hash: credential } = body;
  const refused = async (status: number, what: string, why: string, fix: string): Promise<never> => {
    log.warn("join refused", { node: node_id, remote, why });
    await store.addEvent({ at_ms: clock.nowMs(), node_id, message: "join refused", detail: `${why} (${remote})` });
    throw new ApiRefusal(status, { what, why, fix });
  };
  const kind = secretKind(body.token);
  const token = hashSecret(body.token);
  const outcome =
    kind === "join"
      ? await store.join({ token, node_id, credential, nowMs: clock.nowMs(), takeover: await givenUp(options, node_id) })
      : ({ kind: "unknown-token" } as const);
  const anew = "make a new one with: llmgw ctl token create";
  const what = `the node "${node_id}" may not join`;
  switch (outcome.kind) {
    case "joined":
      log.info("node joined", { node: node_id, remote });
      await store.addEvent({ at_ms: clock.nowMs(), node_id, message: "node joined", detail: `from ${remote}` });
      return { cluster_id: await store.clusterId(), node_id };
    case "unknown-token":
      guard.failed(remote, "join token");
      return refused(
        401,
        what,
        kind === "join" ? "the join token is not known here: it was removed, or is another cluster's" : notJoin(kind),
        anew,
      );
    case "expired":
      guard.failed(remote, "join token");
      return refused(401, what, `the join token expired at ${timeOf(outcome.expires_ms)}`, anew);
    case "used-up":
      guard.failed(remote, "join token");
      return refused(403, what, "the join token has been used as often as it may", anew);
    case "name-taken":
      return refused(
        409,
        `a node "${node_id}" is here already`,
        "it is not lost, and another machine asks for its name",
        `give this one another name (--node-id), or remove the other first: llmgw ctl nodes remove ${node_id}`,
      );
    default:
      return outcome satisfies never;
  }
}

function notJoin(kind: ReturnType<typeof secretKind>): string {
  switch (kind) {
    case "operator":
      return "this is an operator's token, which is for llmgw ctl";
    case "node":
      return "this is a node's credential, which is for its own agent";
    case "join":
    case undefined:
      return "it has not the form of a join token";
    default:
      return kind satisfies never;
  }
}

/** Whether a machine that asks for a node's name may have it: the node is lost, or never said a word. */
async function givenUp(options: ApiOptions, nodeId: string): Promise<boolean> {
  const row = await options.store.node(nodeId);
  if (row === undefined || options.sessions.live(nodeId) !== undefined) return false;
  return row.last_seen_ms === undefined || nodeView(row, momentOf(options)).state === "lost";
}
