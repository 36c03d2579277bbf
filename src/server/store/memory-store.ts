/** The store without a disk, for simulations: what it remembers ends with it. */
import type { Have, Part } from "../../protocol/messages.ts";
import {
  type JoinOutcome,
  type JoinRequest,
  type JoinToken,
  KEPT_EVENTS,
  type NodeEvent,
  type NodeRow,
  type Operator,
  type SaveReport,
  type Store,
  StoreError,
} from "./store.ts";

export function createMemoryStore(options: { readonly clusterId: string }): Store {
  return new MemoryStore(options.clusterId);
}

interface KeptNode {
  readonly row: Omit<NodeRow, "summary" | "problems" | "have">;
  readonly credential: string;
  readonly next: string | undefined;
  readonly reports: ReadonlyMap<Part, SaveReport>;
}

/** What has a secret, by its hash. */
interface Kept<T> {
  readonly secret: string;
  readonly value: T;
}

class MemoryStore implements Store {
  readonly label = "memory";
  readonly kind = "memory";
  private readonly cluster: string;
  private readonly kept = new Map<string, KeptNode>();
  private joinTokens: readonly Kept<JoinToken>[] = [];
  private keptOperators: readonly Kept<Operator>[] = [];
  private keptEvents: readonly NodeEvent[] = [];

  constructor(cluster: string) {
    this.cluster = cluster;
  }

  async ping(): Promise<void> {}

  async clusterId(): Promise<string> {
    return this.cluster;
  }

  async nodes(): Promise<readonly NodeRow[]> {
    return [...this.kept.values()].map(rowOf).toSorted((one, other) => (one.node_id < other.node_id ? -1 : 1));
  }

  async node(nodeId: string): Promise<NodeRow | undefined> {
    const node = this.kept.get(nodeId);
    return node === undefined ? undefined : rowOf(node);
  }

  async nodeOf(credential: string) {
    for (const [node_id, node] of this.kept) {
      if (node.credential === credential) return { node_id, which: "current" as const };
      if (node.next === credential) return { node_id, which: "next" as const };
    }
    return undefined;
  }

  async join(request: JoinRequest): Promise<JoinOutcome> {
    const { node_id, credential, nowMs } = request;
    const token = this.joinTokens.find((one) => one.secret === request.token)?.value;
    if (token === undefined) return { kind: "unknown-token" };
    const before = this.kept.get(node_id);
    if (before?.credential === credential) return { kind: "joined" };
    if (token.expires_ms <= nowMs) return { kind: "expired", expires_ms: token.expires_ms };
    if (token.uses_left <= 0) return { kind: "used-up" };
    if (before !== undefined && !request.takeover) return { kind: "name-taken" };
    this.joinTokens = this.joinTokens.map((one) =>
      one.value === token ? { ...one, value: { ...token, uses_left: token.uses_left - 1 } } : one,
    );
    this.kept.set(node_id, before === undefined ? newNode(node_id, credential, nowMs) : { ...before, credential, next: undefined });
    return { kind: "joined" };
  }

  async removeNode(nodeId: string): Promise<boolean> {
    return this.kept.delete(nodeId);
  }

  async offerCredential(nodeId: string, next: string): Promise<boolean> {
    return this.change(nodeId, (node) => ({ ...node, next }));
  }

  async confirmCredential(nodeId: string, next: string): Promise<boolean> {
    if (this.kept.get(nodeId)?.next !== next) return false;
    return this.change(nodeId, (node) => ({ ...node, credential: next, next: undefined }));
  }

  async setCordon(nodeId: string, cordon: Parameters<Store["setCordon"]>[1]): Promise<boolean> {
    const { cordoned, draining, reason } = cordon;
    return this.change(nodeId, (node) => ({ ...node, row: { ...node.row, cordoned, draining, cordon_reason: reason } }));
  }

  async saveWords(nodeId: string, words: Parameters<Store["saveWords"]>[1], nowMs: number): Promise<boolean> {
    return this.change(nodeId, (node) => ({ ...node, row: seenAt({ ...node.row, ...words }, nowMs) }));
  }

  async touch(seen: ReadonlyMap<string, number>): Promise<void> {
    for (const [nodeId, atMs] of seen) this.change(nodeId, (node) => ({ ...node, row: seenAt(node.row, atMs) }));
  }

  async saveReport(nodeId: string, report: SaveReport): Promise<"saved" | "stale" | "gone"> {
    const node = this.kept.get(nodeId);
    if (node === undefined) return "gone";
    const before = node.reports.get(report.part);
    if (before !== undefined && before.stored.revision >= report.stored.revision) return "stale";
    this.kept.set(nodeId, { ...node, reports: new Map([...node.reports, [report.part, report]]) });
    return "saved";
  }

  async report(nodeId: string, part: Part) {
    const report = this.kept.get(nodeId)?.reports.get(part);
    return report === undefined ? undefined : { stored: report.stored, body: report.body };
  }

  async addToken(token: JoinToken, secret: string): Promise<void> {
    if (this.joinTokens.some((one) => one.value.token_id === token.token_id || one.secret === secret)) throw twice();
    this.joinTokens = [...this.joinTokens, { value: token, secret }];
  }

  async tokens(): Promise<readonly JoinToken[]> {
    const byTime = (one: JoinToken, other: JoinToken): number =>
      other.created_ms - one.created_ms || (one.token_id < other.token_id ? -1 : 1);
    return this.joinTokens.map((one) => one.value).toSorted(byTime);
  }

  async removeToken(tokenId: string): Promise<boolean> {
    const before = this.joinTokens.length;
    this.joinTokens = this.joinTokens.filter((one) => one.value.token_id !== tokenId);
    return this.joinTokens.length < before;
  }

  async addOperator(operator: Operator, secret: string): Promise<void> {
    if (this.keptOperators.some((one) => one.value.operator_id === operator.operator_id || one.secret === secret)) throw twice();
    this.keptOperators = [...this.keptOperators, { value: operator, secret }];
  }

  async operatorOf(secret: string): Promise<Operator | undefined> {
    return this.keptOperators.find((one) => one.secret === secret)?.value;
  }

  async operators(): Promise<readonly Operator[]> {
    const byTime = (one: Operator, other: Operator): number =>
      one.created_ms - other.created_ms || (one.operator_id < other.operator_id ? -1 : 1);
    return this.keptOperators.map((one) => one.value).toSorted(byTime);
  }

  async removeOperator(operatorId: string): Promise<boolean> {
    const before = this.keptOperators.length;
    this.keptOperators = this.keptOperators.filter((one) => one.value.operator_id !== operatorId);
    return this.keptOperators.length < before;
  }

  async addEvent(event: NodeEvent): Promise<void> {
    this.keptEvents = [event, ...this.keptEvents].slice(0, KEPT_EVENTS);
  }

  async events(limit: number, nodeId?: string): Promise<readonly NodeEvent[]> {
    return this.keptEvents.filter((event) => nodeId === undefined || event.node_id === nodeId).slice(0, limit);
  }

  async backup(): Promise<Uint8Array> {
    throw new StoreError("failed", "a store in memory has no backup");
  }

  figures() {
    return { transactions: 0, failures: 0, seconds: 0 };
  }

  async close(): Promise<void> {}

  private change(nodeId: string, after: (before: KeptNode) => KeptNode): boolean {
    const before = this.kept.get(nodeId);
    if (before === undefined) return false;
    this.kept.set(nodeId, after(before));
    return true;
  }
}

function newNode(node_id: string, credential: string, joined_ms: number): KeptNode {
  return {
    row: {
      node_id,
      joined_ms,
      last_seen_ms: undefined,
      cordoned: false,
      cordon_reason: undefined,
      draining: false,
      hostname: undefined,
      mgmt_addr: undefined,
      agent_version: undefined,
      machine: undefined,
    },
    credential,
    next: undefined,
    reports: new Map(),
  };
}

function rowOf({ row, reports }: KeptNode): NodeRow {
  const have: Have = Object.fromEntries([...reports].map(([part, report]) => [part, report.stored]));
  return { ...row, summary: reports.get("inventory")?.summary, problems: reports.get("findings")?.problems, have };
}

function seenAt(row: KeptNode["row"], atMs: number): KeptNode["row"] {
  return { ...row, last_seen_ms: Math.max(row.last_seen_ms ?? atMs, atMs) };
}

function twice(): StoreError {
  return new StoreError("failed", "there is one of this id or secret already");
}
