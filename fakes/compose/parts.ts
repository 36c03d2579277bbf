/** Parts that machines are put together from, so that a description says only what is particular about its machine. */
import type { AdapterDescription, CardDescription, InstanceDescription, PortDescription } from "./description.ts";

/** A UUID that names its place: machine, kind, number. */
export function uuid(machine: number, kind: number, n: number): string {
  const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");
  return `${hex(0xc0de0000 + machine, 8)}-${hex(kind, 4)}-4000-8000-${hex(n, 12)}`;
}

/** Two sockets of 48 cores with two threads each: cards 0 to 3 on the first, 4 to 7 on the second. */
export const SOCKET_CPUS = ["0-47,96-143", "48-95,144-191"] as const;

const BRIDGES = ["15", "26", "3a", "5d", "97", "a8", "b7", "d7"] as const;

/** Where the nth card of an 8-slot server sits; adapters of the same slot share its bridge. */
export function slot(n: number): { readonly bridge: string; readonly numaNode: number; readonly cpuList: string; readonly bus: number } {
  const bridge = BRIDGES[n % 8] ?? "15";
  const numaNode = n % 8 < 4 ? 0 : 1;
  return { bridge, numaNode, cpuList: SOCKET_CPUS[numaNode] ?? SOCKET_CPUS[0], bus: Number.parseInt(bridge, 16) + 3 };
}

function busId(bus: number): string {
  return `0000:${bus.toString(16).padStart(2, "0")}:00.0`;
}

export interface Model {
  readonly name: string;
  readonly memoryMb: number;
  readonly reservedMb: number;
  readonly powerLimitW: number;
  readonly ecc: boolean;
}

/** Memory as the driver reports it: fact sheets on MIG and nvidia-smi. */
export const H100: Model = { name: "NVIDIA H100 80GB HBM3", memoryMb: 81559, reservedMb: 551, powerLimitW: 700, ecc: true };
export const A100_80: Model = { name: "NVIDIA A100-SXM4-80GB", memoryMb: 81920, reservedMb: 633, powerLimitW: 400, ecc: true };
export const L40S: Model = { name: "NVIDIA L40S", memoryMb: 46068, reservedMb: 612, powerLimitW: 350, ecc: true };
export const GB200: Model = { name: "NVIDIA GB200", memoryMb: 189471, reservedMb: 722, powerLimitW: 1200, ecc: true };
export const RTX4090: Model = { name: "NVIDIA GeForce RTX 4090", memoryMb: 24564, reservedMb: 352, powerLimitW: 450, ecc: false };
export const RTX_PRO_6000: Model = {
  name: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
  memoryMb: 97887,
  reservedMb: 636,
  powerLimitW: 600,
  ecc: true,
};

/** An idle, healthy card in slot n of a machine. */
export function card(machine: number, n: number, model: Model, particular: Partial<CardDescription> = {}): CardDescription {
  const place = slot(n);
  return {
    name: model.name,
    uuid: `GPU-${uuid(machine, 0x6e00, n)}`,
    busId: busId(place.bus),
    numaNode: place.numaNode,
    cpuList: place.cpuList,
    bridge: place.bridge,
    memoryMb: model.memoryMb,
    reservedMb: model.reservedMb,
    usedMb: 4,
    temperatureC: 28 + n,
    powerW: 62.5 + n,
    powerLimitW: model.powerLimitW,
    utilizationPct: 0,
    processes: [],
    ...(model.ecc ? { ecc: { volatileUncorrectable: 0, aggregateUncorrectable: 0 } } : {}),
    ...particular,
  };
}

/** MIG instances of a card in one list: device index, profile, ids, memory and SMs. */
export function instances(
  machine: number,
  n: number,
  rows: readonly (readonly [device: number, profile: string, gi: number, ci: number, memoryMb: number, sms: number, usedMb?: number])[],
): readonly InstanceDescription[] {
  return rows.map(([device, profile, gpuInstanceId, computeInstanceId, memoryMb, smCount, usedMb = 13]) => ({
    device,
    profile,
    uuid: `MIG-${uuid(machine, 0x5100 + n, device)}`,
    gpuInstanceId,
    computeInstanceId,
    memoryMb,
    usedMb,
    smCount,
  }));
}

const DEFAULT_PREFIX = "fe80:0000:0000:0000";

function portGuid(machine: number, n: number): string {
  return `0c42:a1${machine.toString(16).padStart(2, "0")}:00${n.toString(16).padStart(2, "0")}:7d1e`;
}

export function port(
  machine: number,
  n: number,
  particular: Partial<PortDescription> & { readonly prefix?: string } = {},
): PortDescription {
  const { prefix = DEFAULT_PREFIX, ...rest } = particular;
  return {
    state: "4: ACTIVE",
    physState: "5: LinkUp",
    rate: "400 Gb/sec (4X NDR)",
    linkLayer: "InfiniBand",
    gid: `${prefix}:${portGuid(machine, n)}`,
    lid: 0x20 + n,
    smLid: 1,
    ...rest,
  };
}

/** A ConnectX-7 with one port beside the card of slot n. */
export function adapter(machine: number, n: number, particular: Partial<AdapterDescription> = {}): AdapterDescription {
  const place = slot(n);
  return {
    name: `mlx5_${n}`,
    busId: busId(place.bus + 1),
    numaNode: place.numaNode,
    cpuList: place.cpuList,
    bridge: place.bridge,
    firmware: "28.39.3560",
    boardId: "MT_0000000838",
    hcaType: "MT4129",
    nodeGuid: portGuid(machine, n),
    netdevs: [`ibp${place.bus + 1}s0`],
    ports: [port(machine, n)],
    ...particular,
  };
}
