/**
 * From an NVML snapshot to the records that nvidia-smi's text gives, so that one join makes devices of both (cards.ts). Pure.
 *
 * Only NVML knows: the compute capability as the driver says it, peers through NVSwitches link by link, instance UUIDs together with
 * their ids. Only text knows: distances to adapters (`topo -m`), `gpu_reset_status` of drivers 535 to 570 (NVML has the recovery action
 * from 565 on), and the tool's own sentences about a lost card.
 */
import { parseBusId } from "../domain/bus-id.ts";
import { printable } from "../lib/printable.ts";
import { codeWord, NVML_CODES } from "../platform/nvml-layout.ts";
import type { NvmlCard, NvmlFabric, NvmlMigDevice, NvmlProcess, NvmlSnapshot } from "../platform/nvml-snapshot.ts";
import type { QueriedCard } from "./cards.ts";
import type { ListedCard, ListedInstance, ListReport } from "./nvidia-smi/list.ts";
import type { RawClockReasons, RawFabric, RawMigDevice, RawProcess } from "./nvidia-smi/query.ts";

export interface NvmlRecords {
  readonly list: ListReport;
  readonly query: { readonly cards: readonly QueriedCard[] };
  /** NVLinks per peer index, by card index; a card whose links could not be read is missing. */
  readonly nvlinks: ReadonlyMap<number, Readonly<Record<string, number>>>;
}

export function readSnapshot(snapshot: NvmlSnapshot): NvmlRecords {
  const open = snapshot.cards.filter((card) => !isClosed(card));
  return {
    list: { cards: open.map(listedCard), inaccessible: snapshot.cards.filter(isClosed).map(inaccessibleCard), warnings: [] },
    query: { cards: open.map(queriedCard) },
    nvlinks: peersOf(snapshot.cards),
  };
}

/** No handle: nothing is known but that there is such a card. */
function isClosed(card: NvmlCard): boolean {
  return card.error !== undefined && card.uuid === undefined && card.pci_bus_id === undefined;
}

function inaccessibleCard(card: NvmlCard) {
  const { error } = card;
  const why = error === undefined ? "gives no handle" : `${error.word} (${error.code})`;
  const lost = error?.code === NVML_CODES.gpuIsLost ? "; reboot the node" : "";
  return { index: card.index, busId: card.pci_bus_id, text: `NVML cannot open card ${card.index}: ${why}${lost}` };
}

function listedCard(card: NvmlCard): ListedCard {
  return {
    index: card.index,
    name: printable(card.name ?? ""),
    uuid: card.uuid,
    instances: (card.mig_devices ?? []).flatMap(listedInstance),
  };
}

/** `MIG-GPU-<uuid>/<gi>/<ci>` is the form of drivers before R470. */
const OLD_UUID = /^MIG-GPU-[^/]+\/(\d{1,3})\/(\d{1,3})$/;

function listedInstance(device: NvmlMigDevice): readonly ListedInstance[] {
  const { uuid, profile } = device;
  if (uuid === undefined || profile === undefined) return [];
  const old = OLD_UUID.exec(uuid);
  return [
    {
      device: device.slot,
      profile,
      uuid,
      gpuInstanceId: old === null ? undefined : Number(old[1]),
      computeInstanceId: old === null ? undefined : Number(old[2]),
      oldForm: old !== null,
    },
  ];
}

function queriedCard(card: NvmlCard): QueriedCard {
  const { ecc, remapped_rows: rows, pcie } = card;
  return {
    index: card.index,
    computeCapability: card.compute_capability,
    busId: card.pci_bus_id ?? "",
    uuid: card.uuid,
    name: card.name === undefined ? undefined : printable(card.name),
    minor: card.minor,
    migCurrent: card.mig_mode?.current,
    migPending: card.mig_mode?.pending,
    migDevices: (card.mig_devices ?? []).map(migDevice),
    memoryTotalMb: card.memory_total_bytes === 0 ? undefined : mebibytes(card.memory_total_bytes),
    memoryUsedMb: mebibytes(card.memory_used_bytes),
    memoryFreeMb: mebibytes(card.memory_free_bytes),
    temperatureC: card.temperature_c,
    powerW: card.power_w,
    powerLimitW: card.power_limit_w,
    utilizationPct: card.utilization_pct,
    computeMode: inWords(card.compute_mode),
    persistenceMode: card.persistence_mode,
    processes: processesOf(card),
    fabric: fabricOf(card.fabric),
    ecc: {
      current: ecc?.current,
      pending: ecc?.pending,
      volatileUncorrectable: ecc?.volatile_uncorrected,
      aggregateUncorrectable: ecc?.aggregate_uncorrected,
      sramThresholdExceeded: ecc?.sram_threshold_exceeded,
      channelRepairPending: ecc?.channel_repair_pending,
      tpcRepairPending: ecc?.tpc_repair_pending,
    },
    remappedRows: { pending: rows?.pending, failure: rows?.failure },
    retiredPagesPending: card.retired_pages_pending,
    recoveryAction: card.recovery_action === "none" ? undefined : recoveryWords(card.recovery_action),
    resetRequired: undefined,
    drainAndResetRecommended: undefined,
    clockReasons: clockReasonsOf(card.clock_event_reasons),
    virtualizationMode: card.virtualization_mode === "none" ? undefined : inWords(card.virtualization_mode),
    pcie: { genCurrent: pcie?.gen_current, genMax: pcie?.gen_max, widthCurrent: pcie?.width_current, widthMax: pcie?.width_max },
    readable: true,
    lost: card.error?.code === NVML_CODES.gpuIsLost,
    errorTexts: errorTextsOf(card),
  };
}

/** Whole MiB as nvidia-smi prints them: it cuts (15,843,721,216 bytes of a T4 are "15109 MiB" and not 15110). */
function mebibytes(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : Math.floor(bytes / 2 ** 20);
}

/** `in_progress` → `In Progress`, as nvidia-smi writes it; a number that has no word keeps it. */
function inWords(word: string | number | undefined): string | undefined {
  if (word === undefined) return undefined;
  if (typeof word === "number") return `unknown(${word})`;
  return word.replace(/(^|_)([a-z])/g, (_all, gap: string, letter: string) => (gap === "" ? "" : " ") + letter.toUpperCase());
}

function recoveryWords(action: string | number | undefined): string | undefined {
  switch (action) {
    case "drain_p2p":
      return "Drain P2P";
    case "drain_and_reset":
      return "Drain and Reset";
    case "recover_imex_domain":
      return "Recover IMEX Domain";
    default:
      return inWords(action);
  }
}

function migDevice(device: NvmlMigDevice): RawMigDevice {
  return {
    index: device.slot,
    gpuInstanceId: device.gpu_instance_id,
    computeInstanceId: device.compute_instance_id,
    memoryTotalMb: mebibytes(device.memory_total_bytes),
    memoryUsedMb: mebibytes(device.memory_used_bytes),
    smCount: device.sm_count,
    sramUncorrectable: device.sram_uncorrected,
  };
}

/** The card's own list, and what its instances tell where the card's is refused; a process in both is one. */
function processesOf(card: NvmlCard): readonly RawProcess[] | undefined {
  const ofInstances = (card.mig_devices ?? []).flatMap((device) =>
    (device.processes ?? []).map((found) => ({
      ...rawProcess(found),
      gpuInstanceId: found.gpu_instance_id ?? device.gpu_instance_id,
      computeInstanceId: found.compute_instance_id ?? device.compute_instance_id,
    })),
  );
  const told = card.processes !== undefined || (card.mig_devices ?? []).some((device) => device.processes !== undefined);
  if (!told) return undefined;
  const seen = new Map<string, RawProcess>();
  for (const found of [...(card.processes ?? []).map(rawProcess), ...ofInstances]) {
    const key = `${found.pid}/${found.gpuInstanceId}/${found.computeInstanceId}`;
    if (!seen.has(key)) seen.set(key, found);
  }
  return [...seen.values()];
}

const TYPES: Readonly<Record<NvmlProcess["type"], string>> = { compute: "C", graphics: "G", "compute+graphics": "C+G", mps: "M+C" };

function rawProcess(found: NvmlProcess): RawProcess {
  return {
    pid: found.pid,
    name: found.name === undefined ? undefined : printable(found.name),
    memoryMb: mebibytes(found.memory_used_bytes),
    gpuInstanceId: found.gpu_instance_id,
    computeInstanceId: found.compute_instance_id,
    type: TYPES[found.type],
  };
}

function fabricOf(fabric: NvmlFabric | undefined): RawFabric | undefined {
  if (fabric === undefined || fabric.state === "not_supported") return undefined;
  // Status and ids mean nothing before the registration is over.
  const completed = fabric.state === "completed";
  return {
    state: inWords(fabric.state) ?? "",
    status: completed && fabric.status !== undefined ? statusWords(fabric.status) : undefined,
    cliqueId: completed ? fabric.clique_id : undefined,
    clusterUuid: completed ? fabric.cluster_uuid : undefined,
    healthSummary: fabric.health_summary === "not_supported" ? undefined : inWords(fabric.health_summary),
  };
}

function statusWords(code: number): string {
  return code === 0
    ? "Success"
    : codeWord(code).replace(/(^| )([a-z])/g, (_all, gap: string, letter: string) => gap + letter.toUpperCase());
}

function clockReasonsOf(reasons: readonly (string | number)[] | undefined): RawClockReasons {
  const has = (name: string): boolean | undefined => reasons?.includes(name);
  return {
    hwSlowdown: has("hw_slowdown"),
    hwThermal: has("hw_thermal"),
    hwPowerBrake: has("hw_power_brake"),
    swThermal: has("sw_thermal"),
    swPowerCap: has("sw_power_cap"),
  };
}

/** Codes that say that something is wrong with the card, in the words that nvidia-smi puts in a value's place. */
function errorTextsOf(card: NvmlCard): readonly string[] {
  const codes = new Set(Object.values(card.codes ?? {}));
  return [
    ...(card.error?.code === NVML_CODES.gpuIsLost ? ["GPU is lost"] : []),
    ...(codes.has(NVML_CODES.resetRequired) || card.error?.code === NVML_CODES.resetRequired ? ["GPU requires reset"] : []),
    ...(codes.has(NVML_CODES.unknown) ? ["Unknown Error"] : []),
  ];
}

/**
 * Who reaches whom over NVLink. A link to a card names it by its bus id. Behind a switch are all other cards with links to switches,
 * unless both say that they belong to different parts of a fabric; the fewer links count. A remote end that is no visible card and whose
 * kind is not known is taken for a switch, as NCCL does.
 */
function peersOf(cards: readonly NvmlCard[]): NvmlRecords["nvlinks"] {
  const byBus = new Map(
    cards.flatMap((card) => (card.pci_bus_id === undefined ? [] : [[parseBusId(card.pci_bus_id), card.index] as const])),
  );
  const known = cards.flatMap((card) => (card.nvlinks === undefined ? [] : [{ card, ...endsOf(card, byBus) }]));
  return new Map(
    known.map(({ card, direct, switched }) => {
      const links: Record<string, number> = { ...direct };
      for (const other of known) {
        const shared = Math.min(switched, other.switched);
        if (other.card.index === card.index || shared === 0 || !maySharePartition(card.fabric, other.card.fabric)) continue;
        links[other.card.index] = (links[other.card.index] ?? 0) + shared;
      }
      return [card.index, links];
    }),
  );
}

function endsOf(card: NvmlCard, byBus: ReadonlyMap<string | undefined, number>) {
  const direct: Record<string, number> = {};
  let switched = 0;
  for (const link of (card.nvlinks ?? []).filter((candidate) => candidate.active)) {
    const busId = link.remote_bus_id === undefined ? undefined : parseBusId(link.remote_bus_id);
    const peer = busId === undefined ? undefined : byBus.get(busId);
    if (link.remote_type === "switch") switched++;
    else if (peer !== undefined && peer !== card.index) direct[peer] = (direct[peer] ?? 0) + 1;
    else if (peer === undefined && link.remote_type !== "gpu" && link.remote_type !== "npu") switched++;
  }
  return { direct, switched };
}

function maySharePartition(a: NvmlFabric | undefined, b: NvmlFabric | undefined): boolean {
  if (a?.state !== "completed" || b?.state !== "completed") return true;
  return a.cluster_uuid === b.cluster_uuid && a.clique_id === b.clique_id;
}
