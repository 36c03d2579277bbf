import { expect, test } from "bun:test";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cardsFile, readKnownCards, rememberCards } from "../../src/agent/known-cards.ts";
import { createLog } from "../../src/lib/log.ts";
import { temporaryFolder } from "../support/folders.ts";
import { inventoryOf } from "../support/machines.ts";
import { logLines } from "../support/wire.ts";

const lines = logLines();
const log = createLog({ level: "debug", write: (line) => lines.lines.push(line), now: () => new Date(0) });
const whole = await inventoryOf("h100-nvswitch-8");

test("cards are added and never dropped, and a day changes the file once", async () => {
  using folder = temporaryFolder();
  const file = cardsFile(folder.path);
  expect(await readKnownCards(file)).toBeUndefined();
  await rememberCards(file, whole, new Date("2026-12-01T10:00:00Z"), log);
  const first = readFileSync(file, "utf8");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  await rememberCards(file, whole, new Date("2026-12-01T11:00:00Z"), log);
  expect(readFileSync(file, "utf8")).toBe(first);
  await rememberCards(file, { ...whole, gpus: whole.gpus.slice(1) }, new Date("2026-12-02T11:00:00Z"), log);
  const known = await readKnownCards(file);
  expect(known?.cards.map((card) => card.last_seen_at.slice(0, 10))).toEqual([
    "2026-12-01",
    ...Array.from({ length: 7 }, () => "2026-12-02"),
  ]);
});

test("a file that is damaged misses no card, and a folder that cannot be written is told", async () => {
  using folder = temporaryFolder();
  writeFileSync(cardsFile(folder.path), "{");
  expect(await readKnownCards(cardsFile(folder.path))).toBeUndefined();
  await rememberCards(join(folder.path, "none/cards.json"), whole, new Date(0), log);
  expect(lines.count("the cards could not be written down")).toBe(1);
});
