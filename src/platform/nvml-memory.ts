/** Memory of a card or of a MIG device. */
import { NVML_CODES, NVML_STRUCTS, NVML_VERSIONS } from "./nvml-layout.ts";
import type { Device, Reader } from "./nvml-reader.ts";

/** Bytes. The second version tells reserved memory apart, so its `used` is what nvidia-smi shows. */
export function readMemory(reader: Reader, device: Device) {
  const v2 = NVML_STRUCTS.nvmlMemory_v2_t;
  const newer = reader.versioned(device, "nvmlDeviceGetMemoryInfo_v2", NVML_VERSIONS.nvmlMemory_v2);
  if (newer !== undefined) return memoryRecord(newer.u64(v2.total), newer.u64(v2.used), newer.u64(v2.free));
  const v1 = NVML_STRUCTS.nvmlMemory_t;
  const out = reader.out();
  if (reader.ask(device, "nvmlDeviceGetMemoryInfo", [out.bytes]) !== NVML_CODES.success)
    return memoryRecord(undefined, undefined, undefined);
  return memoryRecord(out.u64(v1.total), out.u64(v1.used), out.u64(v1.free));
}

function memoryRecord(total: bigint | undefined, used: bigint | undefined, free: bigint | undefined) {
  const bytes = (value: bigint | undefined): number | undefined => (value === undefined ? undefined : Number(value));
  return { memory_total_bytes: bytes(total), memory_used_bytes: bytes(used), memory_free_bytes: bytes(free) };
}
