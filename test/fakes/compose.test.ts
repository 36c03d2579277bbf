import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { MACHINES_FOLDER, staleFiles, walk } from "../../fakes/compose/compose.ts";
import { MACHINES } from "../../fakes/compose/machines.ts";
import { A100_80, adapter, card, instances } from "../../fakes/compose/parts.ts";
import { renderList } from "../../fakes/compose/render-list.ts";
import { renderMachine } from "../../fakes/compose/render-machine.ts";
import { renderQuery } from "../../fakes/compose/render-query.ts";
import { renderTopology } from "../../fakes/compose/render-topology.ts";
import { parseList } from "../../src/discovery/nvidia-smi/list.ts";
import { parseQuery } from "../../src/discovery/nvidia-smi/query.ts";
import { parseTopology } from "../../src/discovery/nvidia-smi/topology.ts";
import { checkYaml } from "../../src/lib/schema-error.ts";
import { MachineFile } from "../../src/platform/machine-file.ts";

const folders = readdirSync(MACHINES_FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
  .sort();

for (const machine of MACHINES) {
  test(`${machine.name} is what its description says (bun fakes/compose/compose.ts rewrites it)`, () => {
    expect(staleFiles(machine.name, renderMachine(machine))).toEqual([]);
  });
}

test.each(folders)("%s: machine.yaml fits, and every file beside it is named in it", (name) => {
  const folder = join(MACHINES_FOLDER, name);
  const checked = checkYaml(MachineFile, readFileSync(join(folder, "machine.yaml"), "utf8"));
  if (checked.kind !== "ok") throw new Error(JSON.stringify(checked.misfits));
  const named = (checked.value.commands ?? []).flatMap((command) => [command.stdout, command.stderr]).filter((file) => file !== undefined);
  expect(named.filter((file) => !existsSync(join(folder, file)))).toEqual([]);
  const beside = walk(folder, "").filter((file) => !file.startsWith("root/") && file !== "machine.yaml" && file !== "nvml.json");
  expect(beside.sort()).toEqual([...new Set(named)].sort());
});

test("a composed folder without a description is a leftover", () => {
  const composed = folders.filter((name) => readFileSync(join(MACHINES_FOLDER, name, "machine.yaml"), "utf8").includes("source: composed"));
  expect(composed).toEqual(MACHINES.map((machine) => machine.name).sort());
});

test("machines/README.md lists every machine", () => {
  const text = readFileSync(join(MACHINES_FOLDER, "README.md"), "utf8");
  expect(folders.filter((name) => !text.includes(`[${name}](${name}/machine.yaml)`))).toEqual([]);
});

const profiles = [
  ["1g.10gb", 9_856, 14],
  ["1g.10gb+me", 9_856, 14],
  ["2g.20gb", 19_968, 28],
  ["1c.3g.40gb", 40_192, 14],
] as const;

/** A random card: whole, or carved with holes in the indexes. */
const anyCard = fc
  .record({
    usedMb: fc.integer({ min: 0, max: 60_000 }),
    temperatureC: fc.integer({ min: 15, max: 95 }),
    devices: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { maxLength: 5 }),
    profile: fc.constantFrom(...profiles),
  })
  .map(({ usedMb, temperatureC, devices, profile }, n = 0) => ({ usedMb, temperatureC, devices, profile, n }));

test("whatever the cards and their instances: rendered as text and parsed again, nothing is lost and nothing is added", () => {
  fc.assert(
    fc.property(
      fc.array(anyCard, { minLength: 1, maxLength: 8 }),
      fc.constantFrom("510.47.03", "535.161.08", "550.127.08", "580.95.05"),
      (described, version) => {
        const cards = described.map(({ usedMb, temperatureC, devices, profile }, n) =>
          card(99, n, A100_80, {
            usedMb,
            temperatureC,
            ...(devices.length === 0
              ? {}
              : {
                  mig: {
                    current: "Enabled" as const,
                    pending: "Enabled" as const,
                    instances: instances(
                      99,
                      n,
                      devices.map((device, at) => [device, profile[0], at + 1, 0, profile[1], profile[2]]),
                    ),
                  },
                }),
          }),
        );
        const node = {
          name: "any",
          about: "any",
          hostname: "any",
          memoryMb: 1,
          cards,
          adapters: [],
          nvlinks: (a: number, b: number) => (a === b ? 0 : 12),
        };
        const list = parseList(renderList(cards));
        const query = parseQuery(renderQuery(node, { version, cuda: "12.4" }));
        const topology = parseTopology(renderTopology(node));
        expect([...list.warnings, ...query.warnings, ...topology.warnings]).toEqual([]);
        expect(list.cards.map((one) => one.uuid)).toEqual(cards.map((one) => one.uuid));
        expect(list.cards.map((one) => one.instances.map(({ device, profile, uuid }) => ({ device, profile, uuid })))).toEqual(
          cards.map((one) => (one.mig?.instances ?? []).map(({ device, profile, uuid }) => ({ device, profile, uuid }))),
        );
        expect(query.driverVersion).toBe(version);
        expect(query.cards.map((one) => [one.uuid, one.memoryTotalMb, one.memoryUsedMb, one.temperatureC])).toEqual(
          cards.map((one) => [one.uuid, one.memoryMb, one.usedMb, one.temperatureC]),
        );
        expect(
          query.cards.map((one) =>
            one.migDevices.map((device) => [device.index, device.gpuInstanceId, device.memoryTotalMb, device.smCount]),
          ),
        ).toEqual(
          cards.map((one) =>
            (one.mig?.instances ?? []).map((instance) => [instance.device, instance.gpuInstanceId, instance.memoryMb, instance.smCount]),
          ),
        );
        expect(topology.cards.map((one) => Object.keys(one.nvlinks).length)).toEqual(cards.map(() => cards.length - 1));
      },
    ),
    { numRuns: 100 },
  );
});

/** Elements of the first card, in order. */
function elements(xml: string): readonly string[] {
  return [...xml.matchAll(/^\t\t<([A-Za-z_]+)>/gm)].map(([, name = ""]) => name);
}

const oneNode = {
  name: "any",
  about: "any",
  hostname: "any",
  memoryMb: 1,
  cards: [card(99, 0, A100_80), card(99, 1, A100_80)],
  adapters: [adapter(99, 0), adapter(99, 1)],
};

test.each([
  ["510.47.03", "power_readings", ["gpu_power_readings", "fabric", "gpu_reset_status", "gpu_recovery_action"]],
  ["535.161.08", "gpu_reset_status", ["power_readings", "gpu_recovery_action"]],
  ["570.172.08", "gpu_recovery_action", ["power_readings"]],
  ["580.95.05", "gpu_recovery_action", ["power_readings", "gpu_reset_status"]],
])("%s prints %s and none of %j", (version, has, lacks) => {
  const found = elements(renderQuery(oneNode, { version, cuda: "12.4" }));
  expect(found).toContain(has);
  expect(found.filter((name) => lacks.includes(name))).toEqual([]);
});

test("a 570 prints the reset status before the recovery action, and the fabric's health without a summary", () => {
  const xml = renderQuery(oneNode, { version: "570.172.08", cuda: "12.8" });
  expect(xml.indexOf("<gpu_reset_status>")).toBeLessThan(xml.indexOf("<gpu_recovery_action>"));
  expect(xml).toContain("<health>");
  expect(xml).not.toContain("<summary>");
  expect(renderQuery(oneNode, { version: "580.95.05", cuda: "13.0" })).toContain("<summary>N/A</summary>");
});

test("whatever the driver's generation, the adapters and their distances are read back", () => {
  for (const version of ["460.106.00", "470.82.01", "525.60.13", "550.127.08"]) {
    const topology = parseTopology(renderTopology({ ...oneNode, driver: { version, cuda: "12.4" } }));
    expect(topology.warnings).toEqual([]);
    expect(topology.nics).toEqual(["mlx5_0", "mlx5_1"]);
    expect(topology.cards.map((one) => one.cpuAffinity)).toEqual(oneNode.cards.map((one) => one.cpuList));
  }
});
