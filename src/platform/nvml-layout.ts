/**
 * NVML's binary interface, as far as llmgw uses it: symbols with their arguments, offsets, struct versions, words for numbers.
 *
 * Numbers: nvml.h of NVML 13.3.29 (driver 610.43.03), checked by compiler on x86-64 and aarch64; they hold since each symbol appeared,
 * except for the process list (`PROCESS_STRIDES`). A wrong argument list is a crash, not an exception, so nothing here is guessed.
 */

/** `u64` an opaque handle by value, `ptr` the caller's buffer. All return an i32, the return code. */
export type NvmlArgument = "u64" | "u32" | "i32" | "ptr";

export const NVML_SYMBOLS = {
  nvmlInitWithFlags: ["u32"],
  nvmlInit_v2: [],
  nvmlShutdown: [],
  nvmlSystemGetDriverVersion: ["ptr", "u32"],
  nvmlSystemGetNVMLVersion: ["ptr", "u32"],
  nvmlSystemGetCudaDriverVersion: ["ptr"],
  nvmlSystemGetCudaDriverVersion_v2: ["ptr"],
  nvmlSystemGetProcessName: ["u32", "ptr", "u32"],
  nvmlDeviceGetCount_v2: ["ptr"],
  nvmlDeviceGetHandleByIndex_v2: ["u32", "ptr"],
  nvmlDeviceGetName: ["u64", "ptr", "u32"],
  nvmlDeviceGetUUID: ["u64", "ptr", "u32"],
  nvmlDeviceGetMinorNumber: ["u64", "ptr"],
  nvmlDeviceGetPciInfo_v3: ["u64", "ptr"],
  nvmlDeviceGetCudaComputeCapability: ["u64", "ptr", "ptr"],
  nvmlDeviceGetVirtualizationMode: ["u64", "ptr"],
  nvmlDeviceGetMemoryInfo: ["u64", "ptr"],
  nvmlDeviceGetMemoryInfo_v2: ["u64", "ptr"],
  nvmlDeviceGetTemperature: ["u64", "u32", "ptr"],
  nvmlDeviceGetTemperatureV: ["u64", "ptr"],
  nvmlDeviceGetPowerUsage: ["u64", "ptr"],
  nvmlDeviceGetEnforcedPowerLimit: ["u64", "ptr"],
  nvmlDeviceGetPowerManagementLimit: ["u64", "ptr"],
  nvmlDeviceGetUtilizationRates: ["u64", "ptr"],
  nvmlDeviceGetEccMode: ["u64", "ptr", "ptr"],
  nvmlDeviceGetTotalEccErrors: ["u64", "u32", "u32", "ptr"],
  nvmlDeviceGetMemoryErrorCounter: ["u64", "u32", "u32", "u32", "ptr"],
  nvmlDeviceGetSramEccErrorStatus: ["u64", "ptr"],
  nvmlDeviceGetRepairStatus: ["u64", "ptr"],
  nvmlDeviceGetRemappedRows: ["u64", "ptr", "ptr", "ptr", "ptr"],
  nvmlDeviceGetRetiredPagesPendingStatus: ["u64", "ptr"],
  nvmlDeviceGetCurrentClocksEventReasons: ["u64", "ptr"],
  nvmlDeviceGetCurrentClocksThrottleReasons: ["u64", "ptr"],
  nvmlDeviceGetCurrPcieLinkGeneration: ["u64", "ptr"],
  nvmlDeviceGetCurrPcieLinkWidth: ["u64", "ptr"],
  nvmlDeviceGetMaxPcieLinkGeneration: ["u64", "ptr"],
  nvmlDeviceGetMaxPcieLinkWidth: ["u64", "ptr"],
  nvmlDeviceGetPersistenceMode: ["u64", "ptr"],
  nvmlDeviceGetComputeMode: ["u64", "ptr"],
  nvmlDeviceGetComputeRunningProcesses: ["u64", "ptr", "ptr"],
  nvmlDeviceGetComputeRunningProcesses_v2: ["u64", "ptr", "ptr"],
  nvmlDeviceGetComputeRunningProcesses_v3: ["u64", "ptr", "ptr"],
  nvmlDeviceGetMPSComputeRunningProcesses_v3: ["u64", "ptr", "ptr"],
  nvmlDeviceGetGraphicsRunningProcesses_v3: ["u64", "ptr", "ptr"],
  nvmlDeviceGetNvLinkState: ["u64", "u32", "ptr"],
  nvmlDeviceGetNvLinkRemotePciInfo_v2: ["u64", "u32", "ptr"],
  nvmlDeviceGetNvLinkRemoteDeviceType: ["u64", "u32", "ptr"],
  nvmlDeviceGetGpuFabricInfo: ["u64", "ptr"],
  nvmlDeviceGetGpuFabricInfoV: ["u64", "ptr"],
  nvmlDeviceGetFieldValues: ["u64", "i32", "ptr"],
  nvmlDeviceGetMigMode: ["u64", "ptr", "ptr"],
  nvmlDeviceGetMaxMigDeviceCount: ["u64", "ptr"],
  nvmlDeviceGetMigDeviceHandleByIndex: ["u64", "u32", "ptr"],
  nvmlDeviceGetGpuInstanceId: ["u64", "ptr"],
  nvmlDeviceGetComputeInstanceId: ["u64", "ptr"],
  nvmlDeviceGetAttributes_v2: ["u64", "ptr"],
  nvmlDeviceGetGpuInstanceById: ["u64", "u32", "ptr"],
  nvmlGpuInstanceGetInfo: ["u64", "ptr"],
  nvmlDeviceGetGpuInstanceProfileInfoV: ["u64", "u32", "ptr"],
} as const satisfies Readonly<Record<string, readonly NvmlArgument[]>>;
export type NvmlSymbol = keyof typeof NVML_SYMBOLS;

/** Byte offsets by struct and field, under the names of nvml.h. `size` is the whole struct. */
export const NVML_STRUCTS = {
  nvmlPciInfo_t: { size: 68, busId: 36 },
  nvmlUtilization_t: { size: 8, gpu: 0 },
  nvmlMemory_t: { size: 24, total: 0, free: 8, used: 16 },
  nvmlMemory_v2_t: { size: 40, version: 0, total: 8, free: 24, used: 32 },
  nvmlProcessInfo_v1_t: { size: 16, pid: 0, usedGpuMemory: 8 },
  nvmlProcessInfo_v2_t: { size: 24, pid: 0, usedGpuMemory: 8, gpuInstanceId: 16, computeInstanceId: 20 },
  nvmlProcessInfo_r535_early_t: { size: 32, pid: 0, usedGpuMemory: 8, gpuInstanceId: 16, computeInstanceId: 20 },
  nvmlDeviceAttributes_t: { size: 40, multiprocessorCount: 0, gpuInstanceSliceCount: 24, computeInstanceSliceCount: 28, memorySizeMB: 32 },
  nvmlGpuInstanceInfo_t: { size: 24, profileId: 12 },
  nvmlGpuInstanceProfileInfo_v2_t: { size: 152, version: 0, id: 4, name: 56 },
  nvmlGpuInstanceProfileInfo_v3_t: { size: 152, version: 0, id: 4, name: 48 },
  nvmlEccSramErrorStatus_v1_t: { size: 104, version: 0, bThresholdExceeded: 96 },
  nvmlRepairStatus_v1_t: { size: 12, version: 0, bChannelRepairPending: 4, bTpcRepairPending: 8 },
  nvmlTemperature_v1_t: { size: 12, version: 0, sensorType: 4, temperature: 8 },
  nvmlFieldValue_t: { size: 40, fieldId: 0, scopeId: 4, valueType: 24, nvmlReturn: 28, value: 32 },
  nvmlGpuFabricInfo_t: { size: 28, clusterUuid: 0, status: 16, cliqueId: 20, state: 24 },
  nvmlGpuFabricInfo_v2_t: { size: 36, version: 0, clusterUuid: 4, status: 20, cliqueId: 24, state: 28, healthMask: 32 },
  nvmlGpuFabricInfo_v3_t: { size: 40, version: 0, clusterUuid: 4, status: 20, cliqueId: 24, state: 28, healthMask: 32, healthSummary: 36 },
} as const;

/** What goes into a struct's `version` before the call: its size, and its version shifted by 24 bits. */
export const NVML_VERSIONS = {
  nvmlMemory_v2: 0x0200_0028,
  nvmlGpuInstanceProfileInfo_v2: 0x0200_0098,
  nvmlGpuInstanceProfileInfo_v3: 0x0300_0098,
  nvmlEccSramErrorStatus_v1: 0x0100_0068,
  nvmlRepairStatus_v1: 0x0100_000c,
  nvmlTemperature_v1: 0x0100_000c,
  nvmlGpuFabricInfo_v2: 0x0200_0024,
  nvmlGpuFabricInfo_v3: 0x0300_0028,
} as const;

export const NVML_FIELDS = {
  NVML_FI_DEV_POWER_AVERAGE: 185,
  NVML_FI_DEV_POWER_INSTANT: 186,
  NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 230,
  NVML_FI_DEV_NVLINK_GET_STATE: 165,
} as const;

/** Longest text of any call, NUL included: 96 for names and UUIDs. */
export const TEXT_BYTES = 96;
/** Links that a header of driver 610 knows; earlier ones have 4 to 18. */
export const MAX_LINKS = 36;
/** GPU instance profiles that a header of driver 610 knows, by their index, which is not the id that an instance tells. */
export const GPU_INSTANCE_PROFILES = 18;
/** `NVML_VALUE_NOT_AVAILABLE`. */
export const NO_VALUE_U64 = 0xffff_ffff_ffff_ffffn;
/** An instance id that says "not MIG". */
export const NO_INSTANCE = 0xffff_ffff;

export const NVML_CODES = {
  success: 0,
  invalidArgument: 2,
  notSupported: 3,
  noPermission: 4,
  notFound: 6,
  insufficientSize: 7,
  functionNotFound: 13,
  gpuIsLost: 15,
  resetRequired: 16,
  unknown: 999,
} as const;

/** Our own words: the library's may be asked for numbers that it does not know, and are no interface. */
const CODE_WORDS: Readonly<Record<number, string>> = {
  1: "not initialised",
  2: "invalid argument",
  3: "not supported",
  4: "insufficient permissions",
  6: "not found",
  7: "insufficient size",
  8: "insufficient external power",
  9: "the driver is not loaded",
  10: "timeout",
  11: "interrupt request issue",
  12: "a library that it needs is missing",
  13: "this driver does not have the function",
  14: "the infoROM is corrupted",
  15: "GPU is lost",
  16: "GPU requires reset",
  17: "access blocked by the operating system",
  18: "driver and library have different versions: reboot, or reload the driver, after a driver upgrade",
  19: "in use by another client",
  20: "insufficient memory",
  21: "no data",
  23: "insufficient resources",
  25: "struct version not known",
  26: "deprecated",
  27: "system is not in ready state",
  28: "no GPUs were found",
  29: "invalid state",
  999: "unknown error",
};

/** A return code in words; a number that is not known stays one. */
export function codeWord(code: number): string {
  return CODE_WORDS[code] ?? `unknown(${code})`;
}

/** Words for enum values, in nvml.h's order. */
export const NVML_WORDS = {
  computeMode: { 0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process" },
  virtualizationMode: { 0: "none", 1: "pass_through", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga" },
  fabricState: { 0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed" },
  fabricHealth: { 0: "not_supported", 1: "healthy", 2: "unhealthy", 3: "limited_capacity" },
  recoveryAction: { 0: "none", 1: "reset", 2: "reboot", 3: "drain_p2p", 4: "drain_and_reset", 5: "recover_imex_domain" },
  linkRemote: { 0: "gpu", 1: "npu", 2: "switch", 255: "unknown" },
} as const satisfies Readonly<Record<string, Readonly<Record<number, string>>>>;

/** The word of a number; a number that is not known stays one. */
export function wordOf(words: Readonly<Record<number, string>>, value: number): string | number {
  return words[value] ?? value;
}

/** Names of the clock event bits, lowest first. */
export const CLOCK_EVENT_BITS = [
  "gpu_idle",
  "applications_clocks",
  "sw_power_cap",
  "hw_slowdown",
  "sync_boost",
  "sw_thermal",
  "hw_thermal",
  "hw_power_brake",
  "display_clocks",
] as const;

/**
 * Bytes per entry of a process list. `_v3` of 535.43 up to, not including, 535.98 writes 32-byte entries; 535.98 has no `_v3`, and from
 * 535.104 on they are 24 bytes again (nvml.h of those drivers; nvitop issue 88).
 */
export function processStride(symbol: NvmlSymbol, driverVersion: string | undefined): number {
  if (symbol === "nvmlDeviceGetComputeRunningProcesses") return NVML_STRUCTS.nvmlProcessInfo_v1_t.size;
  const [major = Number.NaN, minor = Number.NaN] = (driverVersion ?? "").split(".").map(Number);
  const early = symbol.endsWith("_v3") && major === 535 && minor >= 43 && minor < 98;
  return early ? NVML_STRUCTS.nvmlProcessInfo_r535_early_t.size : NVML_STRUCTS.nvmlProcessInfo_v2_t.size;
}
