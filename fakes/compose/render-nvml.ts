/** What one look through NVML finds, by driver generation. */
import type { NvmlCard, NvmlFabric, NvmlLink, NvmlMigDevice, NvmlProcess, NvmlSnapshot } from "../../src/platform/nvml-snapshot.ts";
import type { CardDescription, DriverDescription, InstanceDescription, NodeDescription, ProcessDescription } from "./description.ts";

const MIB = 2 ** 20;
/** Sizes are no whole MiB on real cards; nvidia-smi cuts. */
const PART_OF_MIB = 196_608;

const CAPABILITIES: readonly (readonly [RegExp, string])[] = [
  [/A100/, "8.0"],
  [/H100|H200/, "9.0"],
  [/L40S|RTX 4090/, "8.9"],
  [/GB200/, "10.0"],
  [/Blackwell/, "12.0"],
];

export function renderNvml(node: NodeDescription, driver: DriverDescription): NvmlSnapshot {
  return {
    version: 1,
    library: "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    driver_version: driver.version,
    nvml_version: `${driver.cuda.split(".")[0]}.${driver.version}`,
    cuda_version: driver.cuda,
    cards: node.cards.flatMap((card, index) =>
      card.unknownToDriver === true ? [] : [renderCard(node, card, index, Number(driver.version.split(".")[0]))],
    ),
  };
}

function renderCard(node: NodeDescription, card: CardDescription, index: number, driver: number): NvmlCard {
  if (card.lost === true) return { index, error: { symbol: "nvmlDeviceGetHandleByIndex_v2", code: 15, word: "GPU is lost" } };
  const { mig } = card;
  const inMig = mig?.current === "Enabled";
  const slowed = card.hwThermal === true || card.hwPowerBrake === true;
  return {
    index,
    uuid: card.uuid,
    name: card.name,
    pci_bus_id: `0000${card.busId.toUpperCase()}`,
    minor: index,
    ...some("compute_capability", CAPABILITIES.find(([name]) => name.test(card.name))?.[1]),
    ...memory(card.memoryMb, card.usedMb, card.reservedMb),
    ...some("mig_mode", mig === undefined ? undefined : { current: onOff(mig.current), pending: onOff(mig.pending) }),
    ...some("max_mig_devices", mig === undefined ? undefined : 7),
    ...some("mig_devices", inMig ? mig.instances.map((instance) => renderDevice(card, instance)) : undefined),
    temperature_c: card.temperatureC,
    power_w: Math.round(card.powerW * 100) / 100,
    power_limit_w: card.powerLimitW,
    ...some("utilization_pct", inMig ? undefined : card.utilizationPct),
    ...some(
      "ecc",
      card.ecc === undefined
        ? undefined
        : {
            current: "enabled",
            pending: "enabled",
            volatile_uncorrected: card.ecc.volatileUncorrectable,
            aggregate_uncorrected: card.ecc.aggregateUncorrectable,
          },
    ),
    ...some("remapped_rows", card.ecc === undefined || inMig ? undefined : remappedRows(card)),
    clock_event_reasons: [
      ...(card.utilizationPct === 0 && !slowed ? ["gpu_idle"] : []),
      ...(slowed ? ["hw_slowdown"] : []),
      ...(card.hwThermal === true ? ["hw_thermal"] : []),
      ...(card.hwPowerBrake === true ? ["hw_power_brake"] : []),
    ],
    ...some("recovery_action", driver >= 565 ? (card.recoveryAction ?? "None").toLowerCase() : undefined),
    compute_mode: (card.computeMode ?? "Default").toLowerCase(),
    persistence_mode: card.persistence === false ? "disabled" : "enabled",
    virtualization_mode: "none",
    pcie: { gen_current: 5, gen_max: 5, width_current: card.linkWidth ?? 16, width_max: 16 },
    ...some("fabric", driver >= 525 ? renderFabric(card) : undefined),
    nvlinks: renderLinks(node, index),
    processes: card.processes.map(renderProcess),
  };
}

/** `{ [key]: value }`, or nothing where there is no value: an unknown is an absent key. */
function some<K extends keyof NvmlCard>(key: K, value: NvmlCard[K] | undefined): Partial<NvmlCard> {
  return value === undefined ? {} : { [key]: value };
}

function onOff(value: "Enabled" | "Disabled"): "enabled" | "disabled" {
  return value === "Enabled" ? "enabled" : "disabled";
}

function memory(totalMb: number, usedMb: number, reservedMb: number) {
  return {
    memory_total_bytes: totalMb * MIB + PART_OF_MIB,
    memory_used_bytes: usedMb * MIB + PART_OF_MIB,
    memory_free_bytes: (totalMb - usedMb - reservedMb) * MIB,
  };
}

function renderDevice(card: CardDescription, instance: InstanceDescription): NvmlMigDevice {
  const { gpuInstanceId, computeInstanceId } = instance;
  return {
    slot: instance.device,
    uuid: card.mig?.oldForm === true ? `MIG-${card.uuid}/${gpuInstanceId}/${computeInstanceId}` : instance.uuid,
    name: `${card.name} MIG ${instance.profile}`,
    profile: instance.profile,
    gpu_instance_id: gpuInstanceId,
    compute_instance_id: computeInstanceId,
    ...memory(instance.memoryMb, instance.usedMb, 0),
    sm_count: instance.smCount,
    gpu_instance_slices: Number(/(\d)g\./.exec(instance.profile)?.[1] ?? 1),
    compute_instance_slices: Number(/^(\d)[cg]\./.exec(instance.profile)?.[1] ?? 1),
    memory_size_mb: instance.memoryMb,
    sram_uncorrected: 0,
    processes: card.processes
      .filter((process) => process.gpuInstanceId === gpuInstanceId && process.computeInstanceId === computeInstanceId)
      .map(renderProcess),
  };
}

function remappedRows(card: CardDescription) {
  const uncorrected = card.remapPending === true || card.remapFailure === true ? 1 : 0;
  return { corrected: 0, uncorrected, pending: card.remapPending === true, failure: card.remapFailure === true };
}

const STATUS: Readonly<Record<string, number>> = { Success: 0, "Unknown Error": 999 };

function renderFabric(card: CardDescription): NvmlFabric | undefined {
  const { fabric } = card;
  if (fabric === undefined) return undefined;
  if (fabric.state !== "Completed") return { state: "in_progress", status: 0, cluster_uuid: NO_CLUSTER, clique_id: 0 };
  const status = STATUS[fabric.status];
  if (status === undefined) throw new Error(`the status "${fabric.status}" has no number here`);
  return { state: "completed", status, cluster_uuid: fabric.clusterUuid, clique_id: fabric.cliqueId };
}

const NO_CLUSTER = "00000000-0000-0000-0000-000000000000";
/** What a card of these generations has. */
const LINKS_OF_A_CARD = 18;

/** More links to others than a card has are links to switches; fewer name the cards at their other ends. */
function renderLinks(node: NodeDescription, index: number): NvmlLink[] {
  const ends = node.cards.flatMap((other, at) => {
    const links = at === index || other.lost === true ? 0 : (node.nvlinks?.(index, at) ?? 0);
    return Array.from({ length: links }, () => `0000${other.busId.toUpperCase()}`);
  });
  const most = Math.max(0, ...node.cards.map((_, at) => (at === index ? 0 : (node.nvlinks?.(index, at) ?? 0))));
  if (ends.length > LINKS_OF_A_CARD) return Array.from({ length: most }, (_, link) => ({ link, active: true, remote_type: "switch" }));
  return ends.map((remote_bus_id, link) => ({ link, active: true, remote_type: "gpu", remote_bus_id }));
}

function renderProcess(process: ProcessDescription): NvmlProcess {
  const types = { C: "compute", G: "graphics", "C+G": "compute+graphics" } as const;
  return {
    pid: process.pid,
    name: process.name,
    type: types[process.type],
    memory_used_bytes: process.memoryMb * MIB + PART_OF_MIB,
    ...(process.gpuInstanceId === undefined ? {} : { gpu_instance_id: process.gpuInstanceId }),
    ...(process.computeInstanceId === undefined ? {} : { compute_instance_id: process.computeInstanceId }),
  };
}
