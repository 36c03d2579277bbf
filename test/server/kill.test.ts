/** Server and agents as processes, killed at random moments: whatever was acknowledged is there afterwards. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TemporaryFolder, temporaryFolder } from "../support/folders.ts";
import { type Postgres, postgresFolder, startPostgres } from "../support/postgres.ts";
import { type Child, startLlmgw, until } from "../support/processes.ts";

/** `LLMGW_KILL_ROUNDS=100 bun test test/server/kill.test.ts` for a long run. */
const ROUNDS = Number(process.env.LLMGW_KILL_ROUNDS ?? "3");
const LIMIT_MS = 60_000 + ROUNDS * 15_000;

interface Node {
  readonly node_id: string;
  readonly state: string;
  readonly connected: boolean;
  readonly cordon_reason?: string;
  readonly summary?: { readonly devices: readonly { readonly class: string; readonly count: number }[] };
}

class Cluster {
  readonly folder: TemporaryFolder = temporaryFolder();
  server: Child | undefined;
  readonly agents = new Map<string, Child>();
  private port = "0";
  private readonly database: readonly string[];

  constructor(database: string | undefined) {
    this.database = database === undefined ? [] : ["--database", database];
  }

  get state(): string {
    return join(this.folder.path, "server");
  }

  async startServer(): Promise<void> {
    const words = ["server", "--listen", `127.0.0.1:${this.port}`, "--state", this.state, ...this.database];
    const server = startLlmgw(this.folder.path, words);
    this.server = server;
    await until(async () => {
      if (!server.running()) throw new Error(`the server ended: ${server.output()}`);
      return existsSync(join(this.state, "server.json")) && (await this.ready());
    }, server.output);
    this.port = new URL(this.url()).port;
  }

  url(): string {
    return JSON.parse(readFileSync(join(this.state, "server.json"), "utf8")).url;
  }

  private async ready(): Promise<boolean> {
    try {
      return (await fetch(`${this.url()}/readyz`)).ok;
    } catch {
      return false;
    }
  }

  /** `undefined` when the server was killed under it. */
  async call(method: string, path: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> } | undefined> {
    try {
      const secret = readFileSync(join(this.state, "admin.token"), "utf8").trim();
      const response = await fetch(`${this.url()}/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${secret}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: JSON.parse(await response.text()) };
    } catch {
      return undefined;
    }
  }

  async nodes(): Promise<readonly Node[]> {
    const answer = await this.call("GET", "/nodes");
    // The shape is checked by the tests of the API.
    return (answer?.body.nodes ?? []) as readonly Node[];
  }

  /** The line that `ctl token create` prints, and without it where the node has joined. */
  async startAgent(machine: string, joined: boolean): Promise<void> {
    const words = ["agent", "--machine", machine, "--state", join(this.folder.path, machine)];
    const token = joined ? undefined : (await this.call("POST", "/tokens", {}))?.body.secret;
    const pasted = token === undefined ? [] : ["--server", this.url(), "--token", String(token)];
    this.agents.set(machine, startLlmgw(this.folder.path, [...words, ...pasted]));
  }

  /** Both nodes are there once, ready, connected, with their devices. */
  async whole(): Promise<readonly Node[]> {
    return until(
      async () => {
        const nodes = await this.nodes();
        const well = nodes.filter((node) => node.connected && node.state !== "lost" && (node.summary?.devices.length ?? 0) > 0);
        return nodes.length === 2 && well.length === 2 ? nodes : undefined;
      },
      () => [this.server, ...this.agents.values()].map((child) => child?.output().slice(-2_000)).join("\n---\n"),
    );
  }

  async end(): Promise<void> {
    for (const child of [...this.agents.values(), this.server]) if (child?.running() === true) await child.end("SIGKILL");
    this.folder[Symbol.dispose]();
  }
}

const MACHINES = ["h100-nvswitch-8", "a100-mig-mixed"] as const;
const DEVICES = (nodes: readonly Node[]): string => JSON.stringify(nodes.map((node) => node.summary?.devices));

function faultTests(name: string, database: () => Promise<string | undefined>): void {
  test(
    `${name}: a server killed while it is written to has lost nothing that it acknowledged, and everyone comes back`,
    async () => {
      const cluster = new Cluster(await database());
      try {
        await cluster.startServer();
        for (const machine of MACHINES) await cluster.startAgent(machine, false);
        const devices = DEVICES(await cluster.whole());
        const acknowledged: string[] = [];
        for (let round = 0; round < ROUNDS; round++) {
          const server = cluster.server;
          const killed = Bun.sleep(Math.random() * 250).then(() => server?.end("SIGKILL"));
          let reason = "";
          for (let at = 0; ; at++) {
            const operator = `r${round}-${at}`;
            if ((await cluster.call("POST", "/operators", { name: operator, role: "viewer" }))?.status !== 200) break;
            acknowledged.push(operator);
            if ((await cluster.call("POST", "/nodes/hgx-01/cordon", { reason: operator }))?.status !== 200) break;
            reason = operator;
          }
          await killed;
          await cluster.startServer();
          const { operators } = (await cluster.call("GET", "/operators"))?.body ?? {};
          const there = new Set((operators as { name: string }[]).map((operator) => operator.name));
          expect(acknowledged.filter((operator) => !there.has(operator))).toEqual([]);
          const nodes = await cluster.whole();
          expect(DEVICES(nodes)).toBe(devices);
          // The last that was acknowledged, or the one that was under way.
          const told = nodes.find((node) => node.node_id === "hgx-01")?.cordon_reason ?? "";
          if (reason !== "") expect([reason, `r${round}-${Number(reason.split("-")[1]) + 1}`]).toContain(told);
        }
        expect(acknowledged.length).toBeGreaterThan(ROUNDS);
      } finally {
        await cluster.end();
      }
    },
    LIMIT_MS,
  );

  test(
    `${name}: an agent killed at any moment, while it joins too, comes back as the same node`,
    async () => {
      const cluster = new Cluster(await database());
      try {
        await cluster.startServer();
        const { secret } = (await cluster.call("POST", "/tokens", { uses: 1 }))?.body ?? {};
        const line = ["agent", "--machine", MACHINES[0], "--state", join(cluster.folder.path, MACHINES[0]), "--server", cluster.url()];
        // One token of one use, and a process that is killed at some moment of its start: what it wrote down is used again.
        for (let round = 0; round < ROUNDS; round++) {
          const agent = startLlmgw(cluster.folder.path, [...line, "--token", String(secret)]);
          await Bun.sleep(150 + Math.random() * 250);
          await agent.end("SIGKILL");
        }
        cluster.agents.set(MACHINES[0], startLlmgw(cluster.folder.path, [...line, "--token", String(secret)]));
        await cluster.startAgent(MACHINES[1], false);
        const devices = DEVICES(await cluster.whole());
        for (let round = 0; round < ROUNDS; round++) {
          const machine = MACHINES[round % 2] ?? MACHINES[0];
          await Bun.sleep(Math.random() * 100);
          await cluster.agents.get(machine)?.end("SIGKILL");
          await cluster.startAgent(machine, true);
          expect(DEVICES(await cluster.whole())).toBe(devices);
        }
      } finally {
        await cluster.end();
      }
    },
    LIMIT_MS,
  );
}

describe("processes that are killed", () => {
  faultTests("SQLite", async () => undefined);
});

describe.skipIf(postgresFolder() === undefined)("processes that are killed, with PostgreSQL (needs Debian's package postgresql)", () => {
  let postgres: Promise<Postgres> | undefined;
  afterAll(async () => (await postgres)?.[Symbol.asyncDispose]());
  faultTests("PostgreSQL", async () => {
    postgres ??= startPostgres();
    return (await postgres).database();
  });
});
