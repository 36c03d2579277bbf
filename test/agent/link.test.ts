import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLink, type Link } from "../../src/agent/link.ts";
import { createLog } from "../../src/lib/log.ts";
import { UserError } from "../../src/lib/user-error.ts";
import type { Connect, ConnectionEvents } from "../../src/protocol/connection.ts";
import { MAX_MESSAGE_BYTES, type Question, type ServerMessage } from "../../src/protocol/messages.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { logLines, type TestConnection, testConnection } from "../support/wire.ts";

interface Bench {
  readonly link: Link;
  readonly clock: ReturnType<typeof createVirtualClock>;
  readonly log: ReturnType<typeof logLines>;
  /** Connections in the order of opening, with what the transport would call. */
  readonly opened: { readonly connection: TestConnection; readonly events: ConnectionEvents; readonly signal: AbortSignal }[];
  last(): Bench["opened"][number];
  say(message: ServerMessage | Record<string, unknown>): Promise<void>;
}

async function bench(
  options: { readonly connect?: Connect; readonly answer?: (question: Question) => Promise<unknown> } = {},
): Promise<Bench> {
  const clock = createVirtualClock();
  const log = logLines();
  const opened: Bench["opened"] = [];
  const link = createLink({
    clock,
    chance: () => 0.5,
    connect:
      options.connect ??
      (async (events, signal) => {
        const connection = testConnection();
        opened.push({ connection, events, signal });
        return connection;
      }),
    log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date(clock.nowMs()) }),
    greeting: () => ({ node_id: "n1", agent_version: "1.2.3" }),
    instance: "i1",
    answer: options.answer ?? (async () => ({ fine: true })),
  });
  await clock.advance(0);
  const last = (): Bench["opened"][number] => {
    const one = opened.at(-1);
    if (one === undefined) throw new Error("nothing was opened");
    return one;
  };
  const say = async (message: object): Promise<void> => {
    last().events.message(JSON.stringify(message));
    await clock.advance(0);
  };
  return { link, clock, log, opened, last, say };
}

const WELCOME = { kind: "welcome", protocol: 1, server_version: "9.9.9", have: {}, beat_ms: 10_000 } as const;

test("it says hello first and nothing else until it is welcome", async () => {
  const { link, last, say } = await bench();
  link.set("inventory", { some: "thing" });
  expect(last().connection.sent).toEqual([{ kind: "hello", protocol: 1, instance: "i1", node_id: "n1", agent_version: "1.2.3" }]);
  await say(WELCOME);
  expect(last().connection.of("inventory")).toHaveLength(1);
  expect(last().connection.of("inventory")[0]).toMatchObject({ revision: 1, inventory: { some: "thing" } });
});

test("what the server has already is not sent again", async () => {
  const first = await bench();
  first.link.set("inventory", { some: "thing" });
  await first.say(WELCOME);
  const hash = String(first.last().connection.of("inventory")[0]?.hash);
  const second = await bench();
  second.link.set("inventory", { some: "thing" });
  await second.say({ ...WELCOME, have: { inventory: { revision: 41, hash } } });
  expect(second.last().connection.of("inventory")).toEqual([]);
  second.link.set("inventory", { some: "other thing" });
  expect(second.last().connection.of("inventory")[0]).toMatchObject({ revision: 42 });
});

test("a part is sent again until the server says that it has it", async () => {
  const { link, clock, last, say } = await bench();
  await say(WELCOME);
  link.set("findings", []);
  const [sent] = last().connection.of("findings");
  await clock.advance(11_000);
  expect(last().connection.of("findings")).toHaveLength(2);
  await say({ kind: "ack", have: { findings: { revision: 1, hash: sent?.hash } } });
  // The other side keeps talking, and is heard.
  for (let beat = 0; beat < 6; beat++) {
    await clock.advance(10_000);
    await say({ kind: "ack", have: { findings: { revision: 1, hash: sent?.hash } } });
  }
  expect(last().connection.of("findings")).toHaveLength(2);
  expect(link.state().kind).toBe("connected");
});

test("what did not change is not sent, whatever is said about it", async () => {
  const { link, last, say } = await bench();
  await say(WELCOME);
  for (let turn = 0; turn < 5; turn++) link.set("inventory", { same: true });
  expect(last().connection.of("inventory")).toHaveLength(1);
});

test("a silent server is noticed within 30 s, and another connection is opened", async () => {
  const { clock, opened, link, say } = await bench();
  await say(WELCOME);
  await clock.advance(24_000);
  expect(link.state().kind).toBe("connected");
  await clock.advance(6_000);
  expect(link.state()).toMatchObject({ kind: "connecting" });
  expect(opened[0]?.connection.closed?.reason).toContain("nothing heard for 25 s");
  expect(opened.length).toBeGreaterThan(1);
});

test("waits grow up to 8 s, are never zero, and begin anew after a good connection", async () => {
  const { clock, opened, last, say } = await bench();
  const at: number[] = [];
  for (let turn = 0; turn < 12; turn++) {
    const count = opened.length;
    last().events.closed(1006, "");
    const from = clock.nowMs();
    while (opened.length === count) await clock.advance(10);
    at.push(clock.nowMs() - from);
  }
  expect(at[0]).toBeLessThanOrEqual(500);
  expect(Math.min(...at)).toBeGreaterThan(0);
  expect(Math.max(...at)).toBeLessThanOrEqual(8_000);
  expect(at.at(-1)).toBeGreaterThan(4_000);
  await say(WELCOME);
  await clock.advance(12_000);
  const count = opened.length;
  last().events.closed(1006, "");
  await clock.advance(500);
  expect(opened.length).toBe(count + 1);
});

test("a refusal is told once with its words, and asked about again later", async () => {
  const { clock, opened, log, link, say } = await bench();
  const refuse = { kind: "refuse", code: "revoked", what: "out", why: "removed", fix: "join again" } as const;
  await say(refuse);
  expect(link.state()).toEqual({ kind: "refused", what: "out", why: "removed", fix: "join again" });
  await clock.advance(46_000);
  expect(opened).toHaveLength(1);
  await clock.advance(20_000);
  expect(opened).toHaveLength(2);
  await say(refuse);
  expect(log.count("refused by the server")).toBe(1);
});

test("a refusal of an unknown code passes by itself", async () => {
  const { clock, opened, say } = await bench();
  await say({ kind: "refuse", code: "phase-of-the-moon", what: "no", why: "new", fix: "wait" });
  await clock.advance(20_000);
  expect(opened).toHaveLength(2);
});

test("a person must act when the transport says so", async () => {
  const { link } = await bench({
    connect: async () => {
      throw new UserError({ what: "another certificate", why: "it has changed", fix: "compare them" });
    },
  });
  expect(link.state()).toEqual({ kind: "refused", what: "another certificate", why: "it has changed", fix: "compare them" });
});

test("a server of a later protocol that speaks no older one is refused by the agent", async () => {
  const { link, say } = await bench();
  await say({ ...WELCOME, protocol: 99 });
  expect(link.state()).toMatchObject({ kind: "refused", fix: "upgrade the agent" });
});

test("unknown kinds are ignored and logged once", async () => {
  const { log, link, say } = await bench();
  await say(WELCOME);
  for (let turn = 0; turn < 3; turn++) await say({ kind: "horoscope", text: "…" });
  expect(log.count("unknown kind")).toBe(1);
  expect(link.state().kind).toBe("connected");
});

test("a connection attempt that hangs is given up", async () => {
  let aborted = 0;
  const { clock, link } = await bench({
    connect: (_, signal) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => {
          aborted++;
          reject(new Error("given up"));
        }),
      ),
  });
  await clock.advance(10_500);
  expect(aborted).toBe(1);
  expect(link.state()).toMatchObject({ kind: "connecting", problem: "no connection within 10 s" });
});

test("while much waits to be sent nothing is added, and it follows later", async () => {
  const { link, clock, last, say } = await bench();
  await say(WELCOME);
  const { connection } = last();
  connection.buffered = 2 * 1024 * 1024;
  link.set("inventory", { large: true });
  expect(connection.of("inventory")).toEqual([]);
  connection.buffered = 0;
  await clock.advance(11_000);
  expect(connection.of("inventory")).toHaveLength(1);
});

test("a part beyond the size cap is an error in the log, and the rest goes on", async () => {
  const { link, log, last, say } = await bench();
  await say(WELCOME);
  link.set("inventory", { text: "x".repeat(MAX_MESSAGE_BYTES) });
  link.set("findings", []);
  expect(log.count("too large to be sent")).toBe(1);
  expect(last().connection.of("findings")).toHaveLength(1);
});

describe("questions", () => {
  const ask = (id: string, question: object) => ({ kind: "ask", id, question });

  test("are answered once, however often they arrive", async () => {
    let asked = 0;
    const { last, say } = await bench({
      answer: async () => {
        asked++;
        return { number: asked };
      },
    });
    await say(WELCOME);
    await say(ask("q1", { kind: "doctor" }));
    await say(ask("q1", { kind: "doctor" }));
    expect(asked).toBe(1);
    expect(last().connection.of("answer")).toEqual([{ kind: "answer", id: "q1", result: { number: 1 } }]);
  });

  test("that this version does not know are answered with a no", async () => {
    const { last, say } = await bench();
    await say(WELCOME);
    await say(ask("q1", { kind: "horoscope" }));
    expect(last().connection.of("answer")[0]).toMatchObject({ error: { what: 'the agent does not know the question "horoscope"' } });
  });

  test("whose answer fails are answered with why", async () => {
    const { last, say, log } = await bench({
      answer: async (question) => {
        if (question.kind === "doctor") throw new UserError({ what: "no", why: "busy", fix: "wait" });
        throw new Error("boom");
      },
    });
    await say(WELCOME);
    await say(ask("q1", { kind: "doctor" }));
    await say(ask("q2", { kind: "rotate-credential", credential: "c" }));
    expect(last().connection.of("answer")).toEqual([
      { kind: "answer", id: "q1", error: { what: "no", why: "busy", fix: "wait" } },
      { kind: "answer", id: "q2", error: { what: "the agent could not answer", why: "boom", fix: "look at the agent's log" } },
    ]);
    expect(log.count("could not be answered")).toBe(1);
  });

  test("beyond eight at once are refused", async () => {
    const { last, say } = await bench({ answer: () => new Promise(() => undefined) });
    await say(WELCOME);
    for (let at = 0; at < 9; at++) await say(ask(`q${at}`, { kind: "doctor" }));
    expect(last().connection.of("answer")).toHaveLength(1);
    expect(last().connection.of("answer")[0]).toMatchObject({ id: "q8", error: { what: "the agent is busy" } });
  });
});

test("stopped, it closes and stays away", async () => {
  const { link, clock, opened, last, say } = await bench();
  await say(WELCOME);
  await link.stop();
  expect(last().connection.closed).toEqual({ code: 1001, reason: "the agent stops" });
  last().events.closed(1001, "");
  await clock.advance(600_000);
  expect(opened).toHaveLength(1);
  expect(link.state()).toEqual({ kind: "stopped" });
});

test("whatever the server says, the link neither throws nor stays away", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(fc.json(), fc.string(), mangled()), { maxLength: 12 }), async (texts) => {
      const { clock, link, opened, last } = await bench();
      for (const text of texts) {
        last().events.message(text);
        await clock.advance(1_000);
      }
      const before = opened.length;
      last().events.closed(1006, "");
      await clock.advance(80_000);
      expect(opened.length).toBeGreaterThan(before);
      await link.stop();
    }),
    { numRuns: 200 },
  );
});

/** A real message with one value replaced. */
function mangled(): fc.Arbitrary<string> {
  const messages: readonly object[] = [
    WELCOME,
    { kind: "ack", seq: 1, have: { inventory: { revision: 1, hash: "h" } } },
    { kind: "refuse", code: "busy", what: "w", why: "y", fix: "f" },
    { kind: "ask", id: "1", question: { kind: "doctor" } },
  ];
  return fc.tuple(fc.constantFrom(...messages), fc.nat(), fc.jsonValue()).map(([message, at, value]) => {
    const keys = Object.keys(message);
    return JSON.stringify({ ...message, [keys[at % keys.length] ?? "kind"]: value });
  });
}
