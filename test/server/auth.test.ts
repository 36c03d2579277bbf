import { describe, expect, test } from "bun:test";
import { createLog } from "../../src/lib/log.ts";
import { hashSecret, newSecret, type SecretKind, secretKind } from "../../src/protocol/secrets.ts";
import { createGuard } from "../../src/server/auth.ts";
import { createMemoryStore } from "../../src/server/store/memory-store.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { logLines } from "../support/wire.ts";

const random = (bytes: number): Uint8Array => crypto.getRandomValues(new Uint8Array(bytes));

async function bench() {
  const store = createMemoryStore({ clusterId: "c" });
  const clock = createVirtualClock();
  const log = logLines();
  const admin = newSecret("operator", random);
  await store.addOperator({ operator_id: "o1", name: "Ada", role: "admin", created_ms: 1 }, hashSecret(admin));
  const token = newSecret("join", random);
  const node = newSecret("node", random);
  await store.addToken({ token_id: "t", created_ms: 0, expires_ms: 9e15, uses_left: 1, created_by: "x" }, hashSecret(token));
  await store.join({ token: hashSecret(token), node_id: "n1", credential: hashSecret(node), nowMs: 1, takeover: false });
  const guard = createGuard({
    clock,
    store,
    log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date(clock.nowMs()) }),
  });
  return { store, clock, log, guard, admin, node, token };
}

describe("a secret", () => {
  test("says what it is for, and only in its own form", () => {
    for (const kind of ["join", "node", "operator"] as const satisfies readonly SecretKind[]) {
      const secret = newSecret(kind, random);
      expect(secretKind(secret)).toBe(kind);
      expect(secretKind(`${secret}0`)).toBeUndefined();
      expect(newSecret(kind, random)).not.toBe(secret);
    }
    expect(secretKind("")).toBeUndefined();
  });

  test("opens what it was made for and nothing else", async () => {
    const { guard, admin, node, token } = await bench();
    expect(await guard.identify(admin, "192.0.2.1")).toMatchObject({
      kind: "known",
      identity: { kind: "operator", operator: { role: "admin" } },
    });
    expect(await guard.identify(node, "192.0.2.1")).toMatchObject({
      kind: "known",
      identity: { kind: "node", node_id: "n1", which: "current" },
    });
    expect(await guard.identify(token, "192.0.2.1")).toMatchObject({ kind: "unknown", why: expect.stringContaining("lets a node join") });
    expect(await guard.identify(undefined, "192.0.2.1")).toMatchObject({ kind: "unknown" });
    expect(await guard.identify("admin", "192.0.2.1")).toMatchObject({
      kind: "unknown",
      why: expect.stringContaining("none of the forms"),
    });
  });

  test("stops counting at once when it is removed", async () => {
    const { guard, store, admin, node } = await bench();
    await guard.identify(admin, "192.0.2.1");
    await guard.identify(node, "192.0.2.1");
    await store.removeOperator("o1");
    await store.removeNode("n1");
    expect((await guard.identify(admin, "192.0.2.1")).kind).toBe("unknown");
    expect((await guard.identify(node, "192.0.2.1")).kind).toBe("unknown");
  });
});

describe("failures of one address", () => {
  const guess = (): string => newSecret("operator", random);

  test("are limited after twenty, and may go on one by one as time passes", async () => {
    const { guard, clock } = await bench();
    for (let at = 0; at < 20; at++) expect((await guard.identify(guess(), "192.0.2.9")).kind).toBe("unknown");
    expect(await guard.identify(guess(), "192.0.2.9")).toEqual({ kind: "limited", retryAfterS: 3 });
    expect((await guard.identify(guess(), "192.0.2.10")).kind).toBe("unknown");
    await clock.advance(3_000);
    expect((await guard.identify(guess(), "192.0.2.9")).kind).toBe("unknown");
    expect((await guard.identify(guess(), "192.0.2.9")).kind).toBe("limited");
  });

  test("do not lock out who was known there before, and keep a right guess out", async () => {
    const { guard, admin, node } = await bench();
    await guard.identify(node, "192.0.2.9");
    for (let at = 0; at < 30; at++) await guard.identify(guess(), "192.0.2.9");
    expect((await guard.identify(node, "192.0.2.9")).kind).toBe("known");
    expect((await guard.identify(admin, "192.0.2.9")).kind).toBe("limited");
  });

  test("of a thousand tries are two warnings, without the secret", async () => {
    const { guard, log } = await bench();
    const secrets = Array.from({ length: 1_000 }, guess);
    for (const secret of secrets) await guard.identify(secret, "192.0.2.9");
    const warnings = log.lines.filter((line) => line.includes(" warn "));
    expect(warnings).toHaveLength(2);
    expect(log.lines.some((line) => secrets.some((secret) => line.includes(secret)))).toBe(false);
    expect(guard.failures()).toBe(1_000);
  });

  test("of IPv6 count for the network of 64 bits, however it is written, and a mapped address is that of IPv4", async () => {
    const { guard } = await bench();
    for (let at = 0; at < 20; at++) await guard.identify(guess(), `2001:db8::1:${at.toString(16)}`);
    expect((await guard.identify(guess(), "2001:db8:0:0:ffff::9")).kind).toBe("limited");
    expect((await guard.identify(guess(), "2001:db8:0:1::9")).kind).toBe("unknown");
    for (let at = 0; at < 20; at++) await guard.identify(guess(), "::ffff:192.0.2.77");
    expect((await guard.identify(guess(), "192.0.2.77")).kind).toBe("limited");
  });

  test("of join tokens count as well", async () => {
    const { guard } = await bench();
    for (let at = 0; at < 20; at++) guard.failed("192.0.2.9", "join token");
    expect(guard.mayTry("192.0.2.9")).toBe(false);
    expect(guard.mayTry("192.0.2.10")).toBe(true);
  });
});
