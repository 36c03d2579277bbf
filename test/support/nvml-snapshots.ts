/** Snapshots for tests of NVML. */
import type { NvmlCard, NvmlMigDevice, NvmlSnapshot } from "../../src/platform/nvml-snapshot.ts";

const MIB = 2 ** 20;

export function snapshotWith(cards: readonly NvmlCard[], particular: Partial<NvmlSnapshot> = {}): NvmlSnapshot {
  return {
    version: 1,
    library: "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    driver_version: "580.65.06",
    nvml_version: "13.580.65.06",
    cuda_version: "13.0",
    cards: [...cards],
    ...particular,
  };
}

/** An H100 behind NVSwitches. */
export function h100(index: number, particular: Partial<NvmlCard> = {}): NvmlCard {
  return {
    index,
    uuid: `GPU-${uuid(index, 0)}`,
    name: "NVIDIA H100 80GB HBM3",
    pci_bus_id: `00000000:${(0x10 + index).toString(16)}:00.0`.toUpperCase(),
    minor: index,
    compute_capability: "9.0",
    memory_total_bytes: 81_559 * MIB,
    memory_used_bytes: 4 * MIB,
    memory_free_bytes: 81_004 * MIB,
    mig_mode: { current: "disabled", pending: "disabled" },
    max_mig_devices: 7,
    temperature_c: 31,
    power_w: 72.35,
    power_limit_w: 700,
    utilization_pct: 0,
    ecc: {
      current: "enabled",
      pending: "enabled",
      volatile_uncorrected: 0,
      aggregate_uncorrected: 0,
      sram_threshold_exceeded: false,
      channel_repair_pending: false,
      tpc_repair_pending: false,
    },
    remapped_rows: { corrected: 0, uncorrected: 0, pending: false, failure: false },
    clock_event_reasons: ["gpu_idle"],
    recovery_action: "none",
    compute_mode: "default",
    persistence_mode: "enabled",
    virtualization_mode: "none",
    pcie: { gen_current: 5, gen_max: 5, width_current: 16, width_max: 16 },
    fabric: {
      state: "completed",
      status: 0,
      cluster_uuid: "00000000-0000-0000-0000-000000000000",
      clique_id: 0,
      health_summary: "healthy",
      health_mask: 0,
    },
    nvlinks: Array.from({ length: 18 }, (_, link) => ({ link, active: true, remote_type: "switch" })),
    processes: [],
    ...particular,
  };
}

/** Carved: devices by slot. */
export function carved(index: number, devices: readonly NvmlMigDevice[], particular: Partial<NvmlCard> = {}): NvmlCard {
  const { utilization_pct: _utilization, remapped_rows: _rows, ...card } = h100(index, particular);
  return { ...card, mig_mode: { current: "enabled", pending: "enabled" }, mig_devices: [...devices] };
}

export function migDevice(card: number, slot: number, particular: Partial<NvmlMigDevice> = {}): NvmlMigDevice {
  return {
    slot,
    uuid: `MIG-${uuid(card, slot + 1)}`,
    name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    profile: "1g.10gb",
    gpu_instance_id: slot + 7,
    compute_instance_id: 0,
    memory_total_bytes: 9_856 * MIB,
    memory_used_bytes: 13 * MIB,
    memory_free_bytes: 9_843 * MIB,
    sm_count: 14,
    gpu_instance_slices: 1,
    compute_instance_slices: 1,
    memory_size_mb: 9_856,
    sram_uncorrected: 0,
    processes: [],
    ...particular,
  };
}

function uuid(card: number, kind: number): string {
  return `c0de0000-000${kind}-4000-8000-${card.toString(16).padStart(12, "0")}`;
}

/** Without the codes, which say why something is absent and not what there is. */
export function withoutCodes(snapshot: NvmlSnapshot): NvmlSnapshot {
  return {
    ...snapshot,
    cards: snapshot.cards.map(({ codes: _codes, ...card }) => ({
      ...card,
      ...(card.mig_devices === undefined ? {} : { mig_devices: card.mig_devices.map(({ codes: _own, ...device }) => device) }),
    })),
  };
}
