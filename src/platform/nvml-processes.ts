/** Processes on a card or a MIG device. */
import { compact } from "../lib/compact.ts";
import { NO_INSTANCE, NO_VALUE_U64, NVML_CODES, NVML_STRUCTS, type NvmlSymbol, processStride } from "./nvml-layout.ts";
import { type Device, type Reader, Scratch } from "./nvml-reader.ts";
import type { NvmlProcess } from "./nvml-snapshot.ts";

/** What is the same for all cards of one look. */
export interface Look {
  readonly driverVersion: string | undefined;
  /** Names of the processes that were asked for. */
  readonly names: Map<number, string | undefined>;
}

type Kind = "compute" | "graphics" | "mps";

/** By kind the functions to try, newest first: each names its own entry size. */
const LISTS: readonly { readonly kind: Kind; readonly symbols: readonly NvmlSymbol[] }[] = [
  {
    kind: "compute",
    symbols: ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"],
  },
  { kind: "graphics", symbols: ["nvmlDeviceGetGraphicsRunningProcesses_v3"] },
  { kind: "mps", symbols: ["nvmlDeviceGetMPSComputeRunningProcesses_v3"] },
];

/** By pid; a process that is in several lists is one. `undefined` when the compute list is refused, as on a MIG parent without privilege. */
export function readProcesses(reader: Reader, device: Device, look: Look): NvmlProcess[] | undefined {
  const lists = LISTS.map(({ kind, symbols }) => ({ kind, entries: readList(reader, device, symbols, look.driverVersion) }));
  if (lists[0]?.entries === undefined) return undefined;
  const merged = new Map<string, Entry & { readonly kind: NvmlProcess["type"] }>();
  for (const { kind, entries } of lists) {
    for (const entry of entries ?? []) {
      const key = `${entry.pid}/${entry.gpuInstance}/${entry.computeInstance}`;
      const other = merged.get(key);
      merged.set(key, { ...(other ?? entry), kind: other === undefined ? kind : together(other.kind, kind) });
    }
  }
  const byPid = [...merged.values()].sort((a, b) => a.pid - b.pid);
  return byPid.map((entry) =>
    compact({
      pid: entry.pid,
      name: processName(reader, entry.pid, look),
      type: entry.kind,
      memory_used_bytes: entry.bytes,
      gpu_instance_id: entry.gpuInstance,
      compute_instance_id: entry.computeInstance,
    }),
  );
}

function together(one: NvmlProcess["type"], other: Kind): NvmlProcess["type"] {
  if (one === "compute" && other === "graphics") return "compute+graphics";
  return other === "mps" ? "mps" : one;
}

interface Entry {
  readonly pid: number;
  readonly bytes: number | undefined;
  readonly gpuInstance: number | undefined;
  readonly computeInstance: number | undefined;
}

/** Room for this many at first; a list that has grown meanwhile says its new length. */
const FIRST_ROOM = 64;
const SLACK = 16;
const MAX_ENTRIES = 65_536;
const TRIES = 4;

function readList(
  reader: Reader,
  device: Device,
  symbols: readonly NvmlSymbol[],
  driverVersion: string | undefined,
): readonly Entry[] | undefined {
  for (const symbol of symbols) {
    let room = FIRST_ROOM;
    for (let tries = 0; tries < TRIES; tries++) {
      // Always for the largest entry that any driver wrote.
      const entries = new Scratch((room + 1) * NVML_STRUCTS.nvmlProcessInfo_r535_early_t.size);
      const count = reader.out().setU32(0, room);
      const code = reader.ask(device, symbol, [count.bytes, entries.bytes], [NVML_CODES.insufficientSize]);
      if (code === NVML_CODES.success) return decode(entries, Math.min(count.u32(), room), processStride(symbol, driverVersion));
      if (code !== NVML_CODES.insufficientSize) break;
      room = Math.min(count.u32() + SLACK, MAX_ENTRIES);
    }
    const missing = device.codes[symbol] === NVML_CODES.functionNotFound;
    if (!missing) return undefined;
  }
  return undefined;
}

function decode(entries: Scratch, count: number, stride: number): readonly Entry[] {
  const layout = NVML_STRUCTS.nvmlProcessInfo_v2_t;
  const hasInstances = stride > NVML_STRUCTS.nvmlProcessInfo_v1_t.size;
  return Array.from({ length: count }, (_, at) => {
    const from = at * stride;
    const bytes = entries.u64(from + layout.usedGpuMemory);
    return {
      pid: entries.u32(from + layout.pid),
      bytes: bytes === NO_VALUE_U64 ? undefined : Number(bytes),
      gpuInstance: hasInstances ? instanceId(entries.u32(from + layout.gpuInstanceId)) : undefined,
      computeInstance: hasInstances ? instanceId(entries.u32(from + layout.computeInstanceId)) : undefined,
    };
  });
}

function instanceId(value: number): number | undefined {
  return value === NO_INSTANCE ? undefined : value;
}

const NAME_BYTES = 240;

/** As the driver tells it, which is cropped; asked once per look. */
function processName(reader: Reader, pid: number, look: Look): string | undefined {
  if (look.names.has(pid)) return look.names.get(pid);
  const out = reader.out();
  const code = reader.system("nvmlSystemGetProcessName", pid, out.bytes, NAME_BYTES);
  const name = code === NVML_CODES.success ? out.text(0, NAME_BYTES) : undefined;
  look.names.set(pid, name);
  return name;
}
