import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLog } from "../../src/lib/log.ts";
import type { ConnectionEvents } from "../../src/protocol/connection.ts";
import { createSessions, type Sessions } from "../../src/server/sessions.ts";
import { createMemoryStore } from "../../src/server/store/memory-store.ts";
import { type Store, StoreError } from "../../src/server/store/store.ts";
import { createVirtualClock, type VirtualClock } from "../support/virtual-clock.ts";
import { type LogLines, logLines, type TestConnection, testConnection } from "../support/wire.ts";

interface Peer {
  readonly connection: TestConnection;
  readonly events: ConnectionEvents;
  say(...messages: object[]): Promise<void>;
}

interface Bench {
  readonly sessions: Sessions;
  readonly store: Store;
  readonly clock: VirtualClock;
  readonly log: LogLines;
  connect(nodeId?: string): Peer;
}

async function bench(spoil: (store: Store) => Partial<Store> = () => ({})): Promise<Bench> {
  const clock = createVirtualClock();
  const log = logLines();
  const memory = createMemoryStore({ clusterId: "c1" });
  for (const nodeId of ["n1", "n2"]) {
    await memory.addToken({ token_id: nodeId, created_ms: 0, expires_ms: 9e15, uses_left: 1, created_by: "test" }, nodeId);
    await memory.join({ token: nodeId, node_id: nodeId, credential: `c-${nodeId}`, nowMs: 1, takeover: false });
  }
  const spoiled = spoil(memory);
  const store = new Proxy(memory, {
    get: (target, name) => {
      const value: unknown = Reflect.get(name in spoiled ? spoiled : target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const sessions = createSessions({
    clock,
    store,
    log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date(clock.nowMs()) }),
    version: "1.0.0",
    instance: "s1",
  });
  const connect = (nodeId = "n1"): Peer => {
    const connection = testConnection();
    const events = sessions.accept(connection, nodeId, "192.0.2.7");
    const say = async (...messages: object[]): Promise<void> => {
      for (const message of messages) events.message(JSON.stringify(message));
      await clock.advance(0);
    };
    return { connection, events, say };
  };
  return { sessions, store, clock, log, connect };
}

const HELLO = { kind: "hello", protocol: 1, node_id: "n1", instance: "i1", agent_version: "1.0.0" } as const;
const EMPTY = { source: "none", gpus: [], unusable_cards: [], hcas: [], weights: [], storage: [], warnings: [] } as const;
const inventory = (revision: number, hash = `h${revision}`) => ({ kind: "inventory", revision, hash, inventory: EMPTY });

test("a node is welcome with what is stored of it", async () => {
  const { connect, store } = await bench();
  await store.saveReport("n1", { part: "inventory", stored: { revision: 7, hash: "x" }, body: "{}" });
  const peer = connect();
  await peer.say(HELLO);
  expect(peer.connection.sent).toEqual([
    { kind: "welcome", protocol: 1, server_version: "1.0.0", have: { inventory: { revision: 7, hash: "x" } }, beat_ms: 10_000 },
  ]);
});

test("a report is stored before it is acknowledged, and an older one changes nothing", async () => {
  const { connect, store } = await bench();
  const peer = connect();
  await peer.say(HELLO, inventory(3));
  // Said before the welcome, so not heard: the agent sends it again.
  expect(peer.connection.of("ack")).toEqual([]);
  await peer.say(inventory(3), inventory(2, "old"));
  expect(peer.connection.of("ack").map((ack) => ack.have)).toEqual([
    { inventory: { revision: 3, hash: "h3" } },
    { inventory: { revision: 3, hash: "h3" } },
  ]);
  expect((await store.report("n1", "inventory"))?.stored).toEqual({ revision: 3, hash: "h3" });
});

test("a beat is answered with its number, and its load is remembered", async () => {
  const { connect, sessions } = await bench();
  const peer = connect();
  await peer.say(HELLO);
  await peer.say({ kind: "beat", seq: 5, load: { at: "2026-11-30T12:00:00Z", devices: [{ uuid: "GPU-1", memory_used_mb: 12 }] } });
  expect(peer.connection.of("ack")).toEqual([{ kind: "ack", seq: 5, have: {} }]);
  expect(sessions.live("n1")?.load?.devices).toEqual([{ uuid: "GPU-1", memory_used_mb: 12 }]);
});

test("a report that the store refuses is not acknowledged, and the connection stays", async () => {
  let full = true;
  const { connect, log } = await bench((store) => ({
    saveReport: async (...report) => {
      if (full) throw new StoreError("full", "no space left");
      return store.saveReport(...report);
    },
  }));
  const peer = connect();
  await peer.say(HELLO);
  await peer.say(inventory(1));
  expect(peer.connection.of("ack")).toEqual([]);
  expect(log.count("a report could not be stored")).toBe(1);
  full = false;
  await peer.say(inventory(1));
  expect(peer.connection.of("ack")).toHaveLength(1);
});

describe("refused, with what, why and fix", () => {
  const refusalOf = (peer: Peer) => peer.connection.of("refuse")[0];

  test("a credential of another node", async () => {
    const { connect } = await bench();
    const peer = connect("n2");
    await peer.say(HELLO);
    expect(refusalOf(peer)).toMatchObject({ code: "node", what: 'this credential is not that of the node "n1"' });
    expect(peer.connection.closed?.code).toBe(1008);
  });

  test("a node that was removed, at its hello, at its report and while it is connected", async () => {
    const { connect, store, sessions } = await bench();
    const connected = connect();
    await connected.say(HELLO);
    await store.removeNode("n1");
    await connected.say(inventory(1));
    expect(refusalOf(connected)).toMatchObject({ code: "revoked" });
    const late = connect();
    await late.say(HELLO);
    expect(refusalOf(late)).toMatchObject({ code: "revoked" });
    const other = connect("n2");
    await other.say({ ...HELLO, node_id: "n2" });
    sessions.drop("n2");
    expect(refusalOf(other)).toMatchObject({ code: "revoked" });
    expect(sessions.figures()).toMatchObject({ connected: 0, refused: 3 });
  });

  test("everyone while the database does not answer, with a code that passes", async () => {
    const { connect } = await bench(() => ({
      saveWords: async () => {
        throw new StoreError("unreachable", "gone");
      },
    }));
    const peer = connect();
    await peer.say(HELLO);
    expect(refusalOf(peer)).toMatchObject({ code: "busy" });
  });
});

describe("two agents of one name", () => {
  const twin = { ...HELLO, instance: "i2" };

  test("the second is refused while the first answers", async () => {
    const { connect, clock, sessions } = await bench();
    const [first, second] = [connect(), connect()];
    await first.say(HELLO);
    await second.say(twin);
    const [ask] = first.connection.of("ask");
    expect(ask).toMatchObject({ question: { kind: "alive" } });
    await first.say({ kind: "answer", id: ask?.id, result: { alive: true } });
    await clock.advance(0);
    expect(second.connection.of("refuse")[0]).toMatchObject({ code: "duplicate", what: 'a node "n1" is connected already' });
    expect(sessions.live("n1")).toBeDefined();
    expect(first.connection.closed).toBeUndefined();
  });

  test("the second takes the place when the first does not answer within 3 s", async () => {
    const { connect, clock } = await bench();
    const [first, second] = [connect(), connect()];
    await first.say(HELLO);
    await second.say(twin);
    await clock.advance(2_900);
    expect(second.connection.of("welcome")).toEqual([]);
    await clock.advance(200);
    expect(second.connection.of("welcome")).toHaveLength(1);
    expect(first.connection.closed?.reason).toContain("took its place");
  });

  test("the same process coming back takes its own place at once", async () => {
    const { connect } = await bench();
    const [first, second] = [connect(), connect()];
    await first.say(HELLO);
    await second.say(HELLO);
    expect(second.connection.of("welcome")).toHaveLength(1);
    expect(first.connection.closed).toBeDefined();
    // Late words of the one before change nothing, nor does its end.
    first.events.message(JSON.stringify(inventory(9)));
    first.events.closed(1006, "");
    await second.say({ kind: "beat", seq: 1 });
    expect(second.connection.of("ack")).toEqual([{ kind: "ack", seq: 1, have: {} }]);
  });

  test("of two that come in the same moment one is in and one is refused", async () => {
    const { connect } = await bench();
    const [first, second] = [connect(), connect()];
    first.events.message(JSON.stringify(HELLO));
    await second.say(twin);
    expect(first.connection.of("welcome").length + second.connection.of("welcome").length).toBe(1);
    expect(first.connection.of("refuse").length + second.connection.of("refuse").length).toBe(1);
  });
});

test("a silent agent is dropped within 30 s, one without a hello within 10 s", async () => {
  const { connect, clock, sessions } = await bench();
  const [greeted, mute] = [connect(), connect("n2")];
  await greeted.say(HELLO);
  await clock.advance(10_000);
  expect(mute.connection.closed).toEqual({ code: 1008, reason: "no hello" });
  await clock.advance(15_500);
  expect(greeted.connection.closed?.reason).toBe("nothing heard for 25 s");
  expect(sessions.live("n1")).toBeUndefined();
  expect(sessions.lastSeenMs("n1")).toBeDefined();
  expect(sessions.figures().silentPeers).toBe(1);
});

test("a peer that does not read is dropped, and is let in again", async () => {
  const { connect, sessions } = await bench();
  const slow = connect();
  await slow.say(HELLO);
  slow.connection.buffered = 2 * 1024 * 1024;
  await slow.say({ kind: "beat", seq: 1 });
  expect(slow.connection.closed?.code).toBe(1013);
  expect(sessions.figures().slowPeers).toBe(1);
  const again = connect();
  await again.say(HELLO);
  expect(again.connection.of("welcome")).toHaveLength(1);
});

test("an agent that sends more than the store takes is dropped", async () => {
  const { connect } = await bench(() => ({ saveReport: () => new Promise(() => undefined) }));
  const peer = connect();
  await peer.say(HELLO);
  await peer.say(...Array.from({ length: 40 }, (_, at) => inventory(at + 1)));
  expect(peer.connection.closed?.code).toBe(1013);
});

describe("questions", () => {
  test("are answered by the node, or settle as not connected or timeout", async () => {
    const { connect, clock, sessions } = await bench();
    expect(await sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000 })).toEqual({ kind: "not-connected" });
    const peer = connect();
    await peer.say(HELLO);
    const answered = sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000 });
    await peer.say({ kind: "answer", id: peer.connection.of("ask")[0]?.id, result: { fine: true } });
    expect(await answered).toEqual({ kind: "answer", result: { fine: true } });
    const late = sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000 });
    await clock.advance(1_000);
    expect(await late).toEqual({ kind: "timeout" });
    const cut = sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000 });
    peer.events.closed(1006, "");
    expect(await cut).toEqual({ kind: "not-connected" });
  });

  test("of one node are not answered by another", async () => {
    const { connect, clock, sessions } = await bench();
    const [one, other] = [connect(), connect("n2")];
    await one.say(HELLO);
    await other.say({ ...HELLO, node_id: "n2" });
    const asked = sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000 });
    await other.say({ kind: "answer", id: one.connection.of("ask")[0]?.id, result: "forged" });
    await clock.advance(1_000);
    expect(await asked).toEqual({ kind: "timeout" });
  });

  test("end when whoever asks gives up", async () => {
    const { connect, sessions } = await bench();
    const peer = connect();
    await peer.say(HELLO);
    const giveUp = new AbortController();
    const asked = sessions.ask("n1", { kind: "doctor" }, { timeoutMs: 1_000, signal: giveUp.signal });
    giveUp.abort();
    expect(await asked).toEqual({ kind: "timeout" });
  });
});

test("unknown kinds are counted, logged once and otherwise ignored", async () => {
  const { connect, log, sessions } = await bench();
  const peer = connect();
  await peer.say(HELLO, { kind: "poem" }, { kind: "poem" });
  expect(log.count("unknown kind")).toBe(1);
  expect(sessions.figures().unknownKinds).toBe(2);
  expect(peer.connection.closed).toBeUndefined();
});

test("stopping waits for what is being stored, and closes with 1001", async () => {
  let finish: (() => void) | undefined;
  const { connect, sessions } = await bench((store) => ({
    saveReport: async (...report) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return store.saveReport(...report);
    },
  }));
  const peer = connect();
  await peer.say(HELLO);
  await peer.say(inventory(1));
  let stopped = false;
  const stopping = sessions.stop().then(() => {
    stopped = true;
  });
  await Promise.resolve();
  expect(stopped).toBe(false);
  finish?.();
  await stopping;
  expect(peer.connection.closed).toEqual({ code: 1001, reason: "the server stops" });
});

test("whatever an agent says, nothing is thrown and another node is served", async () => {
  const messages = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record({
        kind: fc.constantFrom("hello", "inventory", "findings", "beat", "answer"),
        revision: fc.jsonValue(),
        hash: fc.jsonValue(),
        seq: fc.jsonValue(),
        id: fc.string(),
      })
      .map((value) => JSON.stringify(value)),
    fc.constantFrom(JSON.stringify(HELLO), JSON.stringify(inventory(1)), "x".repeat(5_000_000)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(messages, { maxLength: 10 }), async (texts) => {
      const { connect, clock } = await bench();
      const hostile = connect();
      for (const text of texts) hostile.events.message(text);
      await clock.advance(0);
      const honest = connect("n2");
      await honest.say({ ...HELLO, node_id: "n2" });
      await honest.say(inventory(1));
      expect(honest.connection.of("ack")).toHaveLength(1);
    }),
    { numRuns: 150 },
  );
});
