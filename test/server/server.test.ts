import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import * as v from "valibot";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import { Events, Fabrics, NewOperator, NewToken, NodeDetail, Nodes, Operators, Status, Tokens } from "../../src/protocol/api.ts";
import { hashSecret, newSecret } from "../../src/protocol/secrets.ts";
import { startServer } from "../../src/server/server.ts";
import { serverSettings } from "../../src/server/settings.ts";
import { temporaryFolder } from "../support/folders.ts";
import { inventoryOf } from "../support/machines.ts";
import { handAgent, random, testServer } from "../support/server.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const server = await testServer();
afterAll(() => server[Symbol.asyncDispose]());

const hello = (nodeId: string) => ({
  kind: "hello",
  protocol: 1,
  node_id: nodeId,
  instance: `i-${nodeId}`,
  agent_version: "1.0.0",
  hostname: nodeId,
});
const get = (path: string): Promise<Response> => fetch(`${server.running.url}${path}`);

describe("a server", () => {
  test("says that it lives and is ready without being asked who asks, and nothing else", async () => {
    expect(await (await get("/healthz")).text()).toBe("ok\n");
    expect(await (await get("/readyz")).text()).toBe("ready\n");
    for (const path of ["/metrics", "/api/v1/nodes", "/api/v1/stream", "/api/v1/backup"]) expect((await get(path)).status).toBe(401);
  });

  test("keeps its first admin's token and its state for its owner only", () => {
    const { stateDir } = server.running;
    expect(statSync(join(stateDir, "admin.token")).mode & 0o777).toBe(0o600);
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
    expect(JSON.parse(readFileSync(join(stateDir, "server.json"), "utf8"))).toEqual({ version: 1, url: server.running.url });
  });

  test("holds no secret in clear anywhere in its state", async () => {
    const token = await server.call("POST", "/tokens");
    const operator = await server.call("POST", "/operators", { name: "Bob", role: "viewer" });
    const credential = await server.joined("secretive");
    const { stateDir } = server.running;
    for (const name of ["store.db", "store.db-wal"]) {
      const text = readFileSync(join(stateDir, name), "latin1");
      for (const secret of [server.admin, token.body.secret, operator.body.secret, credential]) expect(text).not.toContain(secret);
    }
    expect(
      server.log.lines.some((line) => [token.body.secret, operator.body.secret, credential].some((secret) => line.includes(secret))),
    ).toBe(false);
  });

  test("answers what is no path, no method and no JSON of its own with what, why and fix", async () => {
    expect(await server.call("GET", "/nothing")).toMatchObject({
      status: 404,
      body: { error: { what: "there is nothing at /api/v1/nothing" } },
    });
    const wrong = await server.call("PATCH", "/nodes/x");
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, DELETE"]);
    expect(await server.call("POST", "/tokens", "{")).toMatchObject({ status: 400, body: { error: { what: "the body is not JSON" } } });
    expect(await server.call("POST", "/tokens", { ttl_s: -1 })).toMatchObject({
      status: 400,
      body: { error: { why: expect.stringContaining("ttl_s") } },
    });
    expect((await server.call("GET", "/events?limit=none")).status).toBe(400);
  });

  test("lets a viewer look and not change", async () => {
    const { body } = await server.call("POST", "/operators", { name: "Vi", role: "viewer" });
    expect((await server.call("GET", "/status", undefined, body.secret)).status).toBe(200);
    for (const [method, path] of [
      ["POST", "/tokens"],
      ["GET", "/tokens"],
      ["DELETE", "/nodes/x"],
      ["POST", "/nodes/x/cordon"],
      ["GET", "/backup"],
    ] as const) {
      expect(await server.call(method, path, undefined, body.secret)).toMatchObject({
        status: 403,
        body: { error: { what: '"Vi" may look and not change' } },
      });
    }
    await server.call("DELETE", `/operators/${body.operator.operator_id}`);
    expect((await server.call("GET", "/status", undefined, body.secret)).status).toBe(401);
  });

  test("keeps its last admin", async () => {
    const { body } = await server.call("GET", "/operators");
    const admin = body.operators.find((one: { role: string }) => one.role === "admin");
    expect(await server.call("DELETE", `/operators/${admin.operator_id}`)).toMatchObject({
      status: 409,
      body: { error: { what: '"admin" is the last admin' } },
    });
  });

  test("gives every list in the shape that the API's schemas say", async () => {
    await server.joined("shaped");
    for (const [path, schema] of [
      ["/nodes", Nodes],
      ["/nodes/shaped", NodeDetail],
      ["/status", Status],
      ["/fabrics", Fabrics],
      ["/events", Events],
      ["/tokens", Tokens],
      ["/operators", Operators],
    ] as const) {
      expect(v.safeParse(schema, (await server.call("GET", path)).body).issues).toBeUndefined();
    }
    expect(v.safeParse(NewToken, (await server.call("POST", "/tokens")).body).issues).toBeUndefined();
    expect(v.safeParse(NewOperator, (await server.call("POST", "/operators", { name: "a", role: "admin" })).body).issues).toBeUndefined();
  });

  test("gives a backup that holds what it holds", async () => {
    const response = await fetch(`${server.running.url}/api/v1/backup`, { headers: { authorization: `Bearer ${server.admin}` } });
    expect(new Uint8Array(await response.arrayBuffer()).slice(0, 15)).toEqual(new TextEncoder().encode("SQLite format 3"));
  });
});

describe("joining", () => {
  const join = (token: string, nodeId: string, credential = newSecret("node", random)) =>
    server.call("POST", "/join", { token, node_id: nodeId, credential_hash: hashSecret(credential) }, "");

  test("is refused in words for a token that is not known, of another kind, used up, or expired", async () => {
    expect(await join(newSecret("join", random), "j1")).toMatchObject({
      status: 401,
      body: { error: { why: expect.stringContaining("not known here") } },
    });
    expect(await join(server.admin, "j1")).toMatchObject({
      status: 401,
      body: { error: { why: expect.stringContaining("for llmgw ctl") } },
    });
    const once = (await server.call("POST", "/tokens", { uses: 1 })).body.secret;
    expect((await join(once, "j1")).status).toBe(200);
    expect(await join(once, "j2")).toMatchObject({ status: 403, body: { error: { why: expect.stringContaining("as often as it may") } } });
    const clock = createVirtualClock();
    await using timed = await testServer({ clock });
    const short = (await timed.call("POST", "/tokens", { ttl_s: 60 })).body.secret;
    await clock.advance(60_000);
    const late = await timed.call("POST", "/join", { token: short, node_id: "j3", credential_hash: hashSecret("x") }, "");
    expect(late).toMatchObject({ status: 401, body: { error: { why: "the join token expired at 2026-11-30T12:01:00.000Z" } } });
  });

  test("may be asked again by the same agent, whose first answer was lost", async () => {
    const token = (await server.call("POST", "/tokens", { uses: 1 })).body.secret;
    const credential = newSecret("node", random);
    expect((await join(token, "again", credential)).status).toBe(200);
    expect((await join(token, "again", credential)).status).toBe(200);
  });

  test("under the name of a node that talks is refused, and of one that never came is not", async () => {
    const credential = await server.joined("taken");
    const token = (await server.call("POST", "/tokens", { uses: 5 })).body.secret;
    expect((await join(token, "taken")).status).toBe(200);
    expect((await join(token, "taken", credential)).status).toBe(200);
    using agent = await handAgent(server, credential);
    agent.send(hello("taken"));
    await agent.next("welcome");
    expect(await join(token, "taken")).toMatchObject({ status: 409, body: { error: { what: 'a node "taken" is here already' } } });
  });

  test("from an address that fails again and again is limited", async () => {
    await using fresh = await testServer();
    const tries = [];
    for (let at = 0; at < 22; at++)
      tries.push(
        (await fresh.call("POST", "/join", { token: newSecret("join", random), node_id: "x", credential_hash: hashSecret("x") }, ""))
          .status,
      );
    expect(tries.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 401));
    expect(tries.at(-1)).toBe(429);
  });
});

describe("a node's stream", () => {
  test("brings its inventory, findings and load into what the server shows", async () => {
    const credential = await server.joined("gpu-01");
    using agent = await handAgent(server, credential);
    agent.send(hello("gpu-01"));
    expect(await agent.next("welcome")).toMatchObject({ server_version: "1.0.0", have: {} });
    const inventory = await inventoryOf("a100-mig-mixed");
    agent.send({ kind: "inventory", revision: 1, hash: "h", inventory });
    await agent.next("ack");
    const problem = {
      id: "x",
      group: "gpu",
      severity: "block",
      result: "problem",
      subject: { kind: "node" },
      message: "m",
      evidence: [],
      fix: [],
      ms: 0,
    };
    agent.send({ kind: "findings", revision: 1, hash: "f", findings: [problem] });
    await agent.next("ack");
    agent.send({ kind: "beat", seq: 1, load: { at: "2026-12-01T00:00:00Z", devices: [{ uuid: "GPU-1", memory_used_mb: 5 }] } });
    await agent.next("ack");
    const { body } = await server.call("GET", "/nodes/gpu-01");
    expect(body.node).toMatchObject({ state: "ready", connected: true, hostname: "gpu-01", problems: { block: 1 } });
    expect(body.node.mgmt_addr).toBe("127.0.0.1");
    expect(body.inventory).toEqual(JSON.parse(JSON.stringify(inventory)));
    expect(body.findings).toEqual([problem]);
    expect(body.load.devices).toEqual([{ uuid: "GPU-1", memory_used_mb: 5 }]);
    const status = (await server.call("GET", "/status")).body;
    expect(status.devices).toEqual(
      body.node.summary.devices.toSorted((a: { class: string }, b: { class: string }) => (a.class < b.class ? -1 : 1)),
    );
    expect(status.attention).toContain("1 node has problems that block new work: gpu-01 (llmgw ctl nodes show gpu-01)");
  });

  test("opens with nothing but a node's credential", async () => {
    expect(await server.call("GET", "/stream")).toMatchObject({ status: 403, body: { error: { what: "the stream is for nodes" } } });
    expect((await server.call("GET", "/stream", undefined, newSecret("node", random))).status).toBe(401);
    const credential = await server.joined("plain");
    expect((await server.call("GET", "/stream", undefined, credential)).status).toBe(426);
    expect(await server.call("GET", "/nodes", undefined, credential)).toMatchObject({
      status: 403,
      body: { error: { why: 'it is that of "plain"' } },
    });
  });

  test("is cordoned and uncordoned with its reason, while it stays connected", async () => {
    const credential = await server.joined("c1");
    using agent = await handAgent(server, credential);
    agent.send(hello("c1"));
    await agent.next("welcome");
    expect((await server.call("POST", "/nodes/c1/cordon", { reason: "new fans" })).body).toEqual({ done: true });
    expect((await server.call("GET", "/nodes/c1")).body.node).toMatchObject({
      state: "cordoned",
      cordoned: true,
      cordon_reason: "new fans",
      connected: true,
    });
    await server.call("POST", "/nodes/c1/uncordon");
    const { node } = (await server.call("GET", "/nodes/c1")).body;
    expect([node.state, node.cordon_reason]).toEqual(["ready", undefined]);
    expect((await server.call("POST", "/nodes/none/cordon")).status).toBe(404);
  });

  test("ends when the node is removed, and its credential opens nothing any more", async () => {
    const credential = await server.joined("r1");
    using agent = await handAgent(server, credential);
    agent.send(hello("r1"));
    await agent.next("welcome");
    await server.call("DELETE", "/nodes/r1");
    expect(await agent.next("refuse")).toMatchObject({ code: "revoked" });
    expect((await agent.closed).code).toBe(1008);
    expect(await server.call("GET", "/stream", undefined, credential)).toMatchObject({
      status: 401,
      body: { error: { why: expect.stringContaining("removed") } },
    });
    expect((await server.call("GET", "/nodes/r1")).status).toBe(404);
  });

  test("brings a new credential on demand: both count until the new one is used", async () => {
    const credential = await server.joined("k1");
    expect((await server.call("POST", "/nodes/k1/rotate")).status).toBe(409);
    using agent = await handAgent(server, credential);
    agent.send(hello("k1"));
    await agent.next("welcome");
    const done = server.call("POST", "/nodes/k1/rotate");
    const ask = await agent.next("ask");
    agent.send({ kind: "answer", id: ask.id, result: {} });
    expect((await done).status).toBe(200);
    expect((await server.call("GET", "/stream", undefined, credential)).status).toBe(426);
    using next = await handAgent(server, ask.question.credential);
    next.send(hello("k1"));
    await next.next("welcome");
    expect((await server.call("GET", "/stream", undefined, credential)).status).toBe(401);
  });

  test("carries the doctor's question, and says when the agent refuses or does not understand", async () => {
    const credential = await server.joined("d1");
    expect(await server.call("POST", "/nodes/d1/doctor")).toMatchObject({
      status: 409,
      body: { error: { what: 'the node "d1" is not connected' } },
    });
    using agent = await handAgent(server, credential);
    agent.send(hello("d1"));
    await agent.next("welcome");
    const answerWith = async (reply: object) => {
      const asked = server.call("POST", "/nodes/d1/doctor");
      const { id } = await agent.next("ask");
      agent.send({ kind: "answer", id, ...reply });
      return asked;
    };
    expect(await answerWith({ result: { version: 1, findings: [] } })).toMatchObject({ status: 200, body: { version: 1, findings: [] } });
    expect(await answerWith({ result: { version: 9 } })).toMatchObject({ status: 502 });
    const error = { what: "busy", why: "w", fix: "f" };
    expect(await answerWith({ error })).toMatchObject({ status: 502, body: { error } });
  });

  test("ends with 1009 for a message beyond the cap, and with 1003 for bytes, and others are served", async () => {
    const credential = await server.joined("big");
    using agent = await handAgent(server, credential);
    agent.send({ kind: "hello", text: "x".repeat(5 * 1024 * 1024) });
    expect((await agent.closed).code).toBe(1009);
    using other = await handAgent(server, credential);
    other.sendBytes(new Uint8Array([1, 2, 3]));
    expect((await other.closed).code).toBe(1003);
    expect((await get("/healthz")).status).toBe(200);
  });
});

test("a restart loses nothing, makes no node late, and the agents come back", async () => {
  await using own = await testServer();
  const credential = await own.joined("gpu-01");
  {
    using agent = await handAgent(own, credential);
    agent.send(hello("gpu-01"));
    await agent.next("welcome");
    agent.send({ kind: "inventory", revision: 4, hash: "h4", inventory: await inventoryOf("h100-nvswitch-8") });
    await agent.next("ack");
    await own.restart();
    expect((await agent.closed).code).toBe(1001);
  }
  const before = (await own.call("GET", "/nodes")).body.nodes[0];
  expect(before).toMatchObject({
    node_id: "gpu-01",
    state: "ready",
    connected: false,
    summary: { devices: [{ class: "h100-80g", count: 8 }] },
  });
  using agent = await handAgent(own, credential);
  agent.send(hello("gpu-01"));
  expect(await agent.next("welcome")).toMatchObject({ have: { inventory: { revision: 4, hash: "h4" } } });
});

test("silence makes a node late, then lost, each said once, and a word brings it back", async () => {
  const clock = createVirtualClock();
  await using own = await testServer({ clock });
  const credential = await own.joined("gpu-01");
  const state = async (): Promise<string> => (await own.call("GET", "/nodes/gpu-01")).body.node.state;
  {
    using agent = await handAgent(own, credential);
    agent.send(hello("gpu-01"));
    await agent.next("welcome");
    expect(await state()).toBe("ready");
  }
  while (own.log.count("node disconnected") === 0) await Bun.sleep(1);
  await clock.advance(30_000);
  expect(await state()).toBe("late");
  await clock.advance(70_000);
  expect(await state()).toBe("lost");
  while ((await own.call("GET", "/events?node=gpu-01")).body.events[0].message !== "node lost") await Bun.sleep(1);
  using again = await handAgent(own, credential);
  again.send(hello("gpu-01"));
  await again.next("welcome");
  expect(await state()).toBe("ready");
  while ((await own.call("GET", "/events?node=gpu-01")).body.events[0].message !== "node back") await Bun.sleep(1);
  const { events } = (await own.call("GET", "/events")).body;
  expect(events.map((event: { message: string }) => event.message).filter((text: string) => /lost|back/.test(text))).toEqual([
    "node back",
    "node lost",
  ]);
});

describe("a server that cannot run says so and leaves nothing open", () => {
  const start = (flags: Parameters<typeof serverSettings>[1]) =>
    startServer({
      settings: serverSettings({}, { listen: "127.0.0.1:0", ...flags }, { listen: "127.0.0.1:0", stateDir: undefined }),
      clock: systemClock,
      log: createLog({ level: "error", write: () => undefined, now: () => new Date() }),
      version: "1.0.0",
      random,
    });

  test("on a port that is taken", async () => {
    using folder = temporaryFolder();
    const { host } = new URL(server.running.url);
    await expect(start({ listen: host, stateDir: folder.path })).rejects.toMatchObject({
      what: `the server cannot listen at ${host}`,
      fix: expect.stringContaining("ss -ltnp"),
    });
    await (await start({ stateDir: folder.path })).stop();
  });

  test("in a state folder that another one uses", async () => {
    await expect(start({ stateDir: server.running.stateDir })).rejects.toMatchObject({
      what: `another server uses ${server.running.stateDir}`,
    });
  });

  test("in a state folder that is a file", async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "f"), "");
    await expect(start({ stateDir: join(folder.path, "f") })).rejects.toMatchObject({
      what: `the state folder ${join(folder.path, "f")} cannot be used`,
    });
  });

  test("on a database that is none, and leaves it as it is", async () => {
    using folder = temporaryFolder();
    const path = join(folder.path, "store.db");
    writeFileSync(path, "no database ".repeat(500));
    await expect(start({ stateDir: folder.path })).rejects.toMatchObject({ what: `the database sqlite://${path} cannot be used` });
    expect(existsSync(join(folder.path, "server.lock"))).toBe(false);
    rmSync(path);
    await (await start({ stateDir: folder.path })).stop();
  });

  test("with a database's password in its words", async () => {
    using folder = temporaryFolder();
    await expect(start({ stateDir: folder.path, database: "postgres://llmgw:hush@127.0.0.1:9/x" })).rejects.toMatchObject({
      what: "the database postgres://127.0.0.1:9/x cannot be used",
    });
  });

  test("with a certificate and a key that do not belong together, or are not there", async () => {
    using folder = temporaryFolder();
    await expect(start({ stateDir: folder.path, tlsCert: "/nowhere/a", tlsKey: "/nowhere/b" })).rejects.toMatchObject({
      why: "there is no such file",
    });
    expect(() => serverSettings({}, { stateDir: "/x", tlsCert: "/a" }, { listen: "127.0.0.1:1", stateDir: undefined })).toThrow(
      "--tls-cert is given without --tls-key",
    );
  });
});

describe("whatever is asked of it", () => {
  const paths = [
    "/join",
    "/nodes",
    "/nodes/x",
    "/nodes/x/cordon",
    "/tokens",
    "/tokens/x",
    "/operators",
    "/operators/x",
    "/status",
    "/events",
    "/stream",
  ];
  const bodies = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record(
        {
          token: fc.anything(),
          node_id: fc.anything(),
          credential_hash: fc.anything(),
          ttl_s: fc.anything(),
          uses: fc.anything(),
          name: fc.anything(),
        },
        { requiredKeys: [] },
      )
      .map((value) => JSON.stringify(value) ?? ""),
  );

  test("is answered with a status that is no bug's, and it goes on", async () => {
    const method = fc.constantFrom("GET", "POST", "DELETE", "PUT");
    await fc.assert(
      fc.asyncProperty(method, fc.constantFrom(...paths), bodies, fc.boolean(), async (verb, path, body, admin) => {
        const answer = await server.call(verb, path, verb === "GET" ? undefined : body, admin ? server.admin : "llmgw-op-none");
        expect(answer.status).not.toBe(500);
        if (answer.status >= 400) expect(Object.keys(answer.body.error)).toEqual(["what", "why", "fix"]);
      }),
      { numRuns: 300 },
    );
    expect((await get("/readyz")).status).toBe(200);
  });
});
