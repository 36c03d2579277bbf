/**
 * The PCI bus as the kernel shows it: which adapter is near which card where `nvidia-smi topo` does not say, and which NVIDIA cards
 * there are where nvidia-smi does not answer. Sources: Documentation/ABI/testing/sysfs-bus-pci; the driver's own /proc/driver/nvidia.
 */
import { parseBusId } from "../domain/bus-id.ts";
import { parseCpuList } from "../domain/cpu-list.ts";
import { printable } from "../lib/printable.ts";
import { type Runner, RunnerError, readText } from "../platform/runner.ts";

const PCI_DEVICES = "/sys/bus/pci/devices";
const READ = { timeoutMs: 2_000, maxBytes: 64 * 1024 };

/** Where one PCI function sits. */
export interface PciPlace {
  readonly busId: string;
  /**
   * The way to it from the first host bridge on: `pci0000:15`, its root port and the switches below it, the function itself.
   * `undefined` when its link could not be followed.
   */
  readonly path: readonly string[] | undefined;
  readonly numaNode: number | undefined;
  /** CPU list of its node: `0-47,96-143`. */
  readonly cpuList: string | undefined;
}

/** Places of PCI functions by bus id, in the form of `parseBusId`. One that the kernel does not know is left out. */
export async function discoverPci(runner: Runner, busIds: readonly string[]): Promise<ReadonlyMap<string, PciPlace>> {
  const asked = new Set(busIds.flatMap((text) => parseBusId(text) ?? []));
  const places = await Promise.all([...asked].map((busId) => placeOf(runner, busId)));
  return new Map(places.filter((place) => place !== undefined).map((place) => [place.busId, place]));
}

async function placeOf(runner: Runner, busId: string): Promise<PciPlace | undefined> {
  const folder = `${PCI_DEVICES}/${busId}`;
  const path = await unlessRefused(() => runner.realPath(folder, READ));
  if (path === undefined) return undefined;
  const [numaNode, cpuList] = await Promise.all([
    unlessRefused(() => readText(runner, `${folder}/numa_node`, READ)),
    unlessRefused(() => readText(runner, `${folder}/local_cpulist`, READ)),
  ]);
  return { busId, path: parseDevicePath(path, busId), numaNode: parseNumaNode(numaNode ?? ""), cpuList: parseCpuList(cpuList ?? "") };
}

/** A refusal costs the one fact. */
async function unlessRefused<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof RunnerError && error.kind !== "aborted") return undefined;
    throw error;
  }
}

/** `-1` is the kernel's word for "not known": machines with one node, and many virtual ones. */
export function parseNumaNode(text: string): number | undefined {
  return /^\s*\d{1,5}\s*$/.test(text) ? Number(text) : undefined;
}

/**
 * The part of a device's path that tells what it shares with others. Ahead of the host bridge may stand the platform's own folders
 * (`platform/…` on Arm, `LNXSYSTM:00/…/VMBUS:00/…` under Hyper-V). `undefined` when it does not end at that function.
 */
export function parseDevicePath(path: string, busId: string): readonly string[] | undefined {
  const parts = path.split("/").filter((part) => part !== "");
  const from = parts.findIndex(isHostBridge);
  return from < 0 || parts.at(-1) !== busId ? undefined : parts.slice(from);
}

function isHostBridge(part: string): boolean {
  return /^pci[0-9a-f]{4,8}:[0-9a-f]{2}$/.test(part);
}

/** An adapter with its place: `undefined` where that is not known, or where the adapter is not on the bus. */
export interface PlacedAdapter {
  readonly name: string;
  readonly place: PciPlace | undefined;
}

/** How near two functions are; only the kinds that count as near, nearest first. */
type Nearness = { readonly kind: "bridge"; readonly hops: number } | { readonly kind: "host-bridge" } | { readonly kind: "numa-node" };

/**
 * The adapters nearest to a card, in the order given, ties all listed: under a shared PCIe bridge the one with the fewest steps
 * (nvidia-smi's PIX and PXB), else under the same host bridge (PHB), else on the same NUMA node (NODE). Never across sockets: `[]` says
 * that all are known to be far, `undefined` that it cannot be told. An unknown NUMA node is equal to no other.
 */
export function nearestAdapters(card: PciPlace, adapters: readonly PlacedAdapter[]): readonly string[] | undefined {
  const near = adapters.flatMap(({ name, place }) => {
    const nearness = place === undefined ? undefined : nearnessOf(card, place);
    return nearness === undefined ? [] : [{ name, rank: rankOf(nearness) }];
  });
  const best = Math.min(...near.map((one) => one.rank));
  if (near.length > 0) return near.filter((one) => one.rank === best).map((one) => one.name);
  const known = adapters.every(({ place }) => place?.numaNode !== undefined);
  return adapters.length === 0 || (known && card.numaNode !== undefined) ? [] : undefined;
}

function nearnessOf(card: PciPlace, adapter: PciPlace): Nearness | undefined {
  const shared = sharedParts(card.path ?? [], adapter.path ?? []);
  if (shared.some((part) => !isHostBridge(part))) {
    return { kind: "bridge", hops: (card.path?.length ?? 0) + (adapter.path?.length ?? 0) - 2 * shared.length };
  }
  if (shared.length > 0) return { kind: "host-bridge" };
  return card.numaNode !== undefined && card.numaNode === adapter.numaNode ? { kind: "numa-node" } : undefined;
}

function sharedParts(a: readonly string[], b: readonly string[]): readonly string[] {
  const differs = a.findIndex((part, at) => part !== b[at]);
  return differs < 0 ? a : a.slice(0, differs);
}

/** A path holds far fewer parts than this, so hops stay below it. */
const BEYOND_HOPS = 1_000_000;

function rankOf(nearness: Nearness): number {
  switch (nearness.kind) {
    case "bridge":
      return nearness.hops;
    case "host-bridge":
      return BEYOND_HOPS;
    case "numa-node":
      return BEYOND_HOPS + 1;
    default:
      return nearness satisfies never;
  }
}

/** A large server has hundreds of functions: not all of them at once. */
const AT_ONCE = 32;

/** Bus ids of NVIDIA's display and 3D controllers, rising; `undefined` when the bus cannot be listed (no PCI, or not allowed). */
export async function listNvidiaCards(runner: Runner): Promise<readonly string[] | undefined> {
  const names = await unlessRefused(() => runner.listDir(PCI_DEVICES, READ));
  if (names === undefined) return undefined;
  const busIds = names.flatMap((name) => parseBusId(name) ?? []);
  const cards: string[] = [];
  for (let at = 0; at < busIds.length; at += AT_ONCE) {
    const part = busIds.slice(at, at + AT_ONCE);
    const found = await Promise.all(part.map((busId) => isNvidiaCard(runner, busId)));
    cards.push(...part.filter((_, which) => found[which] === true));
  }
  return cards.sort(byBusId);
}

async function isNvidiaCard(runner: Runner, busId: string): Promise<boolean> {
  const vendor = await unlessRefused(() => readText(runner, `${PCI_DEVICES}/${busId}/vendor`, READ));
  if (vendor?.trim().toLowerCase() !== "0x10de") return false;
  const kind = await unlessRefused(() => readText(runner, `${PCI_DEVICES}/${busId}/class`, READ));
  return kind !== undefined && isCardClass(kind);
}

/** VGA (0300) and 3D (0302) controllers; NVIDIA's bridges, audio functions and NVSwitches (0680) have other classes. */
export function isCardClass(text: string): boolean {
  return /^\s*0x030[02][0-9a-f]{2}\s*$/i.test(text);
}

/** Order of bus ids. Longer domains are higher ones. */
export function byBusId(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

/** One card as the kernel module lists it, whether or not nvidia-smi gets through to it. */
export interface ProcCard {
  readonly busId: string;
  readonly model: string | undefined;
  readonly uuid: string | undefined;
  /** N of `/dev/nvidiaN`. */
  readonly minor: number | undefined;
}

export interface ProcNvidia {
  readonly driverVersion: string | undefined;
  /** By bus id, rising. */
  readonly cards: readonly ProcCard[];
}

const PROC_NVIDIA = "/proc/driver/nvidia";

/** What the loaded kernel module says without asking a card; `undefined` when it is not loaded. */
export async function discoverProcNvidia(runner: Runner): Promise<ProcNvidia | undefined> {
  const [version, names] = await Promise.all([
    unlessRefused(() => readText(runner, `${PROC_NVIDIA}/version`, READ)),
    unlessRefused(() => runner.listDir(`${PROC_NVIDIA}/gpus`, READ)),
  ]);
  if (version === undefined && names === undefined) return undefined;
  const cards = await Promise.all((names ?? []).map((name) => procCard(runner, name)));
  return {
    driverVersion: parseProcVersion(version ?? ""),
    cards: cards.filter((card) => card !== undefined).sort((a, b) => byBusId(a.busId, b.busId)),
  };
}

async function procCard(runner: Runner, name: string): Promise<ProcCard | undefined> {
  const busId = parseBusId(name);
  if (busId === undefined) return undefined;
  const text = await unlessRefused(() => readText(runner, `${PROC_NVIDIA}/gpus/${name}/information`, READ));
  return { busId, ...parseProcInformation(text ?? "") };
}

/**
 * The driver's version in the `NVRM version:` line, which reads `NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb …` or, from the
 * open modules, `NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build …`.
 */
export function parseProcVersion(text: string): string | undefined {
  const line = text.split("\n").find((candidate) => candidate.startsWith("NVRM version:"));
  return /\s(\d{2,4}\.\d{1,3}(?:\.\d{1,3})?)(?=\s|$)/.exec(line ?? "")?.[1];
}

/** `Key: <tabs and spaces> value` lines; a card that never came up has question marks for its UUID. */
export function parseProcInformation(text: string): Omit<ProcCard, "busId"> {
  const values = new Map<string, string>();
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) values.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  const uuid = values.get("gpu uuid") ?? "";
  const model = values.get("model") ?? "";
  const minor = values.get("device minor") ?? "";
  return {
    model: model === "" || /^unknown$/i.test(model) ? undefined : printable(model),
    uuid: /^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(uuid) ? uuid : undefined,
    minor: /^\d{1,6}$/.test(minor) ? Number(minor) : undefined,
  };
}
