/**
 * How this node becomes part of a cluster. The agent chooses its credential itself, writes it down, and sends its hash with the join token:
 * an answer that is lost is asked for again with the same hash, and no other node can be given the same secret.
 */
import type { Log } from "../lib/log.ts";
import { UserError } from "../lib/user-error.ts";
import { clientTls, type Trust } from "../platform/server-certificate.ts";
import { JoinAnswer } from "../protocol/api.ts";
import { callApi } from "../protocol/client.ts";
import { hashSecret, newSecret, secretKind } from "../protocol/secrets.ts";
import type { CredentialFile, CredentialStore } from "./credential.ts";

export interface ServerPlace {
  /** Without a slash at its end. */
  readonly url: string;
  readonly trust: Trust;
}

export interface Joining {
  readonly store: CredentialStore;
  readonly server: ServerPlace;
  readonly nodeId: string;
  readonly token: string;
  readonly random: (bytes: number) => Uint8Array;
  readonly log: Log;
}

/**
 * Joins, and returns what is written down then. `anew`: the credential at hand does not count any more. Throws `UserError` for a no, anything
 * else when the server could not be reached.
 */
export async function join(joining: Joining, options: { readonly anew: boolean; readonly signal?: AbortSignal }): Promise<CredentialFile> {
  const { store, server, nodeId, token } = joining;
  checkToken(token);
  const before = await store.read();
  const again = before !== undefined && !before.joined && before.node_id === nodeId && !options.anew;
  const chosen: CredentialFile = {
    version: 1,
    server: server.url,
    ...(server.trust.fingerprint === undefined ? {} : { fingerprint: server.trust.fingerprint }),
    ...(server.trust.ca === undefined ? {} : { ca: server.trust.ca }),
    node_id: nodeId,
    credential: again ? before.credential : newSecret("node", joining.random),
    joined: false,
  };
  await store.write(chosen);
  const tls = await clientTls(server.url, server.trust, options.signal);
  const outcome = await callApi(
    { url: server.url, tls, secret: undefined },
    {
      method: "POST",
      path: "/join",
      body: { token, node_id: nodeId, credential_hash: hashSecret(chosen.credential) },
      answer: JoinAnswer,
      signal: options.signal,
    },
  );
  switch (outcome.kind) {
    case "ok": {
      const joined = { ...chosen, joined: true, cluster_id: outcome.value.cluster_id };
      await store.write(joined);
      joining.log.info("joined the cluster", { node: nodeId, server: server.url, cluster: outcome.value.cluster_id });
      return joined;
    }
    case "refused":
      if (outcome.status === 429 || outcome.status >= 500) throw new Error(`${outcome.error.what}: ${outcome.error.why}`);
      throw new UserError(outcome.error);
    case "unreachable":
      throw new Error(`${server.url} cannot be reached: ${outcome.problem}`);
    case "strange":
      if (outcome.status >= 500) throw new Error(`${server.url}: ${outcome.problem}`);
      throw new UserError({
        what: `${server.url} is no llmgw server that this agent knows`,
        why: outcome.problem,
        fix: "check --server; bring server and agent to one version",
      });
    default:
      return outcome satisfies never;
  }
}

function checkToken(token: string): void {
  const kind = secretKind(token);
  if (kind === "join") return;
  const why =
    kind === "operator"
      ? "it is an operator's token, which is for llmgw ctl"
      : kind === "node"
        ? "it is a node's credential, which belongs to one node"
        : "it has not the form of one: llmgw-join- and 40 hex digits";
  throw new UserError({ what: "this is no join token", why, fix: "make one with: llmgw ctl token create" });
}
