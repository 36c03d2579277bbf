/** The server's end of the agents' streams. */

import type * as v from "valibot";
import type { LoadSample } from "../domain/load-sample.ts";
import type { Connection, ConnectionEvents } from "../protocol/connection.ts";
import type { Question, Refusal } from "../protocol/messages.ts";

/** What is known of a node only while it talks to this server. */
export interface LiveNode {
  readonly connectedSinceMs: number;
  readonly lastSeenMs: number;
  readonly remote: string;
  readonly load: LoadSample | undefined;
}

export type AskOutcome =
  | { readonly kind: "answer"; readonly result: unknown }
  /** The agent says no. */
  | { readonly kind: "error"; readonly error: v.InferOutput<typeof Refusal> }
  | { readonly kind: "not-connected" }
  | { readonly kind: "timeout" };

export interface Sessions {
  /** Takes over a connection whose credential was that of `nodeId`. `remote` is the peer's address, for people. */
  accept(connection: Connection, nodeId: string, remote: string): ConnectionEvents;
  /** `undefined` while the node is not connected here. */
  live(nodeId: string): LiveNode | undefined;
  /** Every node that is connected here. */
  connected(): ReadonlyMap<string, LiveNode>;
  /** Last message heard of a node since this server started, connected or not. */
  lastSeenMs(nodeId: string): number | undefined;
  ask(nodeId: string, question: Question, options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<AskOutcome>;
  /** Refuses and closes the node's connection: it was removed. */
  drop(nodeId: string): void;
  figures(): SessionFigures;
  stop(): Promise<void>;
}

/** For metrics; all but `connected` only rise. */
export interface SessionFigures {
  readonly connected: number;
  readonly accepted: number;
  readonly refused: number;
  readonly received: number;
  readonly sent: number;
  readonly malformed: number;
  readonly unknownKinds: number;
  /** Dropped because too much waited for them. */
  readonly slowPeers: number;
  /** Dropped because they were silent. */
  readonly silentPeers: number;
}
