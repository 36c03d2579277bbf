/** Whole machines with one damaged answer: a report with warnings, never a crash, never a value that no answer holds. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import * as v from "valibot";
import { discover } from "../../src/discovery/discover.ts";
import { discoverOptions } from "../../src/discovery/options.ts";
import { Inventory } from "../../src/domain/inventory.ts";
import { openMachine } from "../../src/platform/machine.ts";
import type { ExecResult, Runner } from "../../src/platform/runner.ts";
import { inventoryOf } from "../support/machines.ts";

const FAKES = join(import.meta.dir, "../../fakes/machines");
const names = readdirSync(FAKES).filter((name) => existsSync(join(FAKES, name, "q-x.xml")));

type Damage = (text: string) => string;

/** Cut anywhere, one character changed anywhere, or one line taken out. */
const anyDamage: fc.Arbitrary<Damage> = fc.oneof(
  fc.double({ min: 0, max: 1, noNaN: true }).map(
    (at): Damage =>
      (text) =>
        text.slice(0, Math.floor(at * text.length)),
  ),
  fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 255 })).map(
    ([at, code]): Damage =>
      (text) => {
        const place = Math.floor(at * (text.length - 1));
        return text.slice(0, place) + String.fromCharCode(code) + text.slice(place + 1);
      },
  ),
  fc.double({ min: 0, max: 1, noNaN: true }).map(
    (at): Damage =>
      (text) => {
        const lines = text.split("\n");
        return lines.toSpliced(Math.floor(at * lines.length), 1).join("\n");
      },
  ),
);

function damaging(inner: Runner, which: string, damage: Damage): Runner {
  return {
    ...inner,
    exec: async (argv, options): Promise<ExecResult | undefined> => {
      const result = await inner.exec(argv, options);
      return result === undefined || argv[1] !== which ? result : { ...result, stdout: damage(result.stdout) };
    },
  };
}

/** `nvml: false` leaves out the snapshot that some machines have, so that all numbers are the text's. */
async function inventoryWith(name: string, which: string, damage: Damage, nvml?: false): Promise<Inventory> {
  const runner = damaging(await openMachine(name, { waits: "skip" }), which, damage);
  const { options } = await discoverOptions(runner, { gpus: "only", nvml }, {});
  return discover(runner, options);
}

test("one damaged answer of any machine gives a report that fits the schema", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), fc.constantFrom("-L", "-q", "topo", "-N"), anyDamage, async (name, which, damage) => {
      const inventory = await inventoryWith(name, which, damage);
      expect(v.safeParse(Inventory, inventory).issues).toBeUndefined();
      const indexes = inventory.gpus.map((gpu) => gpu.index);
      expect(new Set(indexes).size).toBe(indexes.length);
    }),
    { numRuns: 300 },
  );
});

test("a damaged -q -x never invents a number: every memory, pid and temperature stands in the damaged text", async () => {
  const texts = new Map(names.map((name) => [name, readFileSync(join(FAKES, name, "q-x.xml"), "utf8")]));
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), anyDamage, async (name, damage) => {
      const text = damage(texts.get(name) ?? "");
      const inventory = await inventoryWith(name, "-q", () => text, false);
      const numbers = inventory.gpus.flatMap((gpu) => [
        gpu.memory_total_mb,
        gpu.memory_used_mb,
        gpu.temperature_c,
        ...(gpu.processes ?? []).flatMap((process) => [process.pid, process.memory_mb]),
      ]);
      for (const number of numbers) if (number !== undefined) expect(text).toContain(String(number));
    }),
    { numRuns: 200 },
  );
});

test("a cut -q -x never calls a card healthy of which it says nothing any more", async () => {
  const whole = await inventoryOf("h100-nvswitch-8");
  await fc.assert(
    fc.asyncProperty(fc.double({ min: 0, max: 0.98, noNaN: true }), async (at) => {
      const inventory = await inventoryWith("h100-nvswitch-8", "-q", (text) => text.slice(0, Math.floor(at * text.length)));
      expect(inventory.warnings.length).toBeGreaterThan(0);
      expect(inventory.gpus.length + inventory.unusable_cards.length).toBe(whole.gpus.length);
      for (const gpu of inventory.gpus) if (gpu.memory_total_mb === undefined) expect(gpu.health.ok).toBe(false);
    }),
    { numRuns: 60 },
  );
});
