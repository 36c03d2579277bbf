/** Fake machines in tests: their inventory without their waiting times. */

import { discover } from "../../src/discovery/discover.ts";
import { discoverOptions } from "../../src/discovery/options.ts";
import { runChecks } from "../../src/doctor/check.ts";
import { CHECKS } from "../../src/doctor/checks.ts";
import { collectFacts, collectOptions } from "../../src/doctor/collect.ts";
import type { Facts } from "../../src/doctor/facts.ts";
import { waiversOf } from "../../src/domain/agent-config.ts";
import type { Finding } from "../../src/domain/finding.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import { openMachine } from "../../src/platform/machine.ts";

/** What `llmgw inventory --machine NAME` finds. */
export async function inventoryOf(nameOrFolder: string): Promise<Inventory> {
  const runner = await openMachine(nameOrFolder, { waits: "skip" });
  const { options, warnings } = await discoverOptions(runner, {}, {});
  const inventory = await discover(runner, options);
  return { ...inventory, warnings: [...warnings, ...inventory.warnings] };
}

/** What doctor collects of a machine. */
export async function factsOf(nameOrFolder: string): Promise<Facts> {
  const runner = await openMachine(nameOrFolder, { waits: "skip" });
  return collectFacts(runner, await collectOptions(runner, {}));
}

/** What `llmgw doctor --machine NAME` finds, every check taking no time. */
export async function findingsOf(nameOrFolder: string): Promise<{ readonly facts: Facts; readonly findings: readonly Finding[] }> {
  const facts = await factsOf(nameOrFolder);
  return { facts, findings: runChecks(CHECKS, facts, { waivers: waiversOf(facts.config) }) };
}
