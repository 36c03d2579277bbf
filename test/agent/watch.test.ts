import { afterEach, expect, test } from "bun:test";
import * as v from "valibot";
import { startWatch, type Watch, type WatchOptions } from "../../src/agent/watch.ts";
import { chosenOptions } from "../../src/discovery/options.ts";
import { AgentConfig } from "../../src/domain/agent-config.ts";
import type { Finding } from "../../src/domain/finding.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import type { LoadSample } from "../../src/domain/load-sample.ts";
import { createLog } from "../../src/lib/log.ts";
import { openMachine } from "../../src/platform/machine.ts";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";
import { createVirtualClock, type VirtualClock } from "../support/virtual-clock.ts";
import { type LogLines, logLines } from "../support/wire.ts";

interface Bench {
  readonly watch: Watch;
  readonly clock: VirtualClock;
  readonly log: LogLines;
  readonly inventories: Inventory[];
  readonly loads: LoadSample[];
  readonly findings: (readonly Finding[])[];
  /** Lets the clock go on until so many looks of a kind were made. */
  more(list: readonly unknown[], count: number): Promise<void>;
}

const running: Watch[] = [];
afterEach(async () => {
  for (const watch of running.splice(0)) await watch.stop();
});

async function bench(
  machine: string,
  spoil: (runner: Runner) => Partial<Runner> = () => ({}),
  more: Partial<WatchOptions> = {},
): Promise<Bench> {
  const recorded = await openMachine(machine, { waits: "skip" });
  const runner = { ...recorded, ...spoil(recorded) };
  const clock = createVirtualClock();
  const log = logLines();
  const [inventories, loads, findings]: [Inventory[], LoadSample[], (readonly Finding[])[]] = [[], [], []];
  const watch = startWatch({
    clock,
    log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date(clock.nowMs()) }),
    runner,
    plan: { config: {}, discover: chosenOptions({}, {}, runner.home, {}).options },
    onInventory: (inventory) => inventories.push(inventory),
    onLoad: (sample) => loads.push(sample),
    onFindings: (found) => findings.push(found),
    ...more,
  });
  running.push(watch);
  return {
    watch,
    clock,
    log,
    inventories,
    loads,
    findings,
    more: async (list, count) => {
      const wanted = list.length + count;
      // A look takes real turns of the event loop, whatever the clock says.
      while (list.length < wanted) {
        await new Promise((resolve) => setImmediate(resolve));
        if (list.length < wanted && clock.nextMs() !== undefined) await clock.advance(Math.max(0, (clock.nextMs() ?? 0) - clock.nowMs()));
      }
    },
  };
}

test("a node is looked at at once, its load every 15 s through the library, everything else every five minutes", async () => {
  const { clock, inventories, loads, findings, more } = await bench("a100-mig-mixed");
  const start = clock.nowMs();
  await more(loads, 1);
  expect([inventories.length, findings.length, clock.nowMs() - start]).toEqual([1, 1, 0]);
  expect(loads[0]?.devices.length).toBe(inventories[0]?.gpus.length);
  await more(inventories, 1);
  expect(clock.nowMs() - start).toBe(300_000);
  expect([20, 21]).toContain(loads.length);
});

test("without the library the load is looked at every minute, since each call of nvidia-smi costs the host a second", async () => {
  const { clock, loads, more } = await bench("l40s-pcie-4", () => ({ nvml: undefined }) as unknown as Partial<Runner>);
  const start = clock.nowMs();
  await more(loads, 3);
  expect(clock.nowMs() - start).toBe(120_000);
  expect(loads[0]?.devices.every((device) => device.memory_used_mb !== undefined)).toBe(true);
});

test("of an instance the load has its memory only, of a card its errors too", async () => {
  const { inventories, loads, more } = await bench("a100-mig-mixed");
  await more(loads, 1);
  const instance = inventories[0]?.gpus.find((gpu) => gpu.mig !== undefined);
  const card = inventories[0]?.gpus.find((gpu) => gpu.mig === undefined);
  expect(Object.keys(loads[0]?.devices.find((device) => device.uuid === instance?.uuid) ?? {})).toEqual(["uuid", "memory_used_mb"]);
  expect(loads[0]?.devices.find((device) => device.uuid === card?.uuid)).toMatchObject({
    ecc_uncorrectable: 0,
    temperature_c: expect.any(Number),
  });
});

test("a node without cards starts nothing for its load", async () => {
  const asked: string[] = [];
  const { loads, more } = await bench("cpu-only", (runner) => ({
    exec: (argv, options) => {
      asked.push(argv.join(" "));
      return runner.exec(argv, options);
    },
  }));
  await more(loads, 1);
  const before = asked.length;
  await more(loads, 1);
  expect(asked.length).toBe(before);
  expect(loads[1]?.devices).toEqual([]);
});

test("two looks at an unchanged node are the same, in inventory and findings", async () => {
  const { inventories, findings, more } = await bench("ecc-row-remap");
  await more(findings, 3);
  expect(inventories[1]).toEqual(inventories[0] as Inventory);
  expect(findings[2]).toEqual(findings[1] as readonly Finding[]);
});

/** A healthy machine whose nvidia-smi begins to say what another says. */
async function worsening(): Promise<{ readonly exec: Runner["exec"]; worsen(): void }> {
  const [well, ill] = [await openMachine("l40s-pcie-4", { waits: "skip" }), await openMachine("thermal-power-brake", { waits: "skip" })];
  let worse = false;
  return {
    exec: (argv, options) => (worse && argv[0] === "nvidia-smi" ? ill : well).exec(argv, options),
    worsen: () => {
      worse = true;
    },
  };
}

const problemsOf = (findings: readonly Finding[] | undefined) => findings?.filter((finding) => finding.result === "problem") ?? [];

test("a problem that comes up counts when it was seen twice, 20 s apart, with the time at which it was first seen", async () => {
  const { exec, worsen } = await worsening();
  const { clock, findings, more } = await bench("l40s-pcie-4", () => ({ exec }));
  await more(findings, 1);
  worsen();
  await more(findings, 1);
  expect(problemsOf(findings[1]).filter((finding) => finding.id === "gpu-thermal")).toEqual([]);
  const first = clock.nowMs();
  await more(findings, 1);
  expect(clock.nowMs() - first).toBe(20_000);
  const [thermal] = problemsOf(findings[2]).filter((finding) => finding.id === "gpu-thermal");
  expect(thermal).toMatchObject({ since: new Date(first).toISOString(), ms: 0 });
});

test("at the first look what is wrong counts at once: nothing runs yet that a flicker could move", async () => {
  const { findings, more } = await bench("thermal-power-brake");
  await more(findings, 1);
  expect(problemsOf(findings[0]).map((finding) => finding.id)).toContain("gpu-thermal");
});

test("devices that change are looked into with the next load, once", async () => {
  const recorded = await openMachine("h100-card-lost", { waits: "skip" });
  const before = await openMachine("h100-nvswitch-8", { waits: "skip" });
  let lost = false;
  const { clock, inventories, more } = await bench("h100-nvswitch-8", () => ({
    exec: (argv, options) => (lost ? recorded : before).exec(argv, options),
  }));
  await more(inventories, 1);
  const start = clock.nowMs();
  lost = true;
  await more(inventories, 1);
  expect(clock.nowMs() - start).toBeLessThanOrEqual(60_000);
  expect(inventories[1]?.gpus.length).toBeLessThan(8);
});

test("a port that goes down is looked into with the next load", async () => {
  let down = false;
  const { clock, inventories, more } = await bench("h100-nvswitch-8", (runner) => ({
    readFile: async (path, options) =>
      down && path.endsWith("/mlx5_3/ports/1/state") ? new TextEncoder().encode("1: DOWN\n") : runner.readFile(path, options),
  }));
  await more(inventories, 1);
  const start = clock.nowMs();
  down = true;
  await more(inventories, 1);
  expect(clock.nowMs() - start).toBeLessThanOrEqual(60_000);
  expect(inventories[1]?.hcas.find((hca) => hca.name === "mlx5_3")?.ports[0]?.state).toBe("DOWN");
  // Once more for doctor, whose problem must be seen twice, and then in its own time.
  await more(inventories, 2);
  expect(clock.nowMs() - start).toBeGreaterThanOrEqual(300_000);
});

test("asked by the server, doctor says all that it finds now, ok ones too", async () => {
  const { watch, findings, more } = await bench("thermal-power-brake");
  await more(findings, 1);
  const report = await watch.doctor(new AbortController().signal);
  expect(report.findings.some((finding) => finding.result === "ok")).toBe(true);
  expect(report.findings.some((finding) => finding.result === "problem")).toBe(true);
});

test("a look that fails is told once and made again, and what works goes on", async () => {
  let broken = true;
  const { log, inventories, findings, loads, more } = await bench("h100-nvswitch-8", (runner) => ({
    now: () => {
      if (broken) throw new Error("no clock");
      return runner.now();
    },
  }));
  await more(inventories, 2);
  expect(findings).toEqual([]);
  expect(loads.length).toBeGreaterThan(1);
  expect(log.count('looking failed what=doctor problem="no clock"')).toBe(1);
  broken = false;
  await more(findings, 1);
  expect(log.count("looking works again what=doctor")).toBe(1);
});

test("a driver that hangs is in the inventory, and no second round is begun meanwhile", async () => {
  let asking = 0;
  let most = 0;
  const { inventories, more } = await bench("h100-nvswitch-8", (runner) => ({
    nvml: () => Promise.reject(new RunnerError("timeout", "NVML did not answer")),
    exec: async (argv, options) => {
      if (argv[0] !== "nvidia-smi") return runner.exec(argv, options);
      asking++;
      most = Math.max(most, asking);
      await new Promise((resolve) => setImmediate(resolve));
      asking--;
      throw new RunnerError("timeout", `${argv.join(" ")} did not end`);
    },
  }));
  await more(inventories, 1);
  expect(inventories[0]?.source).toBe("unavailable");
  // -L, -q -x and topo -m of one round side by side, and never those of two.
  expect(most).toBeLessThanOrEqual(3);
});

test("a configuration that was read again counts at once", async () => {
  const { watch, inventories, more, clock } = await bench("h100-nvswitch-8");
  await more(inventories, 1);
  const config = v.parse(AgentConfig, { discovery: { skip_gpus: ["0"] } });
  const start = clock.nowMs();
  watch.replan({ config, discover: chosenOptions(config, {}, "/root", {}).options });
  await more(inventories, 1);
  expect(inventories[1]?.gpus.length).toBe(7);
  expect(clock.nowMs() - start).toBeLessThan(60_000);
});

test("stopping ends a look that is under way, and none follows", async () => {
  const { watch, clock, inventories } = await bench("h100-nvswitch-8");
  await watch.stop();
  await clock.advance(300_000);
  expect(inventories.length).toBeLessThanOrEqual(1);
  expect(clock.nextMs()).toBeUndefined();
});
