/**
 * One look at all cards through NVML: one call, one plain `NvmlSnapshot`. Calls block their thread, and a sick card can block one for
 * good, so this runs in the probe process (nvml-probe.ts) and nowhere else.
 *
 * What the library refuses is an absent value with its code beside it. A card that gives no handle, or is lost midway, carries an
 * error, and the others are read all the same. Order of calls and what to tolerate: NVIDIA's nvml.h of drivers 375 to 610.
 */
import { compact } from "../lib/compact.ts";
import { CLOCK_EVENT_BITS, codeWord, NVML_CODES, NVML_FIELDS, NVML_STRUCTS, NVML_VERSIONS, NVML_WORDS, wordOf } from "./nvml-layout.ts";
import { loadNvml, type NvmlLibrary } from "./nvml-library.ts";
import { readFabric, readLinks } from "./nvml-links.ts";
import { readMemory } from "./nvml-memory.ts";
import { readMigDevices } from "./nvml-mig.ts";
import { type Look, readProcesses } from "./nvml-processes.ts";
import { type Device, Reader } from "./nvml-reader.ts";
import type { NvmlCard, NvmlReply, NvmlSnapshot } from "./nvml-snapshot.ts";

/** Far more cards than any machine has: a count beyond is nonsense. */
const MAX_CARDS = 256;
/** Do not fail when there is no card at all. */
const INIT_NO_GPUS = 1;

export interface NvmlSession {
  /** Reads everything. `keep` leaves the library initialised, which saves the cards' start-up where nothing else holds the driver open. */
  snapshot(keep?: boolean): NvmlReply;
  /** Ends what `keep` left open. */
  close(): void;
}

export type OpenedNvml = { readonly kind: "opened"; readonly session: NvmlSession } | Exclude<NvmlReply, { kind: "snapshot" }>;

/** Loads the library: the one named, or the first at the usual places. */
export function openNvml(library: string | undefined): OpenedNvml {
  const loaded = loadNvml(library);
  return loaded.kind === "loaded" ? { kind: "opened", session: createSession(loaded.library) } : loaded;
}

/** Loads, reads once and shuts down. */
export function readNvml(library: string | undefined): NvmlReply {
  const opened = openNvml(library);
  return opened.kind === "opened" ? opened.session.snapshot() : opened;
}

function createSession(library: NvmlLibrary): NvmlSession {
  const reader = new Reader(library);
  let open = false;
  const close = (): void => {
    if (open) reader.system("nvmlShutdown");
    open = false;
  };
  return {
    close,
    snapshot: (keep = false) => {
      if (!open) {
        const code = initialise(reader);
        if (code !== NVML_CODES.success) return failure("NVML does not start", code);
        open = true;
      }
      let whole = false;
      try {
        const reply = readAll(reader, library.path);
        // After a lost card every handle may be stale: the next look starts anew.
        whole = reply.kind === "snapshot" && reply.snapshot.cards.every((card) => card.error === undefined);
        return reply;
      } finally {
        if (!keep || !whole) close();
      }
    },
  };
}

function initialise(reader: Reader): number {
  const code = reader.system("nvmlInitWithFlags", INIT_NO_GPUS);
  // Before driver 410 there is only this one.
  return code === NVML_CODES.functionNotFound ? reader.system("nvmlInit_v2") : code;
}

function failure(what: string, code: number): NvmlReply {
  return { kind: "failed", text: `${what}: ${codeWord(code)} (${code})`, code };
}

function readAll(reader: Reader, path: string): NvmlReply {
  const driverVersion = reader.systemText("nvmlSystemGetDriverVersion");
  const out = reader.out();
  const code = reader.system("nvmlDeviceGetCount_v2", out.bytes);
  if (code !== NVML_CODES.success) return failure("NVML does not count the cards", code);
  const count = Math.min(out.u32(), MAX_CARDS);
  const names = new Map<number, string | undefined>();
  const snapshot: NvmlSnapshot = compact({
    version: 1 as const,
    library: path,
    driver_version: driverVersion,
    nvml_version: reader.systemText("nvmlSystemGetNVMLVersion"),
    cuda_version: cudaVersion(reader),
    cards: Array.from({ length: count }, (_, index) => readCard(reader, index, { driverVersion, names })),
  });
  return { kind: "snapshot", snapshot };
}

/** `13030` is 13.3. The newer call needs libcuda, which a headless driver lacks; the older one answers without. */
function cudaVersion(reader: Reader): string | undefined {
  for (const symbol of ["nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"] as const) {
    const out = reader.out();
    if (reader.system(symbol, out.bytes) !== NVML_CODES.success || out.i32() <= 0) continue;
    return `${Math.floor(out.i32() / 1000)}.${Math.floor((out.i32() % 1000) / 10)}`;
  }
  return undefined;
}

function readCard(reader: Reader, index: number, look: Look): NvmlCard {
  const out = reader.out();
  const code = reader.system("nvmlDeviceGetHandleByIndex_v2", index, out.bytes);
  if (code !== NVML_CODES.success) {
    return { index, error: { symbol: "nvmlDeviceGetHandleByIndex_v2", code, word: codeWord(code) } };
  }
  const device: Device = { handle: out.u64(), fate: { lost: undefined }, codes: {} };
  const identity = readIdentity(reader, device);
  const memory = readMemory(reader, device);
  const mig = readMig(reader, device, memory.memory_total_bytes, look);
  const state = readState(reader, device);
  const fabric = readFabric(reader, device);
  const nvlinks = readLinks(reader, device, identity.compute_capability);
  const processes = readProcesses(reader, device, look);
  const { lost } = device.fate;
  return compact({
    index,
    error: lost,
    ...identity,
    ...memory,
    ...mig,
    ...state,
    fabric,
    nvlinks: lost === undefined ? nvlinks : undefined,
    processes,
    codes: Object.keys(device.codes).length === 0 ? undefined : device.codes,
  });
}

/** Read first, so that a card that is lost midway is still known by name. */
function readIdentity(reader: Reader, device: Device) {
  const pci = reader.out();
  const busId =
    reader.ask(device, "nvmlDeviceGetPciInfo_v3", [pci.bytes]) === NVML_CODES.success
      ? pci.text(NVML_STRUCTS.nvmlPciInfo_t.busId, 32)
      : undefined;
  const capability = reader.pair(device, "nvmlDeviceGetCudaComputeCapability");
  return {
    pci_bus_id: busId,
    uuid: reader.text(device, "nvmlDeviceGetUUID"),
    name: reader.text(device, "nvmlDeviceGetName"),
    minor: reader.u32(device, "nvmlDeviceGetMinorNumber"),
    compute_capability: capability?.join("."),
  };
}

function readMig(reader: Reader, device: Device, parentBytes: number | undefined, look: Look) {
  const mode = reader.pair(device, "nvmlDeviceGetMigMode");
  if (mode === undefined) return {};
  const mig_mode = { current: onOff(mode[0]) ?? ("disabled" as const), pending: onOff(mode[1]) ?? ("disabled" as const) };
  const max_mig_devices = reader.u32(device, "nvmlDeviceGetMaxMigDeviceCount");
  if (mig_mode.current === "disabled") return { mig_mode, max_mig_devices };
  return { mig_mode, max_mig_devices, mig_devices: readMigDevices(reader, device, max_mig_devices, parentBytes, look) };
}

function readState(reader: Reader, device: Device) {
  const [instant, action] = reader.fields(device, [
    { id: NVML_FIELDS.NVML_FI_DEV_POWER_INSTANT },
    { id: NVML_FIELDS.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION },
  ]);
  const milliwatts = instant ?? reader.u32(device, "nvmlDeviceGetPowerUsage");
  const limit = reader.u32(device, "nvmlDeviceGetPowerManagementLimit") ?? reader.u32(device, "nvmlDeviceGetEnforcedPowerLimit");
  const utilization = reader.u32(device, "nvmlDeviceGetUtilizationRates");
  const retired = reader.u32(device, "nvmlDeviceGetRetiredPagesPendingStatus");
  return {
    temperature_c: readTemperature(reader, device),
    power_w: watts(milliwatts),
    power_limit_w: watts(limit),
    utilization_pct: utilization === undefined || utilization > 100 ? undefined : utilization,
    ecc: readEcc(reader, device),
    remapped_rows: readRemappedRows(reader, device),
    retired_pages_pending: retired === undefined ? undefined : retired !== 0,
    clock_event_reasons: readClockReasons(reader, device),
    recovery_action: action === undefined ? undefined : wordOf(NVML_WORDS.recoveryAction, action),
    compute_mode: optionalWord(NVML_WORDS.computeMode, reader.u32(device, "nvmlDeviceGetComputeMode")),
    persistence_mode: onOff(reader.u32(device, "nvmlDeviceGetPersistenceMode")),
    virtualization_mode: optionalWord(NVML_WORDS.virtualizationMode, reader.u32(device, "nvmlDeviceGetVirtualizationMode")),
    pcie: someOf({
      gen_current: reader.u32(device, "nvmlDeviceGetCurrPcieLinkGeneration"),
      gen_max: reader.u32(device, "nvmlDeviceGetMaxPcieLinkGeneration"),
      width_current: reader.u32(device, "nvmlDeviceGetCurrPcieLinkWidth"),
      width_max: reader.u32(device, "nvmlDeviceGetMaxPcieLinkWidth"),
    }),
  };
}

/** Milliwatts to watts with the two places that nvidia-smi prints. */
function watts(milliwatts: number | undefined): number | undefined {
  return milliwatts === undefined ? undefined : Math.round(milliwatts / 10) / 100;
}

function onOff(value: number | undefined): "enabled" | "disabled" | undefined {
  if (value === undefined || value > 1) return undefined;
  return value === 1 ? "enabled" : "disabled";
}

function optionalWord(words: Readonly<Record<number, string>>, value: number | undefined): string | number | undefined {
  return value === undefined ? undefined : wordOf(words, value);
}

/** `undefined` when no value is known. */
function someOf<T extends object>(record: T) {
  const known = compact(record);
  return Object.keys(known).length === 0 ? undefined : known;
}

function readTemperature(reader: Reader, device: Device): number | undefined {
  const layout = NVML_STRUCTS.nvmlTemperature_v1_t;
  const newer = reader.versioned(device, "nvmlDeviceGetTemperatureV", NVML_VERSIONS.nvmlTemperature_v1);
  return newer === undefined ? reader.u32(device, "nvmlDeviceGetTemperature", [0]) : newer.i32(layout.temperature);
}

const UNCORRECTED = 1;
const VOLATILE = 0;
const AGGREGATE = 1;

function readEcc(reader: Reader, device: Device) {
  const mode = reader.pair(device, "nvmlDeviceGetEccMode");
  const sram = reader.versioned(device, "nvmlDeviceGetSramEccErrorStatus", NVML_VERSIONS.nvmlEccSramErrorStatus_v1);
  const exceeded = sram?.u32(NVML_STRUCTS.nvmlEccSramErrorStatus_v1_t.bThresholdExceeded);
  const repair = reader.versioned(device, "nvmlDeviceGetRepairStatus", NVML_VERSIONS.nvmlRepairStatus_v1);
  const channel = repair?.u32(NVML_STRUCTS.nvmlRepairStatus_v1_t.bChannelRepairPending);
  const tpc = repair?.u32(NVML_STRUCTS.nvmlRepairStatus_v1_t.bTpcRepairPending);
  return someOf({
    current: onOff(mode?.[0]),
    pending: onOff(mode?.[1]),
    volatile_uncorrected: reader.u64(device, "nvmlDeviceGetTotalEccErrors", [UNCORRECTED, VOLATILE]),
    aggregate_uncorrected: reader.u64(device, "nvmlDeviceGetTotalEccErrors", [UNCORRECTED, AGGREGATE]),
    sram_threshold_exceeded: exceeded === undefined ? undefined : exceeded !== 0,
    channel_repair_pending: channel === undefined ? undefined : channel !== 0,
    tpc_repair_pending: tpc === undefined ? undefined : tpc !== 0,
  });
}

function readRemappedRows(reader: Reader, device: Device) {
  const outs = [reader.out(0), reader.out(1), reader.out(2), reader.out(3)] as const;
  const code = reader.ask(
    device,
    "nvmlDeviceGetRemappedRows",
    outs.map((out) => out.bytes),
  );
  if (code !== NVML_CODES.success) return undefined;
  const [corrected, uncorrected, pending, failed] = outs;
  return { corrected: corrected.u32(), uncorrected: uncorrected.u32(), pending: pending.u32() !== 0, failure: failed.u32() !== 0 };
}

/** Bits by name; a bit that is not known by its value. */
function readClockReasons(reader: Reader, device: Device): (string | number)[] | undefined {
  for (const symbol of ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"] as const) {
    const out = reader.out();
    if (reader.ask(device, symbol, [out.bytes]) !== NVML_CODES.success) continue;
    const mask = out.u64();
    return Array.from({ length: 64 }, (_, bit) => bit)
      .filter((bit) => (mask >> BigInt(bit)) & 1n)
      .map((bit) => CLOCK_EVENT_BITS[bit] ?? 2 ** bit);
  }
  return undefined;
}
