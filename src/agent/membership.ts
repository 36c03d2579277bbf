/**
 * This node's place in its cluster: joins when it has to, opens the stream with the credential that counts, and changes that credential
 * when the server hands out another. The new one counts once it has been used; until then the old one is kept.
 */
import type { Log } from "../lib/log.ts";
import { UserError } from "../lib/user-error.ts";
import type { Connect } from "../protocol/connection.ts";
import { secretKind } from "../protocol/secrets.ts";
import type { CredentialFile, CredentialStore } from "./credential.ts";
import { join, type ServerPlace } from "./join.ts";
import { CredentialRefused, type StreamClient } from "./stream-client.ts";

export interface Membership {
  /** Joins unless it is done. Throws as `join` does. */
  ensureJoined(signal?: AbortSignal): Promise<void>;
  readonly connect: Connect;
  /** Takes a new credential; it is used from the next connection on. */
  replaceCredential(credential: string): Promise<void>;
  /** `undefined` until the node has joined. */
  clusterId(): string | undefined;
}

export interface MembershipOptions {
  readonly store: CredentialStore;
  /** What was read at the start. */
  readonly known: CredentialFile | undefined;
  readonly server: ServerPlace;
  readonly nodeId: string;
  /** Reads the join token when it is needed; `undefined` when there is none. */
  readonly token: () => Promise<string | undefined>;
  readonly streams: StreamClient;
  readonly random: (bytes: number) => Uint8Array;
  readonly log: Log;
}

export function createMembership(options: MembershipOptions): Membership {
  const { store, server, nodeId, streams, random, log } = options;
  let file = options.known;
  /** A token that a joined node was started with is for the day on which its credential stops counting, and is tried once. */
  let tokenLeft = true;

  const joinNow = async (anew: boolean, signal: AbortSignal | undefined): Promise<CredentialFile> => {
    const token = await options.token();
    if (token === undefined) throw notJoined(nodeId);
    const joining = { store, server, nodeId, token, random, log };
    return join(joining, { anew, ...(signal === undefined ? {} : { signal }) });
  };
  const write = async (next: CredentialFile): Promise<void> => {
    await store.write(next);
    file = next;
  };
  const withoutNext = ({ next_credential: _next, ...rest }: CredentialFile): CredentialFile => rest;

  const ensureJoined = async (signal?: AbortSignal): Promise<void> => {
    if (file?.joined !== true) file = await joinNow(false, signal);
  };

  return {
    ensureJoined,
    connect: async (events, signal) => {
      await ensureJoined(signal);
      const current = file;
      if (current === undefined) throw new Error("joined without a credential");
      const { next_credential: next } = current;
      try {
        const connection = await streams.open(next ?? current.credential, events, signal);
        if (next !== undefined) {
          await write({ ...withoutNext(current), credential: next });
          log.info("credential replaced", { node: nodeId });
        }
        return connection;
      } catch (error) {
        if (!(error instanceof CredentialRefused)) throw error;
        if (next !== undefined) {
          await write(withoutNext(current));
          throw new Error("the new credential does not count, so the old one is used again");
        }
        // Removed from the cluster, and started with the line that a new token gave: that line is meant.
        if (!tokenLeft || (await options.token()) === undefined) throw error;
        tokenLeft = false;
        file = await joinNow(true, signal);
        return streams.open(file.credential, events, signal);
      }
    },
    replaceCredential: async (credential) => {
      if (secretKind(credential) !== "node" || file === undefined) {
        throw new UserError({
          what: "this is no node's credential",
          why: "it has not the form of one",
          fix: "bring server and agent to one version",
        });
      }
      await write({ ...file, next_credential: credential });
    },
    clusterId: () => (file?.joined === true ? file.cluster_id : undefined),
  };
}

function notJoined(nodeId: string): UserError {
  return new UserError({
    what: `the node "${nodeId}" has not joined a cluster`,
    why: "its state folder holds no credential, and no join token was given",
    fix: "make one with llmgw ctl token create, and paste the line that it prints here",
  });
}
