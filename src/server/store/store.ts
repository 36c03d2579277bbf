/**
 * What the control plane remembers. Three implementations pass one contract suite (test/server/store.contract.ts): SQLite, PostgreSQL,
 * and memory for simulations. Every method is one transaction: what it returned is on disk. Nothing in it is a secret in clear.
 *
 * Throws `StoreError` when the database does not answer, is full or was written by a newer version; nothing is half done then.
 */
import type { InventorySummary, ProblemCounts } from "../../domain/node.ts";
import type { Have, Part, Stored } from "../../protocol/messages.ts";

export type Role = "admin" | "viewer";

/** Events beyond these are dropped, the oldest first. */
export const KEPT_EVENTS = 10_000;

/** SHA-256 of a secret, 64 hex digits. The secrets have 160 bits of chance, so no salt and no slow hash is needed. */
export type SecretHash = string;

export interface NodeRow {
  readonly node_id: string;
  readonly joined_ms: number;
  readonly last_seen_ms: number | undefined;
  readonly cordoned: boolean;
  readonly cordon_reason: string | undefined;
  readonly draining: boolean;
  readonly hostname: string | undefined;
  readonly mgmt_addr: string | undefined;
  readonly agent_version: string | undefined;
  readonly machine: string | undefined;
  readonly summary: InventorySummary | undefined;
  readonly problems: ProblemCounts | undefined;
  readonly have: Have;
}

/** What an agent says of itself when it connects. */
export interface NodeWords {
  readonly hostname: string | undefined;
  readonly mgmt_addr: string | undefined;
  readonly agent_version: string;
  readonly machine: string | undefined;
}

export interface JoinToken {
  /** Public: what lists and `token remove` call it. */
  readonly token_id: string;
  readonly created_ms: number;
  readonly expires_ms: number;
  readonly uses_left: number;
  readonly created_by: string;
}

export interface Operator {
  /** Public. */
  readonly operator_id: string;
  readonly name: string;
  readonly role: Role;
  readonly created_ms: number;
}

export type JoinOutcome =
  | { readonly kind: "joined" }
  | { readonly kind: "unknown-token" }
  | { readonly kind: "expired"; readonly expires_ms: number }
  | { readonly kind: "used-up" }
  /** A node of that name is there and not given up: see `takeover`. */
  | { readonly kind: "name-taken" };

export interface JoinRequest {
  readonly token: SecretHash;
  readonly node_id: string;
  readonly credential: SecretHash;
  readonly nowMs: number;
  /** A node that is there already gets this credential in place of its own; flags and reports stay. */
  readonly takeover: boolean;
}

export interface NodeEvent {
  readonly at_ms: number;
  /** `undefined`: of the server itself. */
  readonly node_id: string | undefined;
  /** Constant: `node joined`, `node lost`, `join refused`. */
  readonly message: string;
  readonly detail: string | undefined;
}

export interface SaveReport {
  readonly part: Part;
  readonly stored: Stored;
  /** JSON text of the whole part. */
  readonly body: string;
  readonly summary?: InventorySummary;
  readonly problems?: ProblemCounts;
}

export interface Store {
  /** For messages and `ctl status`: `sqlite` or `postgres`, and where. Without a password. */
  readonly label: string;
  readonly kind: "sqlite" | "postgres" | "memory";

  /** Throws when the database cannot be used. */
  ping(): Promise<void>;
  /** Chosen by chance when the database was made; the same for all servers on it. */
  clusterId(): Promise<string>;

  nodes(): Promise<readonly NodeRow[]>;
  node(nodeId: string): Promise<NodeRow | undefined>;
  /** The node that a credential (current or next) belongs to, and which of the two it is. */
  nodeOf(credential: SecretHash): Promise<{ readonly node_id: string; readonly which: "current" | "next" } | undefined>;
  /** Uses the token once and adds the node, or neither. */
  join(request: JoinRequest): Promise<JoinOutcome>;
  /** False when there is no such node. Its credential stops counting. */
  removeNode(nodeId: string): Promise<boolean>;
  /** From now on both credentials count. False when there is no such node. */
  offerCredential(nodeId: string, next: SecretHash): Promise<boolean>;
  /** The next credential was used: it becomes the current one, the old one is gone. */
  confirmCredential(nodeId: string, next: SecretHash): Promise<boolean>;
  setCordon(
    nodeId: string,
    cordon: { readonly cordoned: boolean; readonly draining: boolean; readonly reason: string | undefined },
  ): Promise<boolean>;
  /** An agent has connected. False when the node is gone. */
  saveWords(nodeId: string, words: NodeWords, nowMs: number): Promise<boolean>;
  /** Never moves a time backwards; nodes that are gone are skipped. */
  touch(seen: ReadonlyMap<string, number>): Promise<void>;

  /** `stale`: what is stored has this revision or a later one, and stays. */
  saveReport(nodeId: string, report: SaveReport): Promise<"saved" | "stale" | "gone">;
  /** JSON text of a part, with its revision; `undefined` when nothing was stored. */
  report(nodeId: string, part: Part): Promise<{ readonly stored: Stored; readonly body: string } | undefined>;

  addToken(token: JoinToken, secret: SecretHash): Promise<void>;
  /** Those that are left, expired ones too, newest first. */
  tokens(): Promise<readonly JoinToken[]>;
  removeToken(tokenId: string): Promise<boolean>;

  addOperator(operator: Operator, secret: SecretHash): Promise<void>;
  operatorOf(secret: SecretHash): Promise<Operator | undefined>;
  operators(): Promise<readonly Operator[]>;
  removeOperator(operatorId: string): Promise<boolean>;

  addEvent(event: NodeEvent): Promise<void>;
  /** Newest first. The oldest beyond `KEPT_EVENTS` are dropped. */
  events(limit: number, nodeId?: string): Promise<readonly NodeEvent[]>;

  /**
   * A copy of everything at one moment, as bytes of one SQLite file. PostgreSQL has tools of its own and is refused with their names
   * (`UserError`).
   */
  backup(): Promise<Uint8Array>;
  /** Since it was opened. */
  figures(): StoreFigures;
  close(): Promise<void>;
}

/** For metrics; they only rise. */
export interface StoreFigures {
  readonly transactions: number;
  readonly failures: number;
  /** Waiting for their turn included. */
  readonly seconds: number;
}

export type StoreErrorKind = "unreachable" | "full" | "newer" | "damaged" | "failed";

export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
  }
}
