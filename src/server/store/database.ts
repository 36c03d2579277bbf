/** One database behind Bun's SQL client: opened, migrated, one transaction per call, and what goes wrong as a `StoreError`. */
import { SQL, type TransactionSQL } from "bun";
import { messageOf } from "../../lib/user-error.ts";
import { MIGRATIONS } from "./migrations.ts";
import { StoreError, type StoreErrorKind } from "./store.ts";

export type Kind = "sqlite" | "postgres";

export interface Database {
  readonly kind: Kind;
  /** Without a password. */
  readonly label: string;
  /** Commits when `work` resolves, takes everything back when it throws. */
  transaction<T>(work: (sql: TransactionSQL) => Promise<T>): Promise<T>;
  /** Outside any transaction, as VACUUM wants it. */
  alone<T>(work: (sql: SQL) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Opens `sqlite:///PATH` or `postgres://…` and brings it up to date. Throws `StoreError`. */
export async function openDatabase(url: string): Promise<Database> {
  const kind: Kind = url.startsWith("sqlite:") ? "sqlite" : "postgres";
  const database = await guarded(async () => (kind === "sqlite" ? openSqlite(url) : openPostgres(url)));
  try {
    await migrate(database);
    return database;
  } catch (error) {
    await database.close().catch(() => undefined);
    throw error;
  }
}

async function openSqlite(url: string): Promise<Database> {
  const sql = new SQL(url);
  // A commit is on the disk when it returns (FULL): an acknowledged report must survive the loss of power.
  for (const pragma of ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 5000"]) {
    await sql.unsafe(`PRAGMA ${pragma}`);
  }
  // The client has one connection, and statements of others would slip into a transaction that is open: one after the other.
  const inTurn = turns();
  return {
    kind: "sqlite",
    label: `sqlite ${decodeURIComponent(url.replace(/^sqlite:(?:\/\/)?/, ""))}`,
    transaction: (work) => inTurn(() => guarded(() => sql.begin("immediate", work))),
    alone: (work) => inTurn(() => guarded(() => work(sql))),
    close: () => inTurn(() => guarded(() => sql.close())),
  };
}

async function openPostgres(url: string): Promise<Database> {
  const sql = new SQL(url, { max: 8, idleTimeout: 60, connectionTimeout: 5, bigint: false });
  return {
    kind: "postgres",
    label: `postgres ${url.replace(/^[a-z]+:\/\//, "").replace(/^[^@/]*@/, "")}`,
    transaction: (work) => guarded(() => sql.begin(work)),
    alone: (work) => guarded(() => work(sql)),
    close: () => guarded(() => sql.close({ timeout: 2 })),
  };
}

/** Runs what it is given one after the other, whatever becomes of each. */
function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work, work);
    last = mine.catch(() => undefined);
    return mine;
  };
}

/** Any number, the same for all versions: servers that start together on one PostgreSQL migrate one after the other. */
const MIGRATION_LOCK = 8_400_001;

async function migrate(database: Database): Promise<void> {
  await database.transaction(async (sql) => {
    if (database.kind === "postgres") await sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`;
    await sql`CREATE TABLE IF NOT EXISTS schema_steps (step INTEGER PRIMARY KEY)`;
    const [row] = await sql`SELECT COUNT(*) AS done FROM schema_steps`;
    const done = Number(row?.done ?? 0);
    if (done > MIGRATIONS.length) {
      const why = `it is at step ${done} and this version knows ${MIGRATIONS.length}`;
      throw new StoreError("newer", `the database was written by a newer version of llmgw: ${why}`);
    }
    for (const [at, statements] of MIGRATIONS.entries()) {
      if (at < done) continue;
      for (const statement of statements) await sql.unsafe(statement);
      await sql`INSERT INTO schema_steps (step) VALUES (${at + 1})`;
    }
  });
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreError) throw error;
    const { kind, why } = explain(error);
    throw new StoreError(kind, why, { cause: error });
  }
}

/** SQLite: result codes of sqlite.org/rescode.html. PostgreSQL: SQLSTATE of its manual, appendix A, which the client calls `errno`. */
function explain(error: unknown): { readonly kind: StoreErrorKind; readonly why: string } {
  const message = messageOf(error);
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const state = error instanceof Error && "errno" in error ? String(error.errno) : "";
  if (code === "SQLITE_FULL" || state === "53100" || code === "ENOSPC")
    return { kind: "full", why: `no space is left for the database: ${message}` };
  if (code === "SQLITE_NOTADB" || code.startsWith("SQLITE_CORRUPT"))
    return { kind: "damaged", why: `the file is no database, or is damaged: ${message}` };
  if (code.startsWith("SQLITE_CANTOPEN")) return { kind: "unreachable", why: `the file cannot be opened: ${message}` };
  const connection =
    /^(?:ERR_POSTGRES_CONNECTION|ERR_POSTGRES_IDLE|ERR_POSTGRES_LIFETIME|ECONN|ETIMEDOUT|ENOTFOUND|EHOST|FailedToOpenSocket)/.test(code);
  // Class 08: connection; 57P: an operator ended it; 53300: too many connections; 3D000: no such database; 28: who are you.
  if (connection || /^(?:08|57P|53300|3D000|28)/.test(state))
    return { kind: "unreachable", why: `the database does not let us in: ${message}` };
  return { kind: "failed", why: message };
}
