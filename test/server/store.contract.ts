/** What every store holds to (src/server/store/store.ts), whatever is behind it. */
import { describe, expect, test } from "bun:test";
import type { InventorySummary, ProblemCounts } from "../../src/domain/node.ts";
import type { JoinToken, Store } from "../../src/server/store/store.ts";

export interface StoreUnderTest {
  /** A store with nothing in it. */
  fresh(): Promise<Store>;
  /** Opens it again, as another server or a later start would; `undefined` where nothing survives. */
  reopen?(store: Store): Promise<Store>;
}

const NODE = "gpu-01";
const HOUR_MS = 3_600_000;
const TOKEN: JoinToken = { token_id: "t1", created_ms: 1_000, expires_ms: 1_000 + HOUR_MS, uses_left: 2, created_by: "admin" };
const SUMMARY: InventorySummary = {
  source: "nvidia-smi",
  devices: [{ class: "a100-80g", count: 2, healthy: 1 }],
  unusable_cards: 0,
  weights: ["qwen"],
  ports: [],
  nvlink_domains: [],
};
const PROBLEMS: ProblemCounts = { block: 1, degrade: 0, advise: 2, unknown: 0 };

async function withNode(store: Store, nodeId = NODE): Promise<Store> {
  await store.addToken({ ...TOKEN, token_id: `token of ${nodeId}` }, `secret of ${nodeId}`);
  await store.join({ token: `secret of ${nodeId}`, node_id: nodeId, credential: `credential of ${nodeId}`, nowMs: 2_000, takeover: false });
  return store;
}

const inventory = (revision: number, body = "{}") =>
  ({ part: "inventory", stored: { revision, hash: `h${revision}` }, body, summary: SUMMARY }) as const;

export function storeContract(name: string, given: StoreUnderTest): void {
  const { fresh } = given;

  describe(`${name}: joining`, () => {
    const request = { token: "s1", node_id: NODE, credential: "c1", nowMs: 2_000, takeover: false };

    test("a token that nobody made is unknown, and nothing is added", async () => {
      const store = await fresh();
      expect(await store.join(request)).toEqual({ kind: "unknown-token" });
      expect(await store.nodes()).toEqual([]);
    });

    test("a token is used up by nodes, and not by one that asks again with its own credential", async () => {
      const store = await fresh();
      await store.addToken(TOKEN, "s1");
      expect(await store.join(request)).toEqual({ kind: "joined" });
      expect(await store.join(request)).toEqual({ kind: "joined" });
      expect((await store.tokens())[0]?.uses_left).toBe(1);
      expect(await store.join({ ...request, node_id: "gpu-02", credential: "c2" })).toEqual({ kind: "joined" });
      expect(await store.join({ ...request, node_id: "gpu-03", credential: "c3" })).toEqual({ kind: "used-up" });
      expect((await store.nodes()).map((node) => node.node_id)).toEqual([NODE, "gpu-02"]);
    });

    test("a token that has ended says when", async () => {
      const store = await fresh();
      await store.addToken(TOKEN, "s1");
      const late = { ...request, nowMs: TOKEN.expires_ms };
      expect(await store.join(late)).toEqual({ kind: "expired", expires_ms: TOKEN.expires_ms });
    });

    test("a name that is taken costs no use; taken over, its flags and reports stay and the old credential is nobody's", async () => {
      const store = await fresh();
      await store.addToken(TOKEN, "s1");
      await store.join(request);
      await store.setCordon(NODE, { cordoned: true, draining: false, reason: "fan" });
      await store.saveReport(NODE, inventory(3));
      const other = { ...request, credential: "c2" };
      expect(await store.join(other)).toEqual({ kind: "name-taken" });
      expect((await store.tokens())[0]?.uses_left).toBe(1);
      expect(await store.join({ ...other, takeover: true })).toEqual({ kind: "joined" });
      expect(await store.nodeOf("c1")).toBeUndefined();
      expect(await store.nodeOf("c2")).toEqual({ node_id: NODE, which: "current" });
      expect(await store.node(NODE)).toMatchObject({
        cordoned: true,
        cordon_reason: "fan",
        have: { inventory: { revision: 3, hash: "h3" } },
      });
    });

    test("of many that want the last use of a token in the same moment one gets it", async () => {
      const store = await fresh();
      await store.addToken({ ...TOKEN, uses_left: 1 }, "s1");
      const outcomes = await Promise.all(
        Array.from({ length: 12 }, (_, at) => store.join({ ...request, node_id: `n${at}`, credential: `c${at}` })),
      );
      expect(outcomes.filter((outcome) => outcome.kind === "joined")).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome.kind === "used-up")).toHaveLength(11);
      expect(await store.nodes()).toHaveLength(1);
    });

    test("tokens are listed newest first, and one that was removed is unknown", async () => {
      const store = await fresh();
      await store.addToken(TOKEN, "s1");
      await store.addToken({ ...TOKEN, token_id: "t2", created_ms: 5_000 }, "s2");
      expect((await store.tokens()).map((token) => token.token_id)).toEqual(["t2", "t1"]);
      expect((await store.tokens())[1]).toEqual(TOKEN);
      expect(await store.removeToken("t1")).toBe(true);
      expect(await store.removeToken("t1")).toBe(false);
      expect(await store.join(request)).toEqual({ kind: "unknown-token" });
    });
  });

  describe(`${name}: credentials`, () => {
    test("while one is being replaced both count; once the new one is used the old one is nobody's", async () => {
      const store = await withNode(await fresh());
      expect(await store.offerCredential(NODE, "next")).toBe(true);
      expect(await store.nodeOf(`credential of ${NODE}`)).toEqual({ node_id: NODE, which: "current" });
      expect(await store.nodeOf("next")).toEqual({ node_id: NODE, which: "next" });
      expect(await store.confirmCredential(NODE, "another")).toBe(false);
      expect(await store.confirmCredential(NODE, "next")).toBe(true);
      expect(await store.confirmCredential(NODE, "next")).toBe(false);
      expect(await store.nodeOf(`credential of ${NODE}`)).toBeUndefined();
      expect(await store.nodeOf("next")).toEqual({ node_id: NODE, which: "current" });
    });

    test("of a node that was removed count no more, and it comes back as a new one", async () => {
      const store = await withNode(await fresh());
      await store.offerCredential(NODE, "next");
      await store.saveReport(NODE, inventory(1));
      expect(await store.removeNode(NODE)).toBe(true);
      expect(await store.removeNode(NODE)).toBe(false);
      expect(await store.nodeOf(`credential of ${NODE}`)).toBeUndefined();
      expect(await store.nodeOf("next")).toBeUndefined();
      expect(await store.node(NODE)).toBeUndefined();
      expect(await store.offerCredential(NODE, "x")).toBe(false);
      expect(await store.setCordon(NODE, { cordoned: true, draining: false, reason: undefined })).toBe(false);
      await store.join({ token: `secret of ${NODE}`, node_id: NODE, credential: "again", nowMs: 9_000, takeover: false });
      expect(await store.report(NODE, "inventory")).toBeUndefined();
      expect(await store.node(NODE)).toMatchObject({ joined_ms: 9_000, have: {} });
    });
  });

  describe(`${name}: nodes`, () => {
    test("a node that has only joined has nothing that it did not say", async () => {
      const store = await withNode(await fresh());
      const unknown = { last_seen_ms: undefined, cordon_reason: undefined, hostname: undefined, mgmt_addr: undefined };
      expect(await store.node(NODE)).toEqual({
        node_id: NODE,
        joined_ms: 2_000,
        ...unknown,
        agent_version: undefined,
        machine: undefined,
        cordoned: false,
        draining: false,
        summary: undefined,
        problems: undefined,
        have: {},
      });
    });

    test("are listed by name, each with what it said, its flags and the summaries of its reports", async () => {
      const store = await withNode(await withNode(await fresh(), "b"), "a");
      await store.saveWords("a", { hostname: "a.example", mgmt_addr: "192.0.2.1", agent_version: "1.2.3", machine: undefined }, 7_000);
      await store.setCordon("b", { cordoned: true, draining: true, reason: "moves" });
      await store.saveReport("a", inventory(4));
      await store.saveReport("a", { part: "findings", stored: { revision: 2, hash: "f" }, body: "[]", problems: PROBLEMS });
      const [a, b] = await store.nodes();
      expect(a).toMatchObject({ node_id: "a", hostname: "a.example", mgmt_addr: "192.0.2.1", agent_version: "1.2.3", last_seen_ms: 7_000 });
      expect(a).toMatchObject({ summary: SUMMARY, problems: PROBLEMS });
      expect(a?.have).toEqual({ inventory: { revision: 4, hash: "h4" }, findings: { revision: 2, hash: "f" } });
      expect(b).toMatchObject({ node_id: "b", cordoned: true, draining: true, cordon_reason: "moves", have: {} });
      expect(await store.node("a")).toEqual(a);
    });

    test("are seen later and never earlier, and one that is gone is skipped", async () => {
      const store = await withNode(await fresh());
      await store.touch(
        new Map([
          [NODE, 1_764_000_000_000],
          ["gone", 5],
        ]),
      );
      await store.touch(new Map([[NODE, 5_000]]));
      expect((await store.node(NODE))?.last_seen_ms).toBe(1_764_000_000_000);
      expect(await store.nodes()).toHaveLength(1);
    });

    test("words of one that is gone are not kept", async () => {
      const store = await fresh();
      const words = { hostname: undefined, mgmt_addr: undefined, agent_version: "1", machine: undefined };
      expect(await store.saveWords("gone", words, 1)).toBe(false);
    });
  });

  describe(`${name}: reports`, () => {
    test("a revision that is not later changes nothing", async () => {
      const store = await withNode(await fresh());
      expect(await store.saveReport(NODE, inventory(5, '{"n":5}'))).toBe("saved");
      expect(await store.saveReport(NODE, inventory(5, '{"n":6}'))).toBe("stale");
      expect(await store.saveReport(NODE, inventory(4, '{"n":4}'))).toBe("stale");
      expect(await store.report(NODE, "inventory")).toEqual({ stored: { revision: 5, hash: "h5" }, body: '{"n":5}' });
      expect(await store.saveReport(NODE, inventory(6, '{"n":6}'))).toBe("saved");
      expect((await store.node(NODE))?.have.inventory).toEqual({ revision: 6, hash: "h6" });
    });

    test("many at once leave the latest", async () => {
      const store = await withNode(await fresh());
      await Promise.all([3, 1, 7, 2, 6, 5, 4].map((revision) => store.saveReport(NODE, inventory(revision))));
      expect((await store.report(NODE, "inventory"))?.stored.revision).toBe(7);
    });

    test("of a node that is gone is not kept", async () => {
      expect(await (await fresh()).saveReport("gone", inventory(1))).toBe("gone");
    });

    test("any text comes back as it was", async () => {
      const store = await withNode(await fresh());
      const body = JSON.stringify({ text: "'; DROP TABLE nodes; -- \u{1f980} \\ \" \u2028", long: "x".repeat(300_000) });
      await store.saveReport(NODE, inventory(1, body));
      expect((await store.report(NODE, "inventory"))?.body).toBe(body);
    });
  });

  describe(`${name}: operators and events`, () => {
    test("an operator is found by the secret until removed", async () => {
      const store = await fresh();
      const admin = { operator_id: "o1", name: "Ada", role: "admin", created_ms: 1 } as const;
      const viewer = { operator_id: "o2", name: "Bob", role: "viewer", created_ms: 2 } as const;
      await store.addOperator(viewer, "s2");
      await store.addOperator(admin, "s1");
      expect(await store.operatorOf("s1")).toEqual(admin);
      expect(await store.operatorOf("s3")).toBeUndefined();
      expect(await store.operators()).toEqual([admin, viewer]);
      expect(await store.removeOperator("o1")).toBe(true);
      expect(await store.removeOperator("o1")).toBe(false);
      expect(await store.operatorOf("s1")).toBeUndefined();
    });

    test("two of one id, or of one secret, are an error and change nothing", async () => {
      const store = await fresh();
      await store.addToken(TOKEN, "s1");
      await expect(store.addToken({ ...TOKEN, created_by: "b" }, "s2")).rejects.toThrow();
      await store.addToken({ ...TOKEN, token_id: "t2" }, "s3");
      await expect(store.addToken({ ...TOKEN, token_id: "t3" }, "s3")).rejects.toThrow();
      expect((await store.tokens()).map((token) => token.created_by)).toEqual(["admin", "admin"]);
    });

    test("events are listed newest first, of one node or of all", async () => {
      const store = await fresh();
      const event = (at_ms: number, node_id?: string) => ({ at_ms, node_id, message: "node joined", detail: undefined });
      for (const [at, node] of [
        [1, "a"],
        [1, "b"],
        [3, undefined],
        [2, "a"],
      ] as const)
        await store.addEvent(event(at, node));
      expect((await store.events(3)).map(({ at_ms, node_id }) => [at_ms, node_id])).toEqual([
        [2, "a"],
        [3, undefined],
        [1, "b"],
      ]);
      expect(await store.events(10, "a")).toEqual([event(2, "a"), event(1, "a")]);
    });

    test("events said at once are all kept", async () => {
      const store = await fresh();
      await Promise.all(
        Array.from({ length: 20 }, (_, at) => store.addEvent({ at_ms: at, node_id: undefined, message: "x", detail: `${at}` })),
      );
      expect(new Set((await store.events(100)).map((event) => event.detail)).size).toBe(20);
    });
  });

  if (given.reopen === undefined) return;
  const reopen = given.reopen;
  test(`${name}: everything is there after it was closed and opened again, and the cluster is the same`, async () => {
    const store = await withNode(await fresh());
    await store.saveReport(NODE, inventory(2, '{"n":2}'));
    await store.addOperator({ operator_id: "o1", name: "Ada", role: "admin", created_ms: 1 }, "s1");
    await store.addEvent({ at_ms: 1, node_id: NODE, message: "node joined", detail: undefined });
    const before = [await store.nodes(), await store.tokens(), await store.operators(), await store.events(5), await store.clusterId()];
    await store.close();
    const again = await reopen(store);
    expect([await again.nodes(), await again.tokens(), await again.operators(), await again.events(5), await again.clusterId()]).toEqual(
      before,
    );
    expect((await again.report(NODE, "inventory"))?.body).toBe('{"n":2}');
  });
}
