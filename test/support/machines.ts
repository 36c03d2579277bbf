/** Fake machines in tests: their inventory without their waiting times. */
import { discoverOptions } from "../../src/cli/inventory-options.ts";
import { discover } from "../../src/discovery/discover.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import { openMachine } from "../../src/platform/machine.ts";

/** What `llmgw inventory --machine NAME` finds. */
export async function inventoryOf(nameOrFolder: string): Promise<Inventory> {
  const runner = await openMachine(nameOrFolder, { waits: "skip" });
  const { options, warnings } = await discoverOptions(runner, {}, {});
  const inventory = await discover(runner, options);
  return { ...inventory, warnings: [...warnings, ...inventory.warnings] };
}
