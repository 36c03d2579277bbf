import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { controlPlaneFacts, joinedPlace } from "../../src/agent/control-plane.ts";
import { selfSigned } from "../../src/lib/self-signed.ts";
import { temporaryFolder } from "../support/folders.ts";
import { testServer } from "../support/server.ts";

const now = () => Date.now();

test("a server that answers has no failed step, and tells its clock", async () => {
  await using server = await testServer();
  const facts = await controlPlaneFacts({ url: server.running.url, trust: {} }, now);
  expect(facts).toMatchObject({ address: new URL(server.running.url).host, failed: undefined, encrypted: false, certificates: [] });
  expect(Math.abs(facts.clock_offset_ms ?? 9_999)).toBeLessThan(1_500);
});

test("each step that fails is named: the name, the connection, TLS, the answer", async () => {
  const step = async (url: string, trust = {}) => (await controlPlaneFacts({ url, trust }, now)).failed?.step;
  // Longer than a label of a name may be, so that no resolver is asked.
  expect(await step(`https://${"x".repeat(70)}.invalid:8400`)).toBe("look up");
  expect(await step("http://127.0.0.1:9")).toBe("connect to");
  const plain = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("", { status: 503 }) });
  expect(await step(`https://127.0.0.1:${plain.port}`)).toBe("speak TLS with");
  expect(await step(plain.url.origin)).toBe("ask");
  await plain.stop(true);
});

test("a certificate is looked at and judged with the trust of the agent", async () => {
  const made = await selfSigned({ names: ["x"], fromMs: 0, untilMs: 4e12, serial: new Uint8Array([7]) });
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, tls: { cert: made.cert, key: made.key }, fetch: () => new Response("ok") });
  const url = `https://127.0.0.1:${server.port}`;
  const pinned = await controlPlaneFacts({ url, trust: { fingerprint: made.fingerprint } }, now);
  expect(pinned).toMatchObject({ failed: undefined, encrypted: true, certificates: [{ who: "the server", from_ms: 0, until_ms: 4e12 }] });
  for (const trust of [{}, { fingerprint: `sha256:${"0".repeat(64)}` }]) {
    expect((await controlPlaneFacts({ url, trust }, now)).failed?.step).toBe("speak TLS with");
  }
  await server.stop(true);
});

test("a node that has not joined, or whose credential cannot be used, has no control plane", async () => {
  using folder = temporaryFolder();
  expect(await joinedPlace(folder.path)).toBeUndefined();
  const file = join(folder.path, "credential.json");
  writeFileSync(file, "{");
  expect(await joinedPlace(folder.path)).toBeUndefined();
  const known = { version: 1, server: "https://gw.example:8400", fingerprint: "sha256:1", node_id: "n", credential: "c" };
  writeFileSync(file, JSON.stringify({ ...known, joined: false }));
  expect(await joinedPlace(folder.path)).toBeUndefined();
  writeFileSync(file, JSON.stringify({ ...known, joined: true }));
  expect(await joinedPlace(folder.path)).toEqual({ url: "https://gw.example:8400", trust: { fingerprint: "sha256:1", ca: undefined } });
});
