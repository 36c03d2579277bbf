/** Cards from NVML: the same as from text, and what happens where the two differ or one fails. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { CardDescription, NodeDescription } from "../../fakes/compose/description.ts";
import { MACHINES } from "../../fakes/compose/machines.ts";
import { A100_80, card, H100, instances } from "../../fakes/compose/parts.ts";
import { discover } from "../../src/discovery/discover.ts";
import { readSnapshot } from "../../src/discovery/nvml.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import type { NvmlCard, NvmlFabric } from "../../src/platform/nvml-snapshot.ts";
import { RunnerError } from "../../src/platform/runner.ts";
import { composedRunner } from "../support/composed-runner.ts";
import { carved, h100, migDevice, snapshotWith } from "../support/nvml-snapshots.ts";

/**
 * Keys that only one source can know, and why. Everything else must be equal.
 * - `source`: says which one it was.
 * - `warnings`: text adds the tool's own words about what it could not print.
 * - `unusable_cards[]` of a card without a handle: NVML has its index, nvidia-smi's sentence its bus id, each its own reason; the order
 *   follows the index.
 * - `gpus[].compute_capability`: NVML has the driver's; text has it from the product name, where that is known.
 */
function comparable(inventory: Inventory): unknown {
  const { source: _source, warnings: _warnings, unusable_cards, gpus, ...rest } = inventory;
  return {
    ...rest,
    gpus: gpus.map(({ compute_capability: _capability, ...gpu }) => gpu),
    unusable_cards: unusable_cards.map(({ index, uuid, name }) => (uuid === undefined ? "no handle" : `${index} ${uuid} ${name}`)).sort(),
  };
}

const ONLY_GPUS = { modelDirs: [], gpus: "only" } as const;

async function both(node: NodeDescription): Promise<{ readonly nvml: Inventory; readonly text: Inventory; readonly compared: Inventory }> {
  const [nvml, text, compared] = await Promise.all([
    discover(composedRunner(node), ONLY_GPUS),
    discover(composedRunner(node), { ...ONLY_GPUS, nvml: "no" }),
    discover(composedRunner(node), { ...ONLY_GPUS, bothSources: true }),
  ]);
  return { nvml, text, compared };
}

describe("NVML and nvidia-smi say the same", () => {
  // A machine whose tools fail has no second source.
  const machines = MACHINES.filter((machine) => machine.driver !== undefined && machine.answers === undefined);

  test.each(machines.map((machine) => machine.name))("%s", async (name) => {
    const machine = machines.find((candidate) => candidate.name === name);
    if (machine === undefined) throw new Error(name);
    const { nvml, text, compared } = await both(machine);
    expect([nvml.source, text.source]).toEqual(["nvml", "nvidia-smi"]);
    expect(comparable(nvml)).toEqual(comparable(text));
    expect(comparable(compared)).toEqual(comparable(nvml));
    for (const [at, gpu] of text.gpus.entries()) {
      if (gpu.compute_capability !== undefined) expect(nvml.gpus[at]?.compute_capability).toBe(gpu.compute_capability);
    }
  });

  const profiles = [
    ["1g.10gb", 9_856, 14],
    ["1g.10gb+me", 9_856, 14],
    ["2g.20gb", 19_968, 28],
    ["1c.3g.40gb", 40_192, 14],
  ] as const;

  const anyCard = fc.record({
    usedMb: fc.integer({ min: 0, max: 60_000 }),
    temperatureC: fc.integer({ min: 15, max: 95 }),
    powerW: fc.integer({ min: 0, max: 70_000 }).map((hundredths) => hundredths / 100),
    utilizationPct: fc.integer({ min: 0, max: 100 }),
    uncorrectable: fc.integer({ min: 0, max: 3 }),
    remapPending: fc.boolean(),
    hwThermal: fc.boolean(),
    lost: fc.integer({ min: 0, max: 9 }).map((chance) => chance === 0),
    inMig: fc.boolean(),
    pending: fc.boolean(),
    devices: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { maxLength: 5 }),
    profile: fc.constantFrom(...profiles),
    processes: fc.uniqueArray(fc.integer({ min: 2, max: 4_000_000 }), { maxLength: 3 }),
  });

  function describeCard(any: typeof anyCard extends fc.Arbitrary<infer T> ? T : never, n: number, large: boolean): CardDescription {
    const [profile, memoryMb, sms] = any.profile;
    const carvedOut = instances(
      99,
      n,
      any.devices.map((device, at) => [device, profile, at + 1, 0, memoryMb, sms]),
    );
    const mig = {
      current: any.inMig ? ("Enabled" as const) : ("Disabled" as const),
      pending: any.pending === any.inMig ? ("Enabled" as const) : ("Disabled" as const),
      instances: any.inMig ? carvedOut : [],
    };
    const first = any.inMig && any.devices.length > 0 ? { gpuInstanceId: 1, computeInstanceId: 0 } : {};
    return card(99, n, large ? H100 : A100_80, {
      usedMb: any.usedMb,
      temperatureC: any.temperatureC,
      powerW: any.powerW,
      utilizationPct: any.utilizationPct,
      ecc: { volatileUncorrectable: any.uncorrectable, aggregateUncorrectable: any.uncorrectable + 4 },
      remapPending: any.remapPending,
      hwThermal: any.hwThermal,
      mig,
      processes: any.processes.map((pid) => ({ pid, name: `/usr/bin/p${pid}`, type: "C", memoryMb: pid % 5_000, ...first })),
      ...(any.lost ? { lost: true } : {}),
    });
  }

  test("whatever the cards, their instances and their links", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyCard, { minLength: 1, maxLength: 8 }),
        fc.constantFrom("450.80.02", "510.47.03", "535.161.08", "550.127.08", "580.95.05"),
        fc.constantFrom(0, 4, 12, 18),
        fc.boolean(),
        async (any, version, links, large) => {
          const cards = any.map((one, n) => describeCard(one, n, large));
          fc.pre(cards.some((one) => one.lost !== true));
          const node: NodeDescription = {
            name: "any",
            about: "any",
            hostname: "any",
            memoryMb: 1,
            driver: { version, cuda: "12.4" },
            cards,
            adapters: [],
            // Four links to each other card in a mesh is more than a card has once there are many: then they go through switches.
            nvlinks: (a, b) => (a === b ? 0 : links),
          };
          const { nvml, text, compared } = await both(node);
          expect(comparable(nvml)).toEqual(comparable(text));
          expect(comparable(compared)).toEqual(comparable(nvml));
        },
      ),
      { numRuns: 150 },
    );
  });
});

const node: NodeDescription = {
  name: "two",
  about: "two",
  hostname: "two",
  memoryMb: 1,
  driver: { version: "580.95.05", cuda: "13.0" },
  cards: [
    card(98, 0, H100),
    card(98, 1, H100, { mig: { current: "Enabled", pending: "Enabled", instances: instances(98, 1, [[2, "1g.10gb", 9, 0, 9_856, 14]]) } }),
  ],
  adapters: [],
};

function changed(card: Partial<NvmlCard>) {
  return composedRunner(node, { nvml: (snapshot) => ({ ...snapshot, cards: snapshot.cards.map((one) => ({ ...one, ...card })) }) });
}

describe("asking", () => {
  test("with NVML only topo -m is run beside it; without, all three", async () => {
    const commands: string[] = [];
    const onExec = (argv: readonly string[]): void => {
      commands.push(argv.slice(1).join(" "));
    };
    await discover(composedRunner(node, { onExec }), { ...ONLY_GPUS });
    expect(commands).toContain("topo -m");
    expect(commands).not.toContain("-q -x");
    commands.length = 0;
    await discover(composedRunner(node, { onExec, nvml: () => undefined }), { ...ONLY_GPUS });
    expect(commands.filter((command) => ["-L", "-q -x", "topo -m"].includes(command)).sort()).toEqual(["-L", "-q -x", "topo -m"]);
  });

  test("no library is no warning, unless somebody asked for it", async () => {
    const quiet = await discover(composedRunner(node, { nvml: () => undefined }), ONLY_GPUS);
    expect([quiet.source, quiet.warnings]).toEqual(["nvidia-smi", []]);
    const wanted = await discover(composedRunner(node, { nvml: () => undefined }), { ...ONLY_GPUS, nvml: "wanted" });
    expect(wanted.warnings).toEqual(["NVML is not used: there is no NVML library on this node"]);
  });

  test("a library that fails costs one warning that says why, and nvidia-smi answers", async () => {
    const error = new RunnerError("timeout", "NVML did not answer within 10 s");
    const inventory = await discover(composedRunner(node, { nvml: error }), ONLY_GPUS);
    expect(inventory.source).toBe("nvidia-smi");
    expect(inventory.warnings).toEqual(["NVML is not used: NVML did not answer within 10 s"]);
    expect(inventory.gpus.map((gpu) => gpu.label)).toEqual(["0", "1/mig2"]);
  });

  test("a library that counts no card leaves the word to nvidia-smi", async () => {
    const inventory = await discover(composedRunner(node, { nvml: (snapshot) => ({ ...snapshot, cards: [] }) }), ONLY_GPUS);
    expect([inventory.source, inventory.gpus.length]).toEqual(["nvidia-smi", 2]);
  });
});

describe("where NVML and nvidia-smi disagree, the device is a problem", () => {
  const compare = { ...ONLY_GPUS, bothSources: true };

  test("on a UUID", async () => {
    const { gpus } = await discover(changed({ uuid: "GPU-c0de0000-0000-4000-8000-00000000beef" }), compare);
    expect(gpus[0]?.health.ok).toBe(false);
    expect(gpus[0]?.health.problems.join()).toContain("disagree on its UUID: GPU-c0de0000-0000-4000-8000-00000000beef and ");
  });

  test("on an instance's ids, and on nothing else of that card", async () => {
    const runner = composedRunner(node, {
      nvml: (snapshot) => ({
        ...snapshot,
        cards: snapshot.cards.map((one) => ({
          ...one,
          ...(one.mig_devices === undefined ? {} : { mig_devices: one.mig_devices.map((device) => ({ ...device, gpu_instance_id: 11 })) }),
        })),
      }),
    });
    const { gpus } = await discover(runner, compare);
    expect(gpus.map((gpu) => [gpu.label, gpu.health.ok])).toEqual([
      ["0", true],
      ["1/mig2", false],
    ]);
    expect(gpus[1]?.health.problems).toEqual(["NVML and nvidia-smi disagree on its GPU instance: 11 and 9"]);
  });

  test("on which instances there are", async () => {
    const runner = composedRunner(node, {
      nvml: (snapshot) => ({
        ...snapshot,
        cards: snapshot.cards.map((one) => ({
          ...one,
          ...(one.mig_devices === undefined ? {} : { mig_devices: one.mig_devices.map((device) => ({ ...device, slot: 4 })) }),
        })),
      }),
    });
    const { gpus } = await discover(runner, compare);
    expect(gpus.map((gpu) => [gpu.label, ...gpu.health.problems])).toEqual([
      ["0"],
      ["1/mig2", "nvidia-smi shows this device and NVML does not"],
      ["1/mig4", "NVML shows this device and nvidia-smi does not"],
    ]);
  });
});

describe("a snapshot in records", () => {
  test("a card without a handle is named with why, a card lost midway keeps its name", () => {
    const error = { symbol: "nvmlDeviceGetHandleByIndex_v2", code: 4, word: "insufficient permissions" };
    const { uuid, name, pci_bus_id = "" } = h100(1);
    const lost = { symbol: "nvmlDeviceGetTemperature", code: 15, word: "GPU is lost" };
    const records = readSnapshot(
      snapshotWith([
        { index: 0, error },
        { index: 1, uuid, name, pci_bus_id, error: lost },
      ]),
    );
    expect(records.list.inaccessible).toEqual([
      { index: 0, busId: undefined, text: "NVML cannot open card 0: insufficient permissions (4)" },
    ]);
    expect(records.query.cards.map((one) => [one.index, one.uuid, one.lost])).toEqual([[1, uuid, true]]);
  });

  test("a code for a reset or an unknown error becomes the word that nvidia-smi puts in a value's place", () => {
    const [found] = readSnapshot(snapshotWith([h100(0, { codes: { nvmlDeviceGetTemperature: 16, nvmlDeviceGetName: 999 } })])).query.cards;
    expect(found?.errorTexts).toEqual(["GPU requires reset", "Unknown Error"]);
  });

  test("a process that card and instance both name counts once; instances answer where the card refuses", () => {
    const process = { pid: 7, type: "compute", memory_used_bytes: 5 * 2 ** 20 } as const;
    const own = { ...process, gpu_instance_id: 7, compute_instance_id: 0 };
    const device = migDevice(0, 0, { processes: [process] });
    const whole = readSnapshot(snapshotWith([carved(0, [device], { processes: [own] })])).query.cards[0];
    const { processes: _refused, ...refusing } = carved(0, [device]);
    const part = readSnapshot(snapshotWith([refusing])).query.cards[0];
    for (const card of [whole, part]) {
      expect(card?.processes).toEqual([{ pid: 7, name: undefined, memoryMb: 5, gpuInstanceId: 7, computeInstanceId: 0, type: "C" }]);
    }
  });

  const links = (cards: readonly NvmlCard[]) => Object.fromEntries(readSnapshot(snapshotWith(cards)).nvlinks);
  const toSwitch = (count: number) => Array.from({ length: count }, (_, link) => ({ link, active: true, remote_type: "switch" }));

  test("behind a switch every card reaches every other, over the fewer of both links", () => {
    const cards = [h100(0), h100(1, { nvlinks: toSwitch(16) }), h100(2, { nvlinks: [] })];
    expect(links(cards)).toEqual({ "0": { "1": 16 }, "1": { "0": 16 }, "2": {} });
  });

  test("links between cards are counted by the card at the other end; those that are down do not count", () => {
    const to = (busId: string, link: number, active = true) => ({ link, active, remote_type: "gpu", remote_bus_id: busId });
    const a = h100(0, { nvlinks: [to("00000000:11:00.0", 0), to("00000000:11:00.0", 1), to("00000000:12:00.0", 2, false)] });
    const b = h100(1, { nvlinks: [to("0000:10:00.0", 0), to("0000:10:00.0", 1), to("00000000:99:00.0", 2)] });
    expect(links([a, b, h100(2, { nvlinks: [] })])).toEqual({ "0": { "1": 2 }, "1": { "0": 2 }, "2": {} });
  });

  test("a remote end of no known kind that is no visible card is taken for a switch", () => {
    const unknown = Array.from({ length: 4 }, (_, link) => ({ link, active: true }));
    expect(links([h100(0, { nvlinks: unknown }), h100(1, { nvlinks: unknown })])).toEqual({ "0": { "1": 4 }, "1": { "0": 4 } });
  });

  test("cards in different cliques of a fabric do not reach each other", () => {
    const fabric = (clique_id: number): NvmlFabric => ({
      state: "completed",
      status: 0,
      cluster_uuid: "c0de000e-fab0-4000-8000-000000000001",
      clique_id,
    });
    expect(links([h100(0, { fabric: fabric(1) }), h100(1, { fabric: fabric(2) }), h100(2, { fabric: fabric(2) })])).toEqual({
      "0": {},
      "1": { "2": 18 },
      "2": { "1": 18 },
    });
  });

  test("a card whose links could not be read is missing, so that the matrix of topo fills in", () => {
    const { nvlinks: _unknown, ...card } = h100(0);
    expect(readSnapshot(snapshotWith([card])).nvlinks.has(0)).toBe(false);
  });
});
