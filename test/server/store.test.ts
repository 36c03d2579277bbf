import { Database as Sqlite } from "bun:sqlite";
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMemoryStore } from "../../src/server/store/memory-store.ts";
import { openStore } from "../../src/server/store/sql-store.ts";
import { type Store, StoreError } from "../../src/server/store/store.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { type Postgres, postgresFolder, startPostgres } from "../support/postgres.ts";
import { storeContract } from "./store.contract.ts";

const folder = temporaryFolder();
const opened = new Map<Store, string>();
let files = 0;
let postgres: Promise<Postgres> | undefined;

// Each store of PostgreSQL holds several connections, of which its server gives a hundred.
afterEach(async () => {
  for (const store of opened.keys()) await store.close().catch(() => undefined);
  opened.clear();
});

afterAll(async () => {
  await (await postgres)?.[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const options = {
  newClusterId: () => `cluster-${Math.random()}`,
  takeFile: async (path: string) => {
    const bytes = readFileSync(path);
    rmSync(path);
    return bytes;
  },
  freePath: () => join(folder.path, `copy-${files++}`),
};

async function open(url: string): Promise<Store> {
  const store = await openStore(url, options);
  opened.set(store, url);
  return store;
}

const newFile = (): string => `sqlite://${join(folder.path, `store-${files++}.db`)}`;
const reopen = (store: Store): Promise<Store> => open(opened.get(store) ?? "");

storeContract("memory", { fresh: async () => createMemoryStore({ clusterId: "c1" }) });
storeContract("SQLite", { fresh: () => open(newFile()), reopen });

describe.skipIf(postgresFolder() === undefined)("PostgreSQL (needs Debian's package postgresql)", () => {
  const server = (): Promise<Postgres> => {
    postgres ??= startPostgres();
    return postgres;
  };
  storeContract("PostgreSQL", { fresh: async () => open(await (await server()).database()), reopen });

  test("servers that start together on an empty database make it once", async () => {
    const url = await (await server()).database();
    const stores = await Promise.all([open(url), open(url), open(url), open(url)]);
    expect(new Set(await Promise.all(stores.map((store) => store.clusterId()))).size).toBe(1);
  });

  test("two servers see what the other wrote", async () => {
    const url = await (await server()).database();
    const [one, other] = [await open(url), await open(url)];
    await one.addOperator({ operator_id: "o1", name: "Ada", role: "admin", created_ms: 1 }, "s1");
    expect((await other.operatorOf("s1"))?.name).toBe("Ada");
  });

  test("a server that died is unreachable, and is used again once it is back", async () => {
    await using own = await startPostgres();
    const store = await openStore(await own.database(), options);
    await own.kill();
    expect(await kindOf(store.ping())).toBe("unreachable");
    await own.start();
    await store.ping();
    await store.close();
  }, 30_000);

  test("a database that does not exist is unreachable", async () => {
    const url = (await (await server()).database()).replace(/\/[^/]*$/, "/nowhere");
    expect(await kindOf(openStore(url, options))).toBe("unreachable");
  });

  test("a backup is refused with the name of the tool that makes one", async () => {
    const store = await open(await (await server()).database());
    await expect(store.backup()).rejects.toMatchObject({ name: "UserError", fix: expect.stringContaining("pg_dump") });
  });

  test("one written by a newer version is refused", async () => {
    const url = await (await server()).database();
    await (await open(url)).close();
    const sql = new Bun.SQL(url);
    await sql`INSERT INTO schema_steps (step) VALUES (99)`;
    await sql.close();
    expect(await kindOf(openStore(url, options))).toBe("newer");
  });
});

/** The kind of the error that a promise ends in; `undefined` when it ends well. */
async function kindOf(promise: Promise<unknown>): Promise<string | undefined> {
  try {
    await promise;
    return undefined;
  } catch (error) {
    if (error instanceof StoreError) return error.kind;
    throw error;
  }
}

describe("a file of SQLite", () => {
  test("that is none is refused and left as it is", async () => {
    const path = join(
      layOut(join(folder.path, "garbage"), { "store.db": "this is no database, and long enough to be looked at".repeat(40) }),
      "store.db",
    );
    const before = readFileSync(path, "utf8");
    expect(await kindOf(openStore(`sqlite://${path}`, options))).toBe("damaged");
    expect(readFileSync(path, "utf8")).toBe(before);
  });

  test("written by a newer version is refused, and says so", async () => {
    const url = newFile();
    await (await open(url)).close();
    const file = new Sqlite(url.replace("sqlite://", ""));
    file.run("INSERT INTO schema_steps (step) VALUES (99)");
    file.close();
    await expect(openStore(url, options)).rejects.toThrow("the database was written by a newer version of llmgw");
    expect(await kindOf(openStore(url, options))).toBe("newer");
  });

  test("in a folder that is not there cannot be opened", async () => {
    expect(await kindOf(openStore(`sqlite://${folder.path}/none/store.db`, options))).toBe("unreachable");
  });

  test("a backup is a whole copy at one moment, also while others write, and opens as a store", async () => {
    const store = await open(newFile());
    await store.addOperator({ operator_id: "o1", name: "Ada", role: "admin", created_ms: 1 }, "s1");
    const [bytes] = await Promise.all([
      store.backup(),
      ...Array.from({ length: 20 }, (_, at) => store.addEvent({ at_ms: at, node_id: undefined, message: "x", detail: undefined })),
    ]);
    const path = join(folder.path, `backup-${files++}.db`);
    writeFileSync(path, bytes);
    const copy = await open(`sqlite://${path}`);
    expect(await copy.operators()).toEqual(await store.operators());
    expect(await copy.clusterId()).toBe(await store.clusterId());
  });

  test("the oldest events beyond the limit are dropped", async () => {
    const url = newFile();
    const store = await open(url);
    const file = new Sqlite(url.replace("sqlite://", ""));
    file.run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
      INSERT INTO events (seq, at_ms, node_id, message, detail) SELECT i, i, NULL, 'old', NULL FROM n`);
    file.close();
    await store.addEvent({ at_ms: 10_001, node_id: undefined, message: "new", detail: undefined });
    const events = await store.events(20_000);
    expect(events).toHaveLength(10_000);
    expect([events[0]?.message, events.at(-1)?.at_ms]).toEqual(["new", 2]);
  });

  test("a disk that is full is said to be, nothing is half done, and it goes on once there is room", async () => {
    const url = newFile();
    const store = await open(url);
    await store.addToken({ token_id: "t", created_ms: 1, expires_ms: 9e12, uses_left: 9, created_by: "a" }, "s");
    await store.join({ token: "s", node_id: "n", credential: "c", nowMs: 1, takeover: false });
    // SQLite's own word for a limit of size: the same result code as a disk without room (sqlite.org/rescode.html#full).
    const limited = await limit(store, 40);
    const big = { part: "inventory", stored: { revision: 1, hash: "h" }, body: "x".repeat(2_000_000) } as const;
    expect(await kindOf(store.saveReport("n", big))).toBe("full");
    expect(await store.report("n", "inventory")).toBeUndefined();
    await limited();
    expect(await store.saveReport("n", big)).toBe("saved");
  });
});

/** Sets SQLite's limit of pages on the store's own connection, since it holds for one connection only. */
async function limit(store: Store, pages: number): Promise<() => Promise<void>> {
  const { database } = store as unknown as { database: { alone<T>(work: (sql: Bun.SQL) => Promise<T>): Promise<T> } };
  await database.alone((sql) => sql.unsafe(`PRAGMA max_page_count = ${pages}`));
  return async () => {
    await database.alone((sql) => sql.unsafe("PRAGMA max_page_count = 1073741823"));
  };
}
