/** Discovery through the real host runner, the probe as a child, the stub library, and a program named nvidia-smi of our own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MACHINES } from "../../fakes/compose/machines.ts";
import { renderNvml } from "../../fakes/compose/render-nvml.ts";
import { discover } from "../../src/discovery/discover.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import { UserError } from "../../src/lib/user-error.ts";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { openMachine } from "../../src/platform/machine.ts";
import { groupLives } from "../../src/platform/processes.ts";
import { createRecorder } from "../../src/platform/recorder.ts";
import { takeRound } from "../../src/platform/round-lock.ts";
import type { Runner } from "../../src/platform/runner.ts";
import { runLlmgw } from "../support/cli.ts";
import { buildStub, COMPILER, writeScenario } from "../support/nvml-stub.ts";

const FAKES = join(import.meta.dir, "../../fakes/machines");
const PROBE = [process.execPath, join(import.meta.dir, "../../src/main.ts"), "nvml-probe"];
const top = mkdtempSync(join(tmpdir(), "llmgw-host-nvml-"));
let library = "";

beforeAll(() => {
  if (COMPILER !== undefined) library = buildStub(join(top, "lib"));
});

afterAll(() => rmSync(top, { recursive: true, force: true }));

interface Host {
  readonly runner: Runner;
  readonly folder: string;
  /** What nvidia-smi was asked, in order. */
  readonly asked: () => readonly string[];
}

/** A host with the cards of a composed machine, for NVML and for nvidia-smi. */
function hostLike(name: string, machineName: string, more: Readonly<Record<string, string | number>> = {}): Host {
  const machine = MACHINES.find((candidate) => candidate.name === machineName);
  if (machine?.driver === undefined) throw new Error(machineName);
  const folder = join(top, name);
  const scenario = writeScenario(folder, renderNvml(machine, machine.driver), more);
  const bin = join(folder, "bin");
  mkdirSync(bin);
  const answer = (flag: string, file: string): string => `${flag}) exec cat ${join(FAKES, machineName, file)} ;;`;
  const log = join(folder, "asked");
  const cases = [answer("-L", "L.txt"), answer("-q", "q-x.xml"), answer("topo", "topo-m.txt")];
  writeFileSync(join(bin, "nvidia-smi"), ["#!/bin/sh", `echo "$*" >> ${log}`, 'case "$1" in', ...cases, "esac", ""].join("\n"));
  chmodSync(join(bin, "nvidia-smi"), 0o755);
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: folder, LLMGW_NVML_STUB: scenario };
  const runner = createHostRunner({ env, nvmlProbe: PROBE, roundLock: { folders: [join(folder, "run")] } });
  return { runner, folder, asked: () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n").sort() : []) };
}

function look(host: Host, options: Partial<Parameters<typeof discover>[1]> = {}): Promise<Inventory> {
  return discover(host.runner, { modelDirs: [], gpus: "only", nvmlLibrary: library, ...options });
}

describe.skipIf(COMPILER === undefined)("cards through the library on a host (needs a C compiler)", () => {
  test("instances with holes, and nvidia-smi is asked for the list and the matrix only", async () => {
    const host = hostLike("sparse", "h100-mig-sparse");
    const inventory = await look(host);
    expect([inventory.source, ...inventory.warnings]).toEqual(["nvml"]);
    const text = await discover(await openMachine("h100-mig-sparse", { waits: "skip" }), { modelDirs: [], gpus: "only", nvml: "no" });
    // The adapters are those of whatever machine the test runs on.
    const cards = (found: Inventory) => found.gpus.map(({ nearest_hcas: _adapters, ...gpu }) => gpu);
    expect(cards(inventory)).toEqual(cards(text));
    expect(host.asked()).toEqual(["-L", "topo -m"]);
  });

  test("a UUID that nvidia-smi contradicts is a problem of that device, without being asked for a comparison", async () => {
    const host = hostLike("contradicted", "h100-mig-sparse");
    const tool = join(host.folder, "bin", "nvidia-smi");
    const answers = readFileSync(join(FAKES, "h100-mig-sparse", "L.txt"), "utf8");
    const uuid = /Device {2}3: \(UUID: (MIG-[^)]+)\)/.exec(answers)?.[1] ?? "";
    expect(uuid).not.toBe("");
    writeFileSync(join(host.folder, "L.txt"), answers.replace(uuid, "MIG-0ddba115-0000-4000-8000-000000000001"));
    writeFileSync(tool, readFileSync(tool, "utf8").replace(join(FAKES, "h100-mig-sparse", "L.txt"), join(host.folder, "L.txt")));
    const inventory = await look(host);
    expect(inventory.source).toBe("nvml");
    expect(inventory.gpus.map((gpu) => [gpu.label, gpu.health.ok])).toEqual([
      ["0/mig0", true],
      ["0/mig3", false],
      ["0/mig5", true],
    ]);
    expect(inventory.gpus[1]?.health.problems.join()).toContain("disagree on its UUID");
  });

  test("both sources of one host agree where they are compared", async () => {
    const host = hostLike("both", "a100-mig-mixed");
    const inventory = await look(host, { bothSources: true });
    expect(inventory.gpus.flatMap((gpu) => gpu.health.problems)).toEqual([]);
    expect(host.asked()).toEqual(["-L", "-q -x", "topo -m"]);
  });

  test("a library that hangs: the report comes within its limit and a second, from nvidia-smi, with one warning", async () => {
    const host = hostLike("hangs", "l40s-pcie-4", { "sleep.init": 60_000 });
    const from = performance.now();
    const inventory = await look(host, { nvmlTimeoutMs: 500 });
    expect(performance.now() - from).toBeLessThan(1_500);
    expect(inventory.source).toBe("nvidia-smi");
    expect(inventory.gpus.map((gpu) => gpu.health.ok)).toEqual([true, true, true, true]);
    expect(inventory.warnings).toEqual(["NVML is not used: NVML did not answer within 0.5 s"]);
  });

  test("while a process of an earlier look hangs, neither the library nor nvidia-smi is asked", async () => {
    const host = hostLike("stuck", "l40s-pcie-4");
    const stuck = Bun.spawn({ cmd: ["sleep", "600"], detached: true, stdio: ["ignore", "ignore", "ignore"] });
    try {
      const round = await takeRound({ folders: [join(host.folder, "run")] });
      round.add(stuck.pid);
      round.end();
      const inventory = await look(host);
      expect(inventory.source).toBe("unavailable");
      expect(inventory.warnings[0]).toBe(`NVML is not used: not asked: process ${stuck.pid} of an earlier query still hangs in the driver`);
      expect(host.asked()).toEqual([]);
    } finally {
      process.kill(-stuck.pid, "SIGKILL");
      await stuck.exited;
    }
    expect(groupLives(stuck.pid)).toBe(false);
  });

  test("a card that is lost midway is out of placement, its neighbours are not", async () => {
    const inventory = await look(hostLike("lost", "l40s-pcie-4", { "gpu.2.lost_after": 5 }));
    expect(inventory.gpus.map((gpu) => [gpu.label, gpu.health.ok])).toEqual([
      ["0", true],
      ["1", true],
      ["3", true],
    ]);
    expect(inventory.unusable_cards.map((card) => [card.index, card.name, card.pci_bus_id !== undefined])).toEqual([
      [2, "NVIDIA L40S", true],
    ]);
  });

  test("a recording holds the snapshot, masked, and replays to the same cards", async () => {
    const host = hostLike("record", "h100-mig-sparse");
    const recorder = createRecorder(host.runner, []);
    const seen = await discover(recorder.runner, { modelDirs: [], gpus: "only", nvmlLibrary: library, bothSources: true });
    const folder = join(host.folder, "recording");
    recorder.write(folder, { about: "a test", raw: false, users: [], hostnames: [] });
    const json = readFileSync(join(folder, "nvml.json"), "utf8");
    for (const gpu of seen.gpus) expect(json).not.toContain(gpu.uuid.replace(/^(?:GPU|MIG)-/, ""));
    const replayed = await discover(await openMachine(folder), { modelDirs: [], gpus: "only" });
    expect(replayed.source).toBe("nvml");
    const shape = (inventory: Inventory) => inventory.gpus.map(({ uuid: _uuid, ...gpu }) => gpu);
    expect(shape(replayed)).toEqual(shape(seen));
    expect(new Set(replayed.gpus.map((gpu) => gpu.uuid)).size).toBe(seen.gpus.length);
  });

  test("a recording of a library that fails says why when it is replayed", async () => {
    const host = hostLike("record-fails", "l40s-pcie-4", { init: 18 });
    const recorder = createRecorder(host.runner, []);
    await discover(recorder.runner, { modelDirs: [], gpus: "only", nvmlLibrary: library, bothSources: true });
    const folder = join(host.folder, "recording");
    recorder.write(folder, { about: "a test", raw: false, users: [], hostnames: [] });
    const replayed = await discover(await openMachine(folder), { modelDirs: [], gpus: "only" });
    expect(replayed.source).toBe("nvidia-smi");
    expect(replayed.warnings.join()).toContain("different versions");
  });

  test("inventory --nvml-library PATH loads it, --no-nvml does not, a path that leads nowhere is a mistake", async () => {
    const { runner } = hostLike("cli", "l40s-pcie-4");
    const run = async (...words: readonly string[]) => runLlmgw(["inventory", "--only-gpus", ...words], { runner });
    expect((await run("--nvml-library", library)).stdout).toContain("GPUs (4, via nvml)");
    expect((await run("--no-nvml")).stdout).toContain("GPUs (4, via nvidia-smi)");
    expect(await run("--nvml-library", join(top, "nowhere.so"))).toMatchObject({ exitCode: 2 });
    expect(await run("--no-nvml", "--nvml-library", library)).toMatchObject({ exitCode: 2 });
  });
});

test("a nvml.json that does not fit is told with its place", async () => {
  const folder = join(top, "misfit");
  mkdirSync(folder);
  writeFileSync(join(folder, "machine.yaml"), "about: a test\nsource: composed\nunrecorded: absent\n");
  writeFileSync(join(folder, "nvml.json"), '{"version":1,"library":"/x","cards":[{"index":"0"}]}');
  const machine = await openMachine(folder);
  const error: unknown = await machine.nvml?.().catch((thrown: unknown) => thrown);
  if (!(error instanceof UserError)) throw new Error("no UserError");
  expect(error.what).toBe(`${folder}/nvml.json does not fit`);
  expect(error.why).toContain("cards[0].index");
});
