/**
 * Joins what nvidia-smi said in three forms (-L, -q -x, topo -m) into devices (DESIGN.md, section 6). Pure.
 *
 * The list has index, UUID and the instances' names; the XML has the numbers and neither index nor instance UUID. They are joined by
 * card UUID and MIG device index, never by the order of elements, except where a UUID is missing or stands for several cards.
 */
import { parseBusId } from "../domain/bus-id.ts";
import { parseCpuList } from "../domain/cpu-list.ts";
import { classifyCard } from "../domain/gpu-class.ts";
import type { Gpu, GpuProcess, Health, MigIdentity, NvlinkDomain, UnusableCard } from "../domain/inventory.ts";
import { migClass, migDeviceIndex, migLabel } from "../domain/mig.ts";
import { compact } from "../lib/compact.ts";
import { cardProblems } from "./health.ts";
import type { ListedCard, ListedInstance, ListReport } from "./nvidia-smi/list.ts";
import type { RawCard, RawMigDevice, RawProcess } from "./nvidia-smi/query.ts";
import { nearestNics, type TopologyCard, type TopologyReport } from "./nvidia-smi/topology.ts";

/** A card of the query. `index` where it is known from elsewhere (NVML, a query card by card), compute capability from NVML. */
export type QueriedCard = RawCard & { readonly index?: number; readonly computeCapability?: string | undefined };

/** One card as far as both views know it. */
export interface JoinedCard {
  readonly index: number | undefined;
  readonly listed: ListedCard | undefined;
  readonly raw: QueriedCard | undefined;
}

export interface CardSources {
  /** `undefined` when `-L` did not answer usefully. */
  readonly list: ListReport | undefined;
  /** `undefined` when neither `-q -x` nor the queries card by card answered. */
  readonly query: { readonly cards: readonly QueriedCard[] } | undefined;
  /** Why the query says nothing, for the cards that only the list knows. */
  readonly queryProblem: string | undefined;
  readonly topology: TopologyReport | undefined;
  /** NVLinks per peer by card index, where NVML told them: more exact than the matrix of topo, which fills what is missing here. */
  readonly nvlinks?: ReadonlyMap<number, Readonly<Record<string, number>>> | undefined;
  /** Placing of a card on the bus, from sysfs, by bus id; for what topo does not say. */
  readonly places: ReadonlyMap<string, CardPlace>;
}

export interface CardPlace {
  readonly numa_node: number | undefined;
  readonly cpu_affinity: string | undefined;
  readonly nearest_hcas: readonly string[] | undefined;
}

export interface Devices {
  readonly gpus: readonly Gpu[];
  readonly unusable_cards: readonly UnusableCard[];
  readonly warnings: readonly string[];
}

/** Devices that a replica can be placed on, and cards that none can. */
export function joinDevices(sources: CardSources): Devices {
  const joined = joinCards(sources.list, sources.query);
  const gpus: Gpu[] = [];
  const unusable: UnusableCard[] = [];
  const warnings: string[] = [];
  for (const card of joined) {
    const reason = unusableReason(card);
    if (reason !== undefined || card.index === undefined) {
      unusable.push(unusableCard(card, reason ?? "its index is not known"));
      continue;
    }
    const made = makeDevices(card, card.index, sources);
    gpus.push(...made.gpus);
    warnings.push(...made.warnings);
  }
  unusable.push(...inaccessibleCards(sources.list, unusable, gpus));
  return {
    gpus: withPeers(
      gpus.sort((a, b) => order(a) - order(b)),
      sources,
    ),
    unusable_cards: unusable,
    warnings,
  };
}

function order(gpu: Gpu): number {
  return gpu.mig === undefined ? gpu.index * 1000 : gpu.mig.card * 1000 + 1 + gpu.mig.instance;
}

/** Pairs list and XML. A UUID that is unique on both sides decides; what is left over is paired in order when the numbers agree. */
export function joinCards(list: ListReport | undefined, query: CardSources["query"]): readonly JoinedCard[] {
  const raws = query?.cards ?? [];
  if (list === undefined || list.cards.length === 0) {
    // Without a list, document order is index order as long as every card answers (all drivers seen).
    return raws.map((raw, at) => ({ index: raw.index ?? at, listed: undefined, raw }));
  }
  const pairs = new Map<ListedCard, QueriedCard>();
  for (const listed of list.cards) {
    const sameUuid = raws.filter((raw) => raw.uuid !== undefined && raw.uuid === listed.uuid);
    const twins = list.cards.filter((other) => other.uuid === listed.uuid);
    const [only] = sameUuid;
    if (only !== undefined && sameUuid.length === 1 && twins.length === 1) pairs.set(listed, only);
  }
  const paired = new Set(pairs.values());
  const looseRaws = raws.filter((raw) => !paired.has(raw));
  const looseListed = list.cards.filter((listed) => !pairs.has(listed));
  // Two UUIDs that differ are two cards, however well the numbers agree.
  const inOrder =
    looseRaws.length === looseListed.length &&
    looseListed.every(({ uuid }, at) => uuid === undefined || (looseRaws[at]?.uuid ?? uuid) === uuid);
  if (inOrder) {
    for (const [at, listed] of looseListed.entries()) {
      const raw = looseRaws[at];
      if (raw !== undefined) pairs.set(listed, raw);
    }
  }
  const known = list.cards.map((listed) => ({ index: listed.index, listed, raw: pairs.get(listed) }));
  // A part that was cut off before its UUID is one of the listed cards that nothing is known about; it is no card more.
  const nameless = (raw: QueriedCard): boolean => raw.uuid === undefined && !raw.lost && looseListed.length > 0;
  const unlisted = inOrder ? [] : looseRaws.filter((raw) => !nameless(raw)).map((raw) => ({ index: raw.index, listed: undefined, raw }));
  return [...known, ...unlisted];
}

function unusableReason(card: JoinedCard): string | undefined {
  const { listed, raw } = card;
  if (raw?.lost === true) return "the card is lost: it has fallen off the bus or does not answer; reboot the node";
  const uuid = raw?.uuid ?? listed?.uuid;
  if (uuid === undefined) return "the driver gives no UUID for it";
  if (raw?.migCurrent === "enabled" && raw.migDevices.length === 0 && (listed?.instances.length ?? 0) === 0) {
    const pending = raw.migPending === "disabled" ? "; MIG will be disabled after the next reset" : "";
    return `MIG is on but nothing is carved: the card can run nothing${pending}`;
  }
  return undefined;
}

function unusableCard(card: JoinedCard, reason: string): UnusableCard {
  const uuid = card.raw?.uuid ?? card.listed?.uuid;
  const name = card.raw?.name ?? card.listed?.name;
  const busId = card.raw === undefined ? undefined : parseBusId(card.raw.busId);
  return {
    ...(card.index === undefined ? {} : { index: card.index }),
    ...(uuid === undefined ? {} : { uuid }),
    ...(name === undefined ? {} : { name }),
    ...(busId === undefined ? {} : { pci_bus_id: busId }),
    reason,
  };
}

/** Cards that `-L` names only in an error sentence. */
function inaccessibleCards(list: ListReport | undefined, known: readonly UnusableCard[], gpus: readonly Gpu[]): readonly UnusableCard[] {
  return (list?.inaccessible ?? []).flatMap((card) => {
    const busId = card.busId === undefined ? undefined : parseBusId(card.busId);
    const seen = (other: { readonly index?: number | undefined; readonly pci_bus_id?: string | undefined }): boolean =>
      (busId !== undefined && other.pci_bus_id === busId) || (card.index !== undefined && other.index === card.index);
    if (known.some(seen) || gpus.some(seen)) return [];
    return [
      {
        ...(card.index === undefined ? {} : { index: card.index }),
        ...(busId === undefined ? {} : { pci_bus_id: busId }),
        reason: card.text,
      },
    ];
  });
}

function makeDevices(
  card: JoinedCard,
  index: number,
  sources: CardSources,
): { readonly gpus: readonly Gpu[]; readonly warnings: readonly string[] } {
  const listedInstances = card.listed?.instances ?? [];
  if (card.raw?.migCurrent !== "enabled" && listedInstances.length === 0) {
    return { gpus: [wholeCard(card, index, sources)], warnings: derivedWarning(card, index) };
  }
  const instances = joinInstances(listedInstances, card.raw?.migDevices ?? []);
  const gpus = instances.flatMap((instance) => migInstance(card, index, instance, sources));
  const nameless = instances.length - gpus.length;
  const warnings =
    nameless === 0
      ? []
      : [`card ${index}: ${nameless} MIG instances whose profile and UUID the driver does not tell; they are not offered`];
  return { gpus, warnings: [...warnings, ...derivedWarning(card, index)] };
}

function derivedWarning(card: JoinedCard, index: number): readonly string[] {
  const name = nameOf(card);
  const found = classifyCard(name, card.raw?.memoryTotalMb);
  return found.derived ? [`card ${index}: "${name}" is not a known product; its class ${found.class} is derived from name and memory`] : [];
}

interface JoinedInstance {
  readonly device: number;
  readonly listed: ListedInstance | undefined;
  readonly raw: RawMigDevice | undefined;
}

function joinInstances(listed: readonly ListedInstance[], raws: readonly RawMigDevice[]): readonly JoinedInstance[] {
  const devices = new Set([...listed.map((instance) => instance.device), ...raws.map((raw) => raw.index)]);
  return [...devices]
    .sort((a, b) => a - b)
    .map((device) => ({
      device,
      listed: listed.find((instance) => instance.device === device),
      raw: raws.find((raw) => raw.index === device),
    }));
}

function nameOf(card: JoinedCard): string {
  return card.raw?.name ?? card.listed?.name ?? "";
}

function wholeCard(card: JoinedCard, index: number, sources: CardSources): Gpu {
  const { raw } = card;
  const name = nameOf(card);
  const found = classifyCard(name, raw?.memoryTotalMb);
  return compact({
    index,
    label: String(index),
    uuid: raw?.uuid ?? card.listed?.uuid ?? "",
    name,
    class: found.class,
    memory_total_mb: raw?.memoryTotalMb,
    memory_used_mb: raw?.memoryUsedMb,
    compute_capability: raw?.computeCapability ?? found.computeCapability,
    ...placing(card, index, sources),
    nvlink_domain: nvlinkDomain(raw),
    health: healthOf(raw === undefined ? [unreadProblem(sources)] : cardProblems(raw)),
    temperature_c: raw?.temperatureC,
    power_w: raw?.powerW,
    power_limit_w: raw?.powerLimitW,
    utilization_pct: raw?.utilizationPct,
    processes: raw?.processes?.map(process),
  });
}

function migInstance(card: JoinedCard, index: number, instance: JoinedInstance, sources: CardSources): readonly Gpu[] {
  const { listed, raw } = instance;
  if (listed === undefined) return [];
  const name = nameOf(card);
  const found = classifyCard(name, card.raw?.memoryTotalMb);
  const gpuInstance = raw?.gpuInstanceId ?? listed.gpuInstanceId;
  const computeInstance = raw?.computeInstanceId ?? listed.computeInstanceId;
  const mig: MigIdentity = compact({
    card: index,
    instance: instance.device,
    profile: listed.profile,
    gpu_instance_id: gpuInstance,
    compute_instance_id: computeInstance,
  });
  return [
    compact({
      index: migDeviceIndex(index, instance.device),
      label: migLabel(index, instance.device),
      uuid: listed.uuid,
      name,
      class: migClass(found.class, listed.profile),
      memory_total_mb: raw?.memoryTotalMb,
      memory_used_mb: raw?.memoryUsedMb,
      compute_capability: card.raw?.computeCapability ?? found.computeCapability,
      ...placing(card, index, sources),
      mig,
      nvlink_domain: nvlinkDomain(card.raw),
      health: healthOf([...instanceProblems(instance, sources, card), ...(card.raw === undefined ? [] : cardProblems(card.raw))]),
      temperature_c: card.raw?.temperatureC,
      power_w: card.raw?.powerW,
      power_limit_w: card.raw?.powerLimitW,
      processes: instanceProcesses(card.raw, gpuInstance, computeInstance),
    }),
  ];
}

function instanceProblems(instance: JoinedInstance, sources: CardSources, card: JoinedCard): readonly string[] {
  const { listed, raw } = instance;
  const problems: string[] = [];
  if (listed?.oldForm === true) problems.push("its UUID has the form of a driver before R470: the driver is too old to offer instances");
  if (card.raw === undefined) problems.push(unreadProblem(sources));
  else if (raw === undefined) problems.push("nvidia-smi -q -x does not show this instance, though -L lists it");
  const disagrees =
    raw !== undefined &&
    listed !== undefined &&
    ((listed.gpuInstanceId !== undefined && raw.gpuInstanceId !== undefined && listed.gpuInstanceId !== raw.gpuInstanceId) ||
      (listed.computeInstanceId !== undefined &&
        raw.computeInstanceId !== undefined &&
        listed.computeInstanceId !== raw.computeInstanceId));
  if (disagrees) problems.push("-L and -q -x disagree on its GPU instance or compute instance");
  if (raw?.sramUncorrectable !== undefined && raw.sramUncorrectable > 0)
    problems.push(`${raw.sramUncorrectable} uncorrectable SRAM errors in this instance`);
  return problems;
}

function unreadProblem(sources: CardSources): string {
  return sources.queryProblem ?? "nvidia-smi -q -x does not show this card, though -L lists it";
}

function healthOf(problems: readonly string[]): Health {
  return { ok: problems.length === 0, problems: [...problems] };
}

function placing(card: JoinedCard, index: number, sources: CardSources) {
  const busId = card.raw === undefined ? undefined : parseBusId(card.raw.busId);
  const row = sources.topology?.cards.find((candidate) => candidate.index === index);
  const place = busId === undefined ? undefined : sources.places.get(busId);
  const affinity = row?.cpuAffinity === undefined ? undefined : parseCpuList(row.cpuAffinity);
  return {
    pci_bus_id: busId,
    numa_node: numaNode(row) ?? place?.numa_node,
    cpu_affinity: affinity ?? place?.cpu_affinity,
    nearest_hcas: nearestHcas(row, sources.topology) ?? place?.nearest_hcas?.slice(),
  };
}

/** A single number; Grace systems print a list of nodes, which names no one node. */
function numaNode(row: TopologyCard | undefined): number | undefined {
  return row?.numaAffinity !== undefined && /^\d{1,4}$/.test(row.numaAffinity) ? Number(row.numaAffinity) : undefined;
}

/** Adapters of the smallest distance below SYS; none across the sockets. Without adapters in the matrix it says nothing. */
function nearestHcas(row: TopologyCard | undefined, topology: TopologyReport | undefined): string[] | undefined {
  if (row === undefined || topology === undefined || topology.nics.length === 0) return undefined;
  return [...(nearestNics(row)?.names ?? [])];
}

/** Peers are whole cards that are offered: a carved or a lost card is no one's peer. */
function withPeers(gpus: readonly Gpu[], sources: CardSources): readonly Gpu[] {
  const whole = new Set(gpus.filter((gpu) => gpu.mig === undefined).map((gpu) => gpu.index));
  return gpus.map((gpu) => {
    const known = sources.nvlinks?.get(gpu.index) ?? sources.topology?.cards.find((candidate) => candidate.index === gpu.index)?.nvlinks;
    if (gpu.mig !== undefined || known === undefined) return gpu;
    const links = Object.entries(known).filter(([peer]) => whole.has(Number(peer)));
    const peers = links.map(([peer]) => Number(peer)).sort((a, b) => a - b);
    return { ...gpu, nvlink_peers: peers, nvlinks: Object.fromEntries(links) };
  });
}

function nvlinkDomain(raw: RawCard | undefined): NvlinkDomain | undefined {
  const fabric = raw?.fabric;
  if (fabric === undefined) return undefined;
  const state = underscored(fabric.state);
  const trivial = fabric.clusterUuid === undefined || /^[0-]*$/.test(fabric.clusterUuid);
  const completed = state === "completed" && !trivial;
  return compact({
    state,
    status: fabric.status === undefined ? undefined : underscored(fabric.status),
    cluster_uuid: completed ? fabric.clusterUuid : undefined,
    clique_id: completed ? fabric.cliqueId : undefined,
  });
}

function underscored(text: string): string {
  return text.trim().toLowerCase().replace(/\s+/g, "_");
}

function process(raw: RawProcess): GpuProcess {
  return compact({ pid: raw.pid, name: raw.name, memory_mb: raw.memoryMb });
}

/** Those of the card's processes that carry the instance's ids. Without ids nobody knows whose they are. */
function instanceProcesses(
  raw: RawCard | undefined,
  gpuInstance: number | undefined,
  computeInstance: number | undefined,
): GpuProcess[] | undefined {
  if (raw?.processes === undefined || gpuInstance === undefined) return undefined;
  return raw.processes
    .filter((candidate) => candidate.gpuInstanceId === gpuInstance && (candidate.computeInstanceId ?? computeInstance) === computeInstance)
    .map(process);
}
