/**
 * How the database came to be, step by step, the same statements for SQLite and PostgreSQL. A step that was released is never changed:
 * what is wrong with it is mended by a later one. Times are ms since 1970, truth values 0 and 1, JSON is text: both databases agree there.
 */
export const MIGRATIONS: readonly (readonly string[])[] = [
  [
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    `CREATE TABLE nodes (
      node_id TEXT PRIMARY KEY, joined_ms BIGINT NOT NULL, last_seen_ms BIGINT,
      cordoned INTEGER NOT NULL DEFAULT 0, cordon_reason TEXT, draining INTEGER NOT NULL DEFAULT 0,
      hostname TEXT, mgmt_addr TEXT, agent_version TEXT, machine TEXT,
      credential TEXT NOT NULL UNIQUE, next_credential TEXT UNIQUE)`,
    `CREATE TABLE reports (
      node_id TEXT NOT NULL REFERENCES nodes (node_id) ON DELETE CASCADE, part TEXT NOT NULL,
      revision BIGINT NOT NULL, hash TEXT NOT NULL, summary TEXT, body TEXT NOT NULL, PRIMARY KEY (node_id, part))`,
    `CREATE TABLE join_tokens (
      token_id TEXT PRIMARY KEY, secret TEXT NOT NULL UNIQUE, created_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL,
      uses_left INTEGER NOT NULL, created_by TEXT NOT NULL)`,
    `CREATE TABLE operators (
      operator_id TEXT PRIMARY KEY, secret TEXT NOT NULL UNIQUE, name TEXT NOT NULL, role TEXT NOT NULL, created_ms BIGINT NOT NULL)`,
    "CREATE TABLE events (seq BIGINT PRIMARY KEY, at_ms BIGINT NOT NULL, node_id TEXT, message TEXT NOT NULL, detail TEXT)",
    "CREATE INDEX events_of_node ON events (node_id, seq)",
  ],
];
