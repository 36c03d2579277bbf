/** The store in SQL: the same statements for SQLite and PostgreSQL. */
import type { TransactionSQL } from "bun";
import * as v from "valibot";
import { InventorySummary, ProblemCounts } from "../../domain/node.ts";
import { UserError } from "../../lib/user-error.ts";
import { type Have, Part } from "../../protocol/messages.ts";
import { type Database, openDatabase } from "./database.ts";
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
} from "./store.ts";

/** What the client gives for a BIGINT: PostgreSQL's as text, SQLite's as a number. */
const BigInteger = v.pipe(v.union([v.number(), v.string(), v.bigint()]), v.transform(Number));
const OptionalText = v.pipe(
  v.nullable(v.string()),
  v.transform((text) => text ?? undefined),
);
const Flag = v.pipe(
  v.number(),
  v.transform((number) => number !== 0),
);

const NodeColumns = v.object({
  node_id: v.string(),
  joined_ms: BigInteger,
  last_seen_ms: v.pipe(
    v.nullable(BigInteger),
    v.transform((ms) => ms ?? undefined),
  ),
  cordoned: Flag,
  cordon_reason: OptionalText,
  draining: Flag,
  hostname: OptionalText,
  mgmt_addr: OptionalText,
  agent_version: OptionalText,
  machine: OptionalText,
});
const ReportColumns = v.object({
  node_id: v.string(),
  part: Part,
  revision: BigInteger,
  hash: v.string(),
  summary: v.nullable(v.string()),
});
const BodyColumns = v.object({ revision: BigInteger, hash: v.string(), body: v.string() });
const TokenColumns = v.object({
  token_id: v.string(),
  created_ms: BigInteger,
  expires_ms: BigInteger,
  uses_left: v.number(),
  created_by: v.string(),
});
const OperatorColumns = v.object({
  operator_id: v.string(),
  name: v.string(),
  role: v.picklist(["admin", "viewer"]),
  created_ms: BigInteger,
});
const EventColumns = v.object({ at_ms: BigInteger, node_id: OptionalText, message: v.string(), detail: OptionalText });

export interface OpenStoreOptions {
  /** Given to a database that is made now. */
  readonly newClusterId: () => string;
  /** Reads a file and removes it: how a backup leaves the database's hands. */
  readonly takeFile: (path: string) => Promise<Uint8Array>;
  /** A path that nothing stands at, on the disk of the database. */
  readonly freePath: () => string;
}

/** Opens and migrates `sqlite:///PATH` or `postgres://…`. Throws `StoreError`. */
export async function openStore(url: string, options: OpenStoreOptions): Promise<Store> {
  const database = await openDatabase(url);
  await database.transaction(async (sql) => {
    await sql`INSERT INTO settings (name, value) VALUES ('cluster_id', ${options.newClusterId()}) ON CONFLICT (name) DO NOTHING`;
  });
  return new SqlStore(database, options);
}

class SqlStore implements Store {
  readonly label: string;
  readonly kind: "sqlite" | "postgres";
  private readonly database: Database;
  private readonly options: OpenStoreOptions;
  private readonly summaries = new Summaries();
  private readonly counts = { transactions: 0, failures: 0, seconds: 0 };

  constructor(database: Database, options: OpenStoreOptions) {
    this.database = database;
    this.options = options;
    this.label = database.label;
    this.kind = database.kind;
  }

  async ping(): Promise<void> {
    await this.run((sql) => sql`SELECT 1`);
  }

  async clusterId(): Promise<string> {
    const [row] = await this.run((sql) => sql`SELECT value FROM settings WHERE name = 'cluster_id'`);
    return String(row?.value);
  }

  async nodes(): Promise<readonly NodeRow[]> {
    return this.run((sql) => readNodes(sql, this.summaries));
  }

  async node(nodeId: string): Promise<NodeRow | undefined> {
    const [row] = await this.run((sql) => readNodes(sql, this.summaries, nodeId));
    return row;
  }

  async nodeOf(credential: string) {
    const [row] = await this.run(
      (sql) => sql`SELECT node_id, credential FROM nodes WHERE credential = ${credential} OR next_credential = ${credential}`,
    );
    return row === undefined
      ? undefined
      : { node_id: String(row.node_id), which: row.credential === credential ? ("current" as const) : ("next" as const) };
  }

  async join(request: JoinRequest): Promise<JoinOutcome> {
    return this.run((sql) => join(sql, request));
  }

  async removeNode(nodeId: string): Promise<boolean> {
    const gone = await this.run((sql) => sql`DELETE FROM nodes WHERE node_id = ${nodeId} RETURNING node_id`);
    return gone.length > 0;
  }

  async offerCredential(nodeId: string, next: string): Promise<boolean> {
    const changed = await this.run((sql) => sql`UPDATE nodes SET next_credential = ${next} WHERE node_id = ${nodeId} RETURNING node_id`);
    return changed.length > 0;
  }

  async confirmCredential(nodeId: string, next: string): Promise<boolean> {
    const changed = await this.run(
      (sql) =>
        sql`UPDATE nodes SET credential = next_credential, next_credential = NULL
          WHERE node_id = ${nodeId} AND next_credential = ${next} RETURNING node_id`,
    );
    return changed.length > 0;
  }

  async setCordon(nodeId: string, cordon: Parameters<Store["setCordon"]>[1]): Promise<boolean> {
    const changed = await this.run(
      (sql) =>
        sql`UPDATE nodes SET cordoned = ${Number(cordon.cordoned)}, draining = ${Number(cordon.draining)},
          cordon_reason = ${cordon.reason ?? null} WHERE node_id = ${nodeId} RETURNING node_id`,
    );
    return changed.length > 0;
  }

  async saveWords(nodeId: string, words: Parameters<Store["saveWords"]>[1], nowMs: number): Promise<boolean> {
    return this.run(async (sql) => {
      const changed = await sql`UPDATE nodes SET hostname = ${words.hostname ?? null}, mgmt_addr = ${words.mgmt_addr ?? null},
        agent_version = ${words.agent_version}, machine = ${words.machine ?? null} WHERE node_id = ${nodeId} RETURNING node_id`;
      await touch(sql, nodeId, nowMs);
      return changed.length > 0;
    });
  }

  async touch(seen: ReadonlyMap<string, number>): Promise<void> {
    await this.run(async (sql) => {
      for (const [nodeId, atMs] of seen) await touch(sql, nodeId, atMs);
    });
  }

  async saveReport(nodeId: string, report: SaveReport): Promise<"saved" | "stale" | "gone"> {
    return this.run((sql) => saveReport(sql, nodeId, report));
  }

  async report(nodeId: string, part: Part) {
    const rows = await this.run((sql) => sql`SELECT revision, hash, body FROM reports WHERE node_id = ${nodeId} AND part = ${part}`);
    const [row] = v.parse(v.array(BodyColumns), rows);
    return row === undefined ? undefined : { stored: { revision: row.revision, hash: row.hash }, body: row.body };
  }

  async addToken(token: JoinToken, secret: string): Promise<void> {
    await this.run(
      (sql) =>
        sql`INSERT INTO join_tokens (token_id, secret, created_ms, expires_ms, uses_left, created_by)
          VALUES (${token.token_id}, ${secret}, ${token.created_ms}, ${token.expires_ms}, ${token.uses_left}, ${token.created_by})`,
    );
  }

  async tokens(): Promise<readonly JoinToken[]> {
    const rows = await this.run(
      (sql) => sql`SELECT token_id, created_ms, expires_ms, uses_left, created_by FROM join_tokens ORDER BY created_ms DESC, token_id`,
    );
    return v.parse(v.array(TokenColumns), rows);
  }

  async removeToken(tokenId: string): Promise<boolean> {
    const gone = await this.run((sql) => sql`DELETE FROM join_tokens WHERE token_id = ${tokenId} RETURNING token_id`);
    return gone.length > 0;
  }

  async addOperator(operator: Operator, secret: string): Promise<void> {
    await this.run(
      (sql) =>
        sql`INSERT INTO operators (operator_id, secret, name, role, created_ms)
          VALUES (${operator.operator_id}, ${secret}, ${operator.name}, ${operator.role}, ${operator.created_ms})`,
    );
  }

  async operatorOf(secret: string): Promise<Operator | undefined> {
    const rows = await this.run((sql) => sql`SELECT operator_id, name, role, created_ms FROM operators WHERE secret = ${secret}`);
    return v.parse(v.array(OperatorColumns), rows)[0];
  }

  async operators(): Promise<readonly Operator[]> {
    const rows = await this.run((sql) => sql`SELECT operator_id, name, role, created_ms FROM operators ORDER BY created_ms, operator_id`);
    return v.parse(v.array(OperatorColumns), rows);
  }

  async removeOperator(operatorId: string): Promise<boolean> {
    const gone = await this.run((sql) => sql`DELETE FROM operators WHERE operator_id = ${operatorId} RETURNING operator_id`);
    return gone.length > 0;
  }

  async addEvent(event: NodeEvent): Promise<void> {
    await this.run(async (sql) => {
      // Numbered here and not by the database, whose ways differ; on PostgreSQL the lock makes the numbers follow one another.
      if (this.kind === "postgres") await sql`SELECT pg_advisory_xact_lock(${EVENT_LOCK})`;
      const [row] = await sql`SELECT COALESCE(MAX(seq), 0) + 1 AS seq FROM events`;
      const seq = Number(row?.seq);
      await sql`INSERT INTO events (seq, at_ms, node_id, message, detail)
        VALUES (${seq}, ${event.at_ms}, ${event.node_id ?? null}, ${event.message}, ${event.detail ?? null})`;
      await sql`DELETE FROM events WHERE seq <= ${seq - KEPT_EVENTS}`;
    });
  }

  async events(limit: number, nodeId?: string): Promise<readonly NodeEvent[]> {
    const rows = await this.run((sql) =>
      nodeId === undefined
        ? sql`SELECT at_ms, node_id, message, detail FROM events ORDER BY seq DESC LIMIT ${limit}`
        : sql`SELECT at_ms, node_id, message, detail FROM events WHERE node_id = ${nodeId} ORDER BY seq DESC LIMIT ${limit}`,
    );
    return v.parse(v.array(EventColumns), rows);
  }

  async backup(): Promise<Uint8Array> {
    if (this.kind === "postgres") {
      throw new UserError({
        what: "a backup of PostgreSQL is not made by llmgw",
        why: "it has better tools of its own, which also copy while others write",
        fix: `pg_dump --format=custom --file=llmgw.dump 'postgres://${this.label.replace(/^postgres /, "")}'`,
      });
    }
    const path = this.options.freePath();
    await this.database.alone((sql) => sql`VACUUM INTO ${path}`);
    return this.options.takeFile(path);
  }

  figures() {
    return { ...this.counts };
  }

  close(): Promise<void> {
    return this.database.close();
  }

  private async run<T>(work: (sql: TransactionSQL) => Promise<T>): Promise<T> {
    const fromMs = performance.now();
    this.counts.transactions++;
    try {
      return await this.database.transaction(work);
    } catch (error) {
      this.counts.failures++;
      throw error;
    } finally {
      this.counts.seconds += (performance.now() - fromMs) / 1000;
    }
  }
}

/** Any number, another one than that of the migrations. */
const EVENT_LOCK = 8_400_002;

async function readNodes(sql: TransactionSQL, summaries: Summaries, nodeId?: string): Promise<readonly NodeRow[]> {
  const columns = sql`node_id, joined_ms, last_seen_ms, cordoned, cordon_reason, draining, hostname, mgmt_addr, agent_version, machine`;
  const nodes =
    nodeId === undefined
      ? await sql`SELECT ${columns} FROM nodes ORDER BY node_id`
      : await sql`SELECT ${columns} FROM nodes WHERE node_id = ${nodeId}`;
  const reports =
    nodeId === undefined
      ? await sql`SELECT node_id, part, revision, hash, summary FROM reports`
      : await sql`SELECT node_id, part, revision, hash, summary FROM reports WHERE node_id = ${nodeId}`;
  const byNode = Map.groupBy(v.parse(v.array(ReportColumns), reports), (report) => report.node_id);
  const rows = v.parse(v.array(NodeColumns), nodes).map((node) => rowOf(node, byNode.get(node.node_id) ?? [], summaries));
  if (nodeId === undefined) summaries.keep(byNode);
  return rows;
}

/**
 * Summaries that were read before, by node and part, with the text that they were read from: lists of a thousand nodes read a thousand of
 * them, and few have changed since.
 */
class Summaries {
  private readonly known = new Map<string, { readonly text: string; readonly value: unknown }>();

  /** The value of that text, checked against its schema once. */
  read<T>(nodeId: string, part: Part, schema: v.GenericSchema<unknown, T>, text: string | undefined): T | undefined {
    if (text === undefined) return undefined;
    const key = `${nodeId} ${part}`;
    const before = this.known.get(key);
    // The same part is always read with the same schema, so the value is one of it.
    if (before?.text === text) return before.value as T;
    const value = v.parse(schema, JSON.parse(text));
    this.known.set(key, { text, value });
    return value;
  }

  /** Forgets nodes that are gone. */
  keep(nodes: ReadonlyMap<string, unknown>): void {
    for (const key of this.known.keys()) if (!nodes.has(key.slice(0, key.lastIndexOf(" ")))) this.known.delete(key);
  }
}

function rowOf(
  node: v.InferOutput<typeof NodeColumns>,
  reports: readonly v.InferOutput<typeof ReportColumns>[],
  summaries: Summaries,
): NodeRow {
  const textOf = (part: Part): string | undefined => reports.find((report) => report.part === part)?.summary ?? undefined;
  const have: Have = Object.fromEntries(reports.map(({ part, revision, hash }) => [part, { revision, hash }]));
  return {
    ...node,
    summary: summaries.read(node.node_id, "inventory", InventorySummary, textOf("inventory")),
    problems: summaries.read(node.node_id, "findings", ProblemCounts, textOf("findings")),
    have,
  };
}

async function join(sql: TransactionSQL, request: JoinRequest): Promise<JoinOutcome> {
  const { node_id, credential, nowMs } = request;
  const [token] = v.parse(
    v.array(TokenColumns),
    await sql`SELECT token_id, created_ms, expires_ms, uses_left, created_by FROM join_tokens WHERE secret = ${request.token}`,
  );
  if (token === undefined) return { kind: "unknown-token" };
  // The same agent asking again, after an answer that never reached it: done already, and costs no use.
  const again = await sql`SELECT node_id FROM nodes WHERE node_id = ${node_id} AND credential = ${credential}`;
  if (again.length > 0) return { kind: "joined" };
  if (token.expires_ms <= nowMs) return { kind: "expired", expires_ms: token.expires_ms };
  // Counted down first: on PostgreSQL the row is locked from here on, so that the last use is given once.
  const used =
    await sql`UPDATE join_tokens SET uses_left = uses_left - 1 WHERE token_id = ${token.token_id} AND uses_left > 0 RETURNING uses_left`;
  if (used.length === 0) return { kind: "used-up" };
  const added = await sql`INSERT INTO nodes (node_id, joined_ms, credential) VALUES (${node_id}, ${nowMs}, ${credential})
    ON CONFLICT (node_id) DO NOTHING RETURNING node_id`;
  if (added.length > 0) return { kind: "joined" };
  if (!request.takeover) {
    await sql`UPDATE join_tokens SET uses_left = uses_left + 1 WHERE token_id = ${token.token_id}`;
    return { kind: "name-taken" };
  }
  await sql`UPDATE nodes SET credential = ${credential}, next_credential = NULL WHERE node_id = ${node_id}`;
  return { kind: "joined" };
}

async function touch(sql: TransactionSQL, nodeId: string, atMs: number): Promise<void> {
  await sql`UPDATE nodes SET last_seen_ms = ${atMs} WHERE node_id = ${nodeId} AND (last_seen_ms IS NULL OR last_seen_ms < ${atMs})`;
}

async function saveReport(sql: TransactionSQL, nodeId: string, report: SaveReport): Promise<"saved" | "stale" | "gone"> {
  const there = await sql`SELECT node_id FROM nodes WHERE node_id = ${nodeId}`;
  if (there.length === 0) return "gone";
  const summary = report.summary ?? report.problems;
  const saved = await sql`INSERT INTO reports (node_id, part, revision, hash, summary, body)
    VALUES (${nodeId}, ${report.part}, ${report.stored.revision}, ${report.stored.hash},
      ${summary === undefined ? null : JSON.stringify(summary)}, ${report.body})
    ON CONFLICT (node_id, part) DO UPDATE SET revision = excluded.revision, hash = excluded.hash, summary = excluded.summary, body = excluded.body
    WHERE reports.revision < excluded.revision RETURNING revision`;
  return saved.length > 0 ? "saved" : "stale";
}
