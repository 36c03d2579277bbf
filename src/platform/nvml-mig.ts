/** MIG devices of a card in MIG mode. */
import { compact } from "../lib/compact.ts";
import { GPU_INSTANCE_PROFILES, NVML_CODES, NVML_STRUCTS, NVML_VERSIONS } from "./nvml-layout.ts";
import { readMemory } from "./nvml-memory.ts";
import { type Look, readProcesses } from "./nvml-processes.ts";
import type { Device, Reader } from "./nvml-reader.ts";
import type { NvmlMigDevice } from "./nvml-snapshot.ts";

/** Slots beyond this are nonsense: cards have 7 or 8. */
const MAX_SLOTS = 64;
/** An empty slot: slots are not compact. */
const HOLE: readonly number[] = [NVML_CODES.notFound, NVML_CODES.invalidArgument];
const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** Devices by slot; `undefined` when the number of slots is not known. Handles are of this look only: they are used again. */
export function readMigDevices(
  reader: Reader,
  card: Device,
  slots: number | undefined,
  parentBytes: number | undefined,
  look: Look,
): NvmlMigDevice[] | undefined {
  if (slots === undefined) return undefined;
  return Array.from({ length: Math.min(slots, MAX_SLOTS) }, (_, slot) => slot).flatMap((slot) => {
    const out = reader.out();
    const code = reader.ask(card, "nvmlDeviceGetMigDeviceHandleByIndex", [slot, out.bytes], HOLE);
    if (code !== NVML_CODES.success) return [];
    const device: Device = { handle: out.u64(), fate: card.fate, codes: {} };
    return [readMigDevice(reader, card, device, slot, parentBytes, look)];
  });
}

function readMigDevice(
  reader: Reader,
  card: Device,
  device: Device,
  slot: number,
  parentBytes: number | undefined,
  look: Look,
): NvmlMigDevice {
  const uuid = reader.text(device, "nvmlDeviceGetUUID");
  const name = reader.text(device, "nvmlDeviceGetName");
  const attributes = readAttributes(reader, device);
  const gpuInstance = reader.u32(device, "nvmlDeviceGetGpuInstanceId");
  const named = profileInName(name) ?? profileOfInstance(reader, card, gpuInstance, attributes);
  const derived = named === undefined ? deriveProfile(attributes, parentBytes) : undefined;
  const record = {
    slot,
    uuid,
    name,
    profile: named ?? derived,
    profile_derived: derived === undefined ? undefined : true,
    gpu_instance_id: gpuInstance,
    compute_instance_id: reader.u32(device, "nvmlDeviceGetComputeInstanceId"),
    ...readMemory(reader, device),
    ...attributes,
    sram_uncorrected: reader.u64(device, "nvmlDeviceGetMemoryErrorCounter", [UNCORRECTED, VOLATILE, SRAM]),
    processes: readProcesses(reader, device, look),
  };
  return compact({ ...record, codes: Object.keys(device.codes).length === 0 ? undefined : device.codes });
}

const UNCORRECTED = 1;
const VOLATILE = 0;
const SRAM = 7;

interface Attributes {
  readonly sm_count?: number;
  readonly gpu_instance_slices?: number;
  readonly compute_instance_slices?: number;
  readonly memory_size_mb?: number;
}

function readAttributes(reader: Reader, device: Device): Attributes {
  const layout = NVML_STRUCTS.nvmlDeviceAttributes_t;
  const out = reader.out();
  if (reader.ask(device, "nvmlDeviceGetAttributes_v2", [out.bytes]) !== NVML_CODES.success) return {};
  return {
    sm_count: out.u32(layout.multiprocessorCount),
    gpu_instance_slices: out.u32(layout.gpuInstanceSliceCount),
    compute_instance_slices: out.u32(layout.computeInstanceSliceCount),
    memory_size_mb: Number(out.u64(layout.memorySizeMB)),
  };
}

/** A MIG device's name ends in its profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`. Needs no privilege. */
function profileInName(name: string | undefined): string | undefined {
  return / MIG (\S*\dg\.\d+gb\S*)$/.exec(name ?? "")?.[1];
}

/** The profile of the GPU instance, which only a privileged caller is told, with the compute slices in front where they are fewer. */
function profileOfInstance(reader: Reader, card: Device, instance: number | undefined, attributes: Attributes): string | undefined {
  if (instance === undefined) return undefined;
  const out = reader.out();
  if (reader.ask(card, "nvmlDeviceGetGpuInstanceById", [instance, out.bytes]) !== NVML_CODES.success) return undefined;
  const handle: Device = { handle: out.u64(), fate: card.fate, codes: card.codes };
  const info = reader.out();
  if (reader.ask(handle, "nvmlGpuInstanceGetInfo", [info.bytes]) !== NVML_CODES.success) return undefined;
  const id = info.u32(NVML_STRUCTS.nvmlGpuInstanceInfo_t.profileId);
  for (let profile = 0; profile < GPU_INSTANCE_PROFILES; profile++) {
    const known = profileInfo(reader, card, profile);
    if (known === undefined || known.id !== id) continue;
    const { compute_instance_slices: compute, gpu_instance_slices: gpu } = attributes;
    return compute === undefined || compute === gpu ? known.name : `${compute}c.${known.name}`;
  }
  return undefined;
}

/** Both versions of the struct have the same size and other offsets. */
const PROFILE_INFO = [
  { version: NVML_VERSIONS.nvmlGpuInstanceProfileInfo_v3, layout: NVML_STRUCTS.nvmlGpuInstanceProfileInfo_v3_t },
  { version: NVML_VERSIONS.nvmlGpuInstanceProfileInfo_v2, layout: NVML_STRUCTS.nvmlGpuInstanceProfileInfo_v2_t },
];
/** Most cards lack most profiles. */
const NO_PROFILE: readonly number[] = [NVML_CODES.notSupported, NVML_CODES.invalidArgument];

function profileInfo(reader: Reader, card: Device, profile: number): { readonly id: number; readonly name: string } | undefined {
  for (const { version, layout } of PROFILE_INFO) {
    const out = reader.out().setU32(0, version);
    const code = reader.ask(card, "nvmlDeviceGetGpuInstanceProfileInfoV", [profile, out.bytes], NO_PROFILE);
    if (code === NVML_CODES.notSupported) return undefined;
    if (code !== NVML_CODES.success) continue;
    const name = /(\d+g\.\d+gb\S*)$/.exec(out.text(layout.name) ?? "")?.[1];
    return name === undefined ? undefined : { id: out.u32(layout.id), name };
  }
  return undefined;
}

/**
 * The profile computed from slices and memory, where the name does not say it: `+me` and its like cannot be told this way. The number of
 * GB is the instance's share of the card in eighths, rounded up, of the card's whole GiB (go-nvlib's rule, checked on A100, H100, H200).
 */
function deriveProfile(attributes: Attributes, parentBytes: number | undefined): string | undefined {
  const { gpu_instance_slices: gpu, compute_instance_slices: compute, memory_size_mb: size } = attributes;
  if (gpu === undefined || compute === undefined || size === undefined || parentBytes === undefined || parentBytes === 0) return undefined;
  const eighths = Math.ceil(((size * MIB) / parentBytes) * 8);
  const gb = Math.round((eighths / 8) * Math.ceil(parentBytes / GIB));
  return compute === gpu ? `${gpu}g.${gb}gb` : `${compute}c.${gpu}g.${gb}gb`;
}
