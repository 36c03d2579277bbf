/** Every fake machine's inventory and doctor's findings, as text and as JSON, kept in test/golden/. UPDATE_GOLDEN=1 rewrites; the diff is read like code. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";

import { renderDoctor } from "../src/cli/render-doctor.ts";
import { renderInventory } from "../src/cli/render-inventory.ts";
import { migModes } from "../src/doctor/cards.ts";
import { DoctorReport, reportOf } from "../src/domain/finding.ts";
import { Inventory } from "../src/domain/inventory.ts";
import { findingsOf, inventoryOf } from "./support/machines.ts";

const FAKES = join(import.meta.dir, "../fakes/machines");
const GOLDEN = join(import.meta.dir, "golden");
const update = process.env.UPDATE_GOLDEN === "1";

const machines = readdirSync(FAKES)
  .filter((name) => existsSync(join(FAKES, name, "machine.yaml")))
  .sort();

function compare(machine: string, name: string, text: string): void {
  const file = join(GOLDEN, machine, name);
  if (update) {
    mkdirSync(join(GOLDEN, machine), { recursive: true });
    writeFileSync(file, text);
  }
  expect(text).toBe(existsSync(file) ? readFileSync(file, "utf8") : "");
}

for (const machine of machines) {
  test(`${machine}: the inventory is the golden one, and fits its schema`, async () => {
    const inventory = await inventoryOf(machine);
    expect(v.safeParse(Inventory, inventory).issues).toBeUndefined();
    compare(machine, "inventory.json", `${JSON.stringify(inventory, undefined, 2)}\n`);
    compare(machine, "inventory.txt", `${renderInventory(inventory, { color: false, gpus: "all" })}\n`);
  });
}

for (const machine of machines) {
  test(`${machine}: doctor's findings are the golden ones, and fit their schema`, async () => {
    const { facts, findings } = await findingsOf(machine);
    expect(v.safeParse(DoctorReport, reportOf(findings)).issues).toBeUndefined();
    compare(machine, "doctor.json", `${JSON.stringify(reportOf(findings), undefined, 2)}\n`);
    compare(machine, "doctor.txt", `${renderDoctor(facts.inventory, findings, { color: false, migModes: migModes(facts) })}\n`);
  });
}

test("there is a golden folder for each machine and no other", () => {
  expect(readdirSync(GOLDEN).sort()).toEqual(machines);
});

test("golden files are never rewritten where a change is checked", () => {
  expect(process.env.CI === "true" && update).toBe(false);
});
