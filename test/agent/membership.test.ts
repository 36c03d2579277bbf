import { describe, expect, test } from "bun:test";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CredentialFile, credentialStore } from "../../src/agent/credential.ts";
import type { ServerPlace } from "../../src/agent/join.ts";
import { createMembership, type Membership } from "../../src/agent/membership.ts";
import { CredentialRefused, createStreamClient } from "../../src/agent/stream-client.ts";
import { createLog } from "../../src/lib/log.ts";
import { selfSigned } from "../../src/lib/self-signed.ts";
import type { Connection, ConnectionEvents } from "../../src/protocol/connection.ts";
import { newSecret } from "../../src/protocol/secrets.ts";
import { type TemporaryFolder, temporaryFolder } from "../support/folders.ts";
import { random, type TestServer, testServer } from "../support/server.ts";

const quiet = createLog({ level: "error", write: () => undefined, now: () => new Date(0) });
const nobody: ConnectionEvents = { message: () => undefined, closed: () => undefined };
const never = new AbortController().signal;

interface Given {
  readonly url: string;
  readonly token?: string;
  readonly nodeId?: string;
  readonly trust?: ServerPlace["trust"];
}

async function member(folder: TemporaryFolder, { url, token, nodeId = "n1", trust = {} }: Given): Promise<Membership> {
  const store = credentialStore(folder.path);
  const server = { url, trust };
  return createMembership({
    store,
    known: await store.read(),
    server,
    nodeId,
    token: async () => token,
    streams: createStreamClient(server),
    random,
    log: quiet,
  });
}

const tokenOf = async (server: TestServer, uses = 1): Promise<string> => (await server.call("POST", "/tokens", { uses })).body.secret;
const fileOf = (folder: TemporaryFolder): CredentialFile => JSON.parse(readFileSync(join(folder.path, "credential.json"), "utf8"));

async function connected(membership: Membership, events = nobody): Promise<Connection> {
  return membership.connect(events, never);
}

describe("joining", () => {
  test("leaves a credential for its owner only, and a second start needs no token", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const { url } = server.running;
    await (await member(folder, { url, token: await tokenOf(server) })).ensureJoined();
    expect(statSync(join(folder.path, "credential.json")).mode & 0o777).toBe(0o600);
    expect(fileOf(folder)).toMatchObject({ version: 1, server: url, node_id: "n1", joined: true });
    const again = await member(folder, { url });
    await again.ensureJoined();
    (await connected(again)).close(1000, "");
    expect(again.clusterId()).toBe(await server.running.store.clusterId());
  });

  test("whose answer is lost is finished by a later start with the same token of one use", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const token = await tokenOf(server, 1);
    let lose = true;
    const proxy = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        const answer = await fetch(`${server.running.url}${new URL(request.url).pathname}`, {
          method: request.method,
          body: await request.text(),
        });
        return lose ? new Response("", { status: 502 }) : answer;
      },
    });
    const url = proxy.url.origin;
    await expect((await member(folder, { url, token })).ensureJoined()).rejects.toThrow("HTTP status 502");
    expect(fileOf(folder).joined).toBe(false);
    const chosen = fileOf(folder).credential;
    lose = false;
    await (await member(folder, { url, token })).ensureJoined();
    expect(fileOf(folder)).toMatchObject({ joined: true, credential: chosen });
    await proxy.stop(true);
  });

  test("is refused in the server's words, and what is no token never leaves the node", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const { url } = server.running;
    const unknown = member(folder, { url, token: newSecret("join", random) });
    await expect((await unknown).ensureJoined()).rejects.toMatchObject({ name: "UserError", what: 'the node "n1" may not join' });
    const before = server.log.lines.length;
    for (const token of [server.admin, newSecret("node", random), "hello"]) {
      await expect((await member(folder, { url, token })).ensureJoined()).rejects.toMatchObject({ what: "this is no join token" });
    }
    expect(server.log.lines.length).toBe(before);
    await expect((await member(folder, { url })).ensureJoined()).rejects.toMatchObject({ what: 'the node "n1" has not joined a cluster' });
  });

  test("of a server that is away is no error of the person's", async () => {
    using folder = temporaryFolder();
    const membership = await member(folder, { url: "http://127.0.0.1:9", token: newSecret("join", random) });
    await expect(membership.ensureJoined()).rejects.not.toMatchObject({ name: "UserError" });
  });

  test("pins the certificate that the fingerprint names, and no other", async () => {
    const made = await selfSigned({ names: ["x"], fromMs: 0, untilMs: 4e12, serial: new Uint8Array([7]) });
    using files = temporaryFolder();
    const [cert, key] = [join(files.path, "c.pem"), join(files.path, "k.pem")];
    writeFileSync(cert, made.cert);
    writeFileSync(key, made.key);
    await using server = await testServer({ flags: { tlsCert: cert, tlsKey: key } });
    using folder = temporaryFolder();
    const { url, fingerprint } = server.running;
    expect(url).toStartWith("https://");
    expect(fingerprint).toBe(made.fingerprint);
    const tls = { ca: made.cert, checkServerIdentity: () => undefined };
    const response = await fetch(`${url}/api/v1/tokens`, { method: "POST", headers: { authorization: `Bearer ${server.admin}` }, tls });
    const token = ((await response.json()) as { secret: string }).secret;
    const other = `sha256:${"ab".repeat(32)}`;
    await expect((await member(folder, { url, token, trust: { fingerprint: other } })).ensureJoined()).rejects.toMatchObject({
      what: `${url} shows another certificate than the one that was pinned`,
    });
    const membership = await member(folder, { url, token, trust: { fingerprint } });
    await membership.ensureJoined();
    (await connected(membership)).close(1000, "");
    expect(fileOf(folder).fingerprint).toBe(made.fingerprint);
  });
});

describe("the credential's file", () => {
  test.each([
    ["not JSON", "{", "it is not JSON"],
    ["of another shape", '{"version":1}', "does not fit"],
    ["of a newer version", '{"version":2}', "it is of version 2, which a newer llmgw wrote"],
  ])("that is %s is refused and stays as it is", async (_, content, why) => {
    using folder = temporaryFolder();
    const path = join(folder.path, "credential.json");
    writeFileSync(path, content);
    await expect(credentialStore(folder.path).read()).rejects.toMatchObject({ name: "UserError", why: expect.stringContaining(why) });
    expect(readFileSync(path, "utf8")).toBe(content);
  });

  test("that cannot be written down keeps the node from asking at all", async () => {
    await using server = await testServer();
    const token = await tokenOf(server);
    const store = credentialStore("/nowhere");
    const place = { url: server.running.url, trust: {} };
    const membership = createMembership({
      store,
      known: undefined,
      server: place,
      nodeId: "n1",
      token: async () => token,
      streams: createStreamClient(place),
      random,
      log: quiet,
    });
    await expect(membership.ensureJoined()).rejects.toMatchObject({
      what: "the node's credential in /nowhere/credential.json cannot be used",
    });
    expect(await server.running.store.nodes()).toEqual([]);
  });
});

describe("a credential", () => {
  test("that is replaced counts from its first use, and the old one is kept until then", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const { url, store } = server.running;
    const membership = await member(folder, { url, token: await tokenOf(server) });
    await membership.ensureJoined();
    const old = fileOf(folder).credential;
    const next = newSecret("node", random);
    await store.offerCredential("n1", new Bun.CryptoHasher("sha256").update(next).digest("hex"));
    await membership.replaceCredential(next);
    expect(fileOf(folder)).toMatchObject({ credential: old, next_credential: next });
    (await connected(membership)).close(1000, "");
    expect(fileOf(folder)).toMatchObject({ credential: next });
    expect(fileOf(folder).next_credential).toBeUndefined();
    await expect(createStreamClient({ url, trust: {} }).open(old, nobody, never)).rejects.toBeInstanceOf(CredentialRefused);
  });

  test("that was handed out and does not count is dropped, and the old one used again", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const membership = await member(folder, { url: server.running.url, token: await tokenOf(server) });
    await membership.ensureJoined();
    await membership.replaceCredential(newSecret("node", random));
    await expect(connected(membership)).rejects.not.toMatchObject({ name: "UserError" });
    expect(fileOf(folder).next_credential).toBeUndefined();
    (await connected(membership)).close(1000, "");
    await expect(membership.replaceCredential("no credential")).rejects.toMatchObject({ what: "this is no node's credential" });
  });

  test("of a node that was removed opens nothing; a start with a new token joins anew, a running agent stays out", async () => {
    await using server = await testServer();
    using folder = temporaryFolder();
    const { url } = server.running;
    const running = await member(folder, { url, token: await tokenOf(server, 9) });
    (await connected(running)).close(1000, "");
    await server.call("DELETE", "/nodes/n1");
    await expect(connected(running)).rejects.toBeInstanceOf(CredentialRefused);
    expect(await server.running.store.node("n1")).toBeUndefined();
    await expect(connected(await member(folder, { url }))).rejects.toBeInstanceOf(CredentialRefused);
    (await connected(await member(folder, { url, token: await tokenOf(server) }))).close(1000, "");
    expect(await server.running.store.node("n1")).toBeDefined();
  });
});

describe("the stream that cannot be opened says why", () => {
  test("nobody there, something else there, a server that stops", async () => {
    const open = (url: string) => createStreamClient({ url, trust: {} }).open(newSecret("node", random), nobody, never);
    await expect(open("http://127.0.0.1:9")).rejects.toThrow("http://127.0.0.1:9 cannot be reached");
    const other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("hello") });
    await expect(open(other.url.origin)).rejects.toMatchObject({
      name: "UserError",
      what: `${other.url.origin} is no llmgw server that this agent knows`,
    });
    await other.stop(true);
    const away = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("bad gateway", { status: 502 }) });
    await expect(open(away.url.origin)).rejects.not.toMatchObject({ name: "UserError" });
    await away.stop(true);
  });

  test("a message beyond the cap, or bytes, end the connection", async () => {
    for (const [message, code] of [
      ["x".repeat(5 * 1024 * 1024), 1009],
      [new Uint8Array([1]), 1003],
    ] as const) {
      const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch: (request, bun) => (bun.upgrade(request) ? undefined : new Response("", { status: 426 })),
        websocket: { open: (socket) => void socket.send(message), message: () => undefined, maxPayloadLength: 16 * 1024 * 1024 },
      });
      const closed = Promise.withResolvers<number>();
      const heard: string[] = [];
      const events = { message: (text: string) => void heard.push(text), closed: (got: number) => closed.resolve(got) };
      await createStreamClient({ url: server.url.origin, trust: {} }).open(newSecret("node", random), events, never);
      expect(await closed.promise).toBe(code);
      expect(heard).toEqual([]);
      await server.stop(true);
    }
  });
});
