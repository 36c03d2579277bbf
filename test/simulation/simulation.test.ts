import { expect, test } from "bun:test";
import type { SaveReport, Store } from "../../src/server/store/store.ts";
import { playWorld } from "./world.ts";

/** As many as fit into half a minute beside other tests; `bun test/simulation/run.ts --seeds 1-100000` for a long run. */
const SEEDS = 3_000;
const SHARDS = 6;

/** Seeds that broke something once, each with what it found. */
const REMEMBERED: readonly number[] = [];

async function brokenSeeds(seeds: Iterable<number>): Promise<readonly string[]> {
  const broken: string[] = [];
  for (const seed of seeds) {
    const verdict = await playWorld({ seed });
    if (verdict.broken.length > 0) broken.push(`${verdict.broken.join("; ")} (replay: bun test/simulation/run.ts --seed ${seed})`);
  }
  return broken;
}

function* seedsOf(shard: number): Iterable<number> {
  for (let seed = 1 + shard; seed <= SEEDS; seed += SHARDS) yield seed;
}

for (let shard = 0; shard < SHARDS; shard++) {
  test(`the server's view becomes the truth when faults stop, part ${shard + 1} of ${SHARDS}`, async () => {
    expect(await brokenSeeds(seedsOf(shard))).toEqual([]);
  }, 60_000);
}

test("seeds that found something stay well", async () => {
  expect(await brokenSeeds(REMEMBERED)).toEqual([]);
});

test("the same seed plays the same world", async () => {
  const played = await Promise.all([playAgain(), playAgain()]);
  expect(played[0]).toEqual(played[1]);
  expect(played[0]?.length).toBeGreaterThan(50);
});

async function playAgain(): Promise<readonly string[]> {
  const lines: string[] = [];
  await playWorld({ seed: 7, tell: (line) => lines.push(line) });
  return lines;
}

/** A check that cannot fail proves nothing: each fault that is built in must be seen within a few seeds. */
const SPOILED: Readonly<Record<string, (store: Store) => Store>> = {
  "says that it saved and did not": (store) => withSave(store, async () => "saved"),
  "keeps only the first report": (store) =>
    withSave(store, async (nodeId, report) =>
      (await store.report(nodeId, report.part)) === undefined ? store.saveReport(nodeId, report) : "stale",
    ),
};

function withSave(store: Store, saveReport: (nodeId: string, report: SaveReport) => Promise<"saved" | "stale" | "gone">): Store {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === "saveReport") return saveReport;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

for (const [name, spoil] of Object.entries(SPOILED)) {
  test(`a store that ${name} is noticed`, async () => {
    const verdicts = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((seed) => playWorld({ seed, spoil })));
    expect(verdicts.some((verdict) => verdict.broken.length > 0)).toBe(true);
  });
}
