/** The stub library through the real path: libc's dlopen, linkSymbols, structs, codes. Needs a C compiler; skipped by name without. */

import { dlopen } from "bun:ffi";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { MACHINES } from "../../fakes/compose/machines.ts";
import { renderNvml } from "../../fakes/compose/render-nvml.ts";
import { openNvml, readNvml } from "../../src/platform/nvml-ffi.ts";
import { type NvmlCard, NvmlReply, type NvmlSnapshot } from "../../src/platform/nvml-snapshot.ts";
import { carved, h100, migDevice, snapshotWith, withoutCodes } from "../support/nvml-snapshots.ts";
import { buildStub, COMPILER, writeScenario } from "../support/nvml-stub.ts";

const folder = mkdtempSync(join(tmpdir(), "llmgw-nvml-"));
const V3 = [
  "nvmlDeviceGetComputeRunningProcesses_v3",
  "nvmlDeviceGetGraphicsRunningProcesses_v3",
  "nvmlDeviceGetMPSComputeRunningProcesses_v3",
];
/** What a driver of the 450 branch lacks. */
const SINCE_450 = [
  ...V3,
  "nvmlDeviceGetMemoryInfo_v2",
  "nvmlDeviceGetTemperatureV",
  "nvmlDeviceGetCurrentClocksEventReasons",
  "nvmlDeviceGetNvLinkRemoteDeviceType",
  "nvmlDeviceGetGpuFabricInfo",
  "nvmlDeviceGetGpuFabricInfoV",
  "nvmlDeviceGetSramEccErrorStatus",
  "nvmlDeviceGetRepairStatus",
];
let library = "";

beforeAll(() => {
  if (COMPILER === undefined) return;
  library = buildStub(join(folder, "whole"));
  // C's getenv does not see what JavaScript writes into process.env.
  const libc = dlopen("libc.so.6", { setenv: { args: ["ptr", "ptr", "i32"], returns: "i32" } }).symbols;
  libc.setenv(Buffer.from("LLMGW_NVML_STUB\0"), Buffer.from(`${join(folder, "scenario.txt")}\0`), 1);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the library says in that scenario, checked against the schema. */
function reply(snapshot: NvmlSnapshot, more: Readonly<Record<string, string | number>> = {}, from = library): NvmlReply {
  writeScenario(folder, snapshot, more);
  return v.parse(NvmlReply, readNvml(from));
}

function read(snapshot: NvmlSnapshot, more: Readonly<Record<string, string | number>> = {}, from = library): NvmlSnapshot {
  const answer = reply(snapshot, more, from);
  if (answer.kind !== "snapshot") throw new Error(JSON.stringify(answer));
  return answer.snapshot;
}

function cardOf(card: NvmlCard, more: Readonly<Record<string, string | number>> = {}, from = library): NvmlCard {
  const [found] = read(snapshotWith([card]), more, from).cards;
  if (found === undefined) throw new Error("no card");
  return found;
}

describe.skipIf(COMPILER === undefined)("NVML through FFI, with the stub library (needs a C compiler)", () => {
  test("what the library holds is what the snapshot says, card by card and instance by instance", () => {
    const process = { pid: 4242, name: "/usr/bin/python3", type: "compute", memory_used_bytes: 123_456_789 } as const;
    const snapshot = snapshotWith([
      h100(0, { processes: [process] }),
      carved(1, [migDevice(1, 0), migDevice(1, 3, { processes: [{ ...process, gpu_instance_id: 10, compute_instance_id: 0 }] })]),
    ]);
    expect(withoutCodes(read(snapshot))).toEqual({ ...snapshot, library });
  });

  test("the library is shut down as often as it is started, also when nothing could be read", () => {
    const log = join(folder, "shutdowns");
    read(snapshotWith([h100(0)]), { log_shutdown: log });
    reply(snapshotWith([h100(0, { error: { symbol: "nvmlDeviceGetHandleByIndex_v2", code: 15, word: "" } })]), { log_shutdown: log });
    expect(readFileSync(log, "utf8")).toBe("0\n0\n");
  });

  test("empty MIG slots are passed over: devices 1, 4 and 6 of seven", () => {
    const card = cardOf(carved(0, [migDevice(0, 1), migDevice(0, 4), migDevice(0, 6)]));
    expect(card.mig_devices?.map((device) => device.slot)).toEqual([1, 4, 6]);
  });

  test("MIG on with nothing carved is an empty list, not an unknown one", () => {
    expect(cardOf(carved(0, [])).mig_devices).toEqual([]);
  });

  test("the card in MIG mode that refuses memory and processes still shows those of its instances", () => {
    const card = cardOf(carved(0, [migDevice(0, 0)]), {
      "gpu.0.fn.nvmlDeviceGetMemoryInfo_v2": 4,
      "gpu.0.fn.nvmlDeviceGetMemoryInfo": 4,
      "gpu.0.fn.nvmlDeviceGetComputeRunningProcesses_v3": 4,
    });
    expect(card).not.toHaveProperty("memory_total_bytes");
    expect(card).not.toHaveProperty("processes");
    expect(card.codes).toMatchObject({ nvmlDeviceGetMemoryInfo_v2: 4, nvmlDeviceGetComputeRunningProcesses_v3: 4 });
    expect(card.mig_devices?.[0]?.memory_total_bytes).toBe(9_856 * 2 ** 20);
    expect(card.mig_devices?.[0]?.processes).toEqual([]);
  });

  test("a profile that the name does not tell is derived from slices and memory, and says so", () => {
    const nameless = { name: "NVIDIA H100 80GB HBM3" };
    const half = { gpu_instance_slices: 3, compute_instance_slices: 1, memory_size_mb: 40_448 };
    const devices = cardOf(carved(0, [migDevice(0, 0, nameless), migDevice(0, 1, { ...nameless, ...half })])).mig_devices;
    expect(devices?.map((device) => [device.profile, device.profile_derived])).toEqual([
      ["1g.10gb", true],
      ["1c.3g.40gb", true],
    ]);
  });

  test.each([3, 2])("a privileged caller is told the profile, also with version %d of its struct", (newest) => {
    const nameless = { name: "NVIDIA H100 80GB HBM3" };
    const half = { gpu_instance_slices: 3, compute_instance_slices: 1, memory_size_mb: 40_448 };
    const devices = cardOf(carved(0, [migDevice(0, 0, nameless), migDevice(0, 1, { ...nameless, ...half })]), {
      profile_newest: newest,
      "gpu.0.instance.7": 20,
      "gpu.0.instance.8": 9,
      "gpu.0.profile.7": "20,MIG 1g.10gb+me",
      "gpu.0.profile.2": "9,MIG 3g.40gb",
    }).mig_devices;
    expect(devices?.map((device) => [device.profile, device.profile_derived])).toEqual([
      ["1g.10gb+me", undefined],
      ["1c.3g.40gb", undefined],
    ]);
  });

  const described = MACHINES.flatMap((machine) => (machine.driver === undefined ? [] : [renderNvml(machine, machine.driver)]));

  test("what is written for any composed machine is read from the library again", () => {
    for (const snapshot of described) {
      // The stub has the fabric health of the newest drivers for every card.
      expect(read(snapshot)).toMatchObject({ ...snapshot, library });
    }
  });

  test("instances of a driver before R470 keep the old form of their UUIDs", () => {
    const uuid = "MIG-GPU-c0de0000-0000-4000-8000-000000000000/7/0";
    expect(cardOf(carved(0, [migDevice(0, 0, { uuid })])).mig_devices?.[0]?.uuid).toBe(uuid);
  });

  test("one card that is lost and one that is refused do not hide the others", () => {
    const failed = (code: number) => ({ error: { symbol: "nvmlDeviceGetHandleByIndex_v2", code, word: "" } });
    const { cards } = read(snapshotWith([h100(0), { index: 1, ...failed(15) }, { index: 2, ...failed(4) }, h100(3)]));
    expect(cards.map((card) => card.error?.word)).toEqual([undefined, "GPU is lost", "insufficient permissions", undefined]);
    expect(cards[3]?.uuid).toBe(h100(3).uuid);
  });

  test("a card that is lost midway keeps what was read, is asked nothing more, and the next one is whole", () => {
    const { cards } = read(snapshotWith([h100(0), h100(1), h100(2)]), { "gpu.1.lost_after": 6 });
    expect(cards[1]).toMatchObject({ uuid: h100(1).uuid, name: h100(1).name, error: { code: 15, word: "GPU is lost" } });
    expect(cards[1]).not.toHaveProperty("temperature_c");
    expect(cards[1]).not.toHaveProperty("nvlinks");
    expect(Object.values(cards[1]?.codes ?? {})).toEqual([15]);
    expect(cards[2]?.temperature_c).toBe(31);
  });

  test("a session that is kept starts anew after a lost card", () => {
    const log = join(folder, "kept");
    const opened = openNvml(library);
    if (opened.kind !== "opened") throw new Error(opened.kind);
    writeScenario(folder, snapshotWith([h100(0)]), { log_shutdown: log });
    opened.session.snapshot(true);
    expect(existsSync(log)).toBe(false);
    opened.session.close();
    writeScenario(folder, snapshotWith([h100(0)]), { log_shutdown: log, "gpu.0.lost_after": 3 });
    opened.session.snapshot(true);
    writeScenario(folder, snapshotWith([h100(0)]), { log_shutdown: log });
    const after = opened.session.snapshot(true);
    opened.session.close();
    expect(after.kind === "snapshot" && after.snapshot.cards[0]?.error).toBe(undefined);
    expect(readFileSync(log, "utf8")).toBe("0\n0\n0\n");
  });

  test.each([
    [9, "the driver is not loaded"],
    [18, "different versions"],
    [999, "unknown error"],
    [77, "unknown(77)"],
  ])("a start that fails with %d is told with code and words", (code, words) => {
    const answer = reply(snapshotWith([]), { init: code });
    expect(answer).toMatchObject({ kind: "failed", code });
    expect(answer.kind === "failed" && answer.text).toContain(words);
  });

  test("no card at all is an empty list", () => {
    expect(read(snapshotWith([])).cards).toEqual([]);
  });

  test("a desktop card that knows neither ECC, rows, links nor MIG has none of these keys", () => {
    const {
      ecc: _e,
      remapped_rows: _r,
      nvlinks: _n,
      mig_mode: _m,
      max_mig_devices: _x,
      fabric: _f,
      recovery_action: _a,
      ...rest
    } = h100(0);
    const card = cardOf({ ...rest, compute_capability: "8.9" });
    expect(card).toMatchObject({ nvlinks: [], codes: { nvmlDeviceGetEccMode: 3, nvmlDeviceGetMigMode: 3 } });
    for (const key of ["ecc", "remapped_rows", "mig_mode", "mig_devices", "fabric", "recovery_action"])
      expect(card).not.toHaveProperty(key);
  });

  test("16 cards, the last one carved, come in the order of their indexes", () => {
    const { cards } = read(snapshotWith(Array.from({ length: 16 }, (_, at) => (at === 15 ? carved(at, [migDevice(at, 6)]) : h100(at)))));
    expect(cards.map((card) => card.index)).toEqual(Array.from({ length: 16 }, (_, at) => at));
    expect(cards[15]?.mig_devices?.length).toBe(1);
  });

  test("a driver of the 450 branch: older calls answer in place of those that are missing", () => {
    const old = buildStub(join(folder, "old"), SINCE_450);
    const card = cardOf(h100(0, { compute_capability: "8.0", processes: [{ pid: 7, type: "compute", memory_used_bytes: 5 }] }), {}, old);
    const { fabric: _f, nvlinks: _n, ecc: _e, ...same } = h100(0, { compute_capability: "8.0" });
    expect(card).toMatchObject({ ...same, processes: [{ pid: 7, type: "compute", memory_used_bytes: 5 }] });
    expect(card).not.toHaveProperty("fabric");
    expect(card.nvlinks?.length).toBe(18);
    expect(card.codes).toMatchObject({ nvmlDeviceGetMemoryInfo_v2: 13 });
  });

  test("a driver before 410 has neither init with flags nor the newer CUDA call", () => {
    const old = buildStub(join(folder, "older"), ["nvmlInitWithFlags", "nvmlSystemGetCudaDriverVersion_v2"]);
    expect(read(snapshotWith([h100(0)]), { cuda_guess: 11040 }, old).cuda_version).toBe("11.4");
  });

  test("a library without a single function fails in words and does not crash", () => {
    const empty = join(folder, "empty.so");
    Bun.spawnSync({ cmd: [COMPILER ?? "", "-shared", "-o", empty, "-x", "c", "/dev/null"] });
    const answer = readNvml(empty);
    expect(answer).toMatchObject({ kind: "failed", code: 13 });
  });

  test("the process list of early 535 drivers has entries of 32 bytes", () => {
    const processes = Array.from({ length: 5 }, (_, at) => ({ pid: 100 + at, type: "compute", memory_used_bytes: at * 1000 }) as const);
    const snapshot = snapshotWith([h100(0, { processes })], { driver_version: "535.54.03" });
    expect(read(snapshot, { process_stride: 32 }).cards[0]?.processes).toEqual(processes);
  });

  test("driver 535.98 has no third version of the process list: the second one answers", () => {
    const old = buildStub(join(folder, "no-v3"), V3);
    const processes = [{ pid: 100, type: "compute", memory_used_bytes: 77 } as const];
    const snapshot = snapshotWith([h100(0, { processes })], { driver_version: "535.98" });
    expect(read(snapshot, {}, old).cards[0]?.processes).toEqual(processes);
  });

  test("300 processes, a list that grows while it is read, and memory that is not told", () => {
    const many = Array.from({ length: 300 }, (_, at) => ({ pid: 1000 + at, type: "compute", memory_used_bytes: 1 }) as const);
    const last = { pid: 5000, type: "compute" } as const;
    const processes = cardOf(h100(0, { processes: [...many, last] }), { growing: 2 }).processes;
    expect(processes?.length).toBe(301);
    expect(processes?.at(-1)).toEqual(last);
  });

  test("a process on compute and graphics is one", () => {
    const process = { pid: 9, type: "compute+graphics", memory_used_bytes: 3 } as const;
    expect(cardOf(h100(0, { processes: [process] })).processes).toEqual([process]);
  });

  test("driver 550 refuses the third version of the fabric struct and answers the second", () => {
    const fabric = cardOf(h100(0), { fabric_newest: 2 }).fabric;
    expect(fabric).toEqual({
      state: "completed",
      status: 0,
      cluster_uuid: "00000000-0000-0000-0000-000000000000",
      clique_id: 0,
      health_mask: 0,
    });
  });

  test("driver 525 has only the fabric call without a version", () => {
    const old = buildStub(join(folder, "v525"), ["nvmlDeviceGetGpuFabricInfoV"]);
    const cluster_uuid = "c0de000e-fab0-4000-8000-000000000001";
    const card = h100(0, { fabric: { state: "completed", status: 0, cluster_uuid, clique_id: 32766 } });
    expect(cardOf(card, {}, old).fabric).toEqual({ state: "completed", status: 0, cluster_uuid, clique_id: 32766 });
  });

  test("values that are newer than this version stay numbers", () => {
    const card = cardOf(
      h100(0, { clock_event_reasons: ["gpu_idle", 2 ** 40], compute_mode: 17, recovery_action: 9, virtualization_mode: 8 }),
      { "gpu.0.fabric": "7,0,0,0,9,00000000000000000000000000000000", "gpu.0.link.0": "2,77," },
    );
    expect(card).toMatchObject({
      clock_event_reasons: ["gpu_idle", 2 ** 40],
      compute_mode: 17,
      recovery_action: 9,
      virtualization_mode: 8,
      fabric: { state: 7, health_summary: 9 },
    });
    expect(card.nvlinks?.[0]).toEqual({ link: 0, active: true, remote_type: 77 });
  });

  test("links that are down, that sleep, and whose remote end is a card", () => {
    const links = cardOf(h100(0, { nvlinks: [] }), {
      "gpu.0.link.0": "1,0,00000000:11:00.0",
      "gpu.0.link.1": "0,0,",
      "gpu.0.link.2": "2,2,",
    });
    expect(links.nvlinks).toEqual([
      { link: 0, active: true, remote_type: "gpu", remote_bus_id: "00000000:11:00.0" },
      { link: 1, active: false },
      { link: 2, active: true, remote_type: "switch" },
    ]);
  });

  test("a field value is decoded by its type, and one that is refused is absent with its code", () => {
    const power = (line: string): unknown => cardOf(h100(0), { "gpu.0.field.186": line, "gpu.0.power": 50_000 }).power_w;
    expect(["0:72350.5", "1:72350", "2:72350", "3:72350", "4:72350", "5:72350", "6:7235"].map(power)).toEqual([
      72.35, 72.35, 72.35, 72.35, 72.35, 72.35, 7.24,
    ]);
    expect(power("ret:3")).toBe(50);
    expect(power("9:1")).toBe(50);
  });

  test("a name of full length without its NUL, or with other bytes, harms nothing", () => {
    const card = cardOf(h100(0, { name: `NVIDIA ${"x".repeat(88)}`, uuid: "GPU-\u00e9" }));
    expect(card.name).toBe(`NVIDIA ${"x".repeat(88)}`);
    expect(card.uuid).toBe("GPU-??");
  });

  test("a path that is not absolute, and a file that is no library, are refused in words", () => {
    writeFileSync(join(folder, "text.so"), "hello");
    expect(readNvml("libnvidia-ml.so.1")).toEqual({ kind: "failed", text: "libnvidia-ml.so.1 is not an absolute path" });
    const answer = readNvml(join(folder, "text.so"));
    expect(answer.kind === "failed" && answer.text).toContain("text.so");
  });
});
