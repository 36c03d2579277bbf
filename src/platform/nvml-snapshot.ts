/**
 * What one look through NVML gives: the shape of `nvml.json` of a recorded machine, and of the probe's answer.
 *
 * A key is absent where the library gave no value; the return code that stood in its place is in `codes`. Enum values that this
 * version does not know stay numbers. Memory is in bytes, as the library counts.
 */
import * as v from "valibot";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Bytes = v.pipe(v.number(), v.minValue(0));
const Switch = v.picklist(["enabled", "disabled"]);
/** A value by its word, or the number of one that is not known here. */
const Word = v.union([v.string(), v.number()]);
/** Non-zero return code by symbol, or by `field N` for a field value. */
const Codes = v.record(v.string(), v.number());

export const NvmlProcess = v.object({
  pid: Count,
  name: v.optional(v.string()),
  type: v.picklist(["compute", "graphics", "compute+graphics", "mps"]),
  memory_used_bytes: v.optional(Bytes),
  gpu_instance_id: v.optional(Count),
  compute_instance_id: v.optional(Count),
});
export type NvmlProcess = v.InferOutput<typeof NvmlProcess>;

export const NvmlMigDevice = v.object({
  slot: v.pipe(Count, v.description("MIG device index on its card; indexes may have holes")),
  uuid: v.optional(v.string()),
  name: v.optional(v.string()),
  profile: v.optional(v.string()),
  profile_derived: v.optional(v.pipe(v.boolean(), v.description("The profile was computed from slices and memory, not read"))),
  gpu_instance_id: v.optional(Count),
  compute_instance_id: v.optional(Count),
  memory_total_bytes: v.optional(Bytes),
  memory_used_bytes: v.optional(Bytes),
  memory_free_bytes: v.optional(Bytes),
  sm_count: v.optional(Count),
  gpu_instance_slices: v.optional(Count),
  compute_instance_slices: v.optional(Count),
  memory_size_mb: v.optional(v.pipe(Count, v.description("Of the GPU instance, as its attributes say"))),
  sram_uncorrected: v.optional(Bytes),
  processes: v.optional(v.array(NvmlProcess)),
  codes: v.optional(Codes),
});
export type NvmlMigDevice = v.InferOutput<typeof NvmlMigDevice>;

export const NvmlLink = v.object({
  link: Count,
  active: v.boolean(),
  remote_type: v.optional(Word),
  remote_bus_id: v.optional(v.string()),
});
export type NvmlLink = v.InferOutput<typeof NvmlLink>;

export const NvmlFabric = v.object({
  state: v.pipe(Word, v.description("not_supported, not_started, in_progress, completed")),
  status: v.optional(v.pipe(v.number(), v.description("A return code; counts only when completed"))),
  cluster_uuid: v.optional(v.string()),
  clique_id: v.optional(Count),
  health_summary: v.optional(Word),
  health_mask: v.optional(v.number()),
});
export type NvmlFabric = v.InferOutput<typeof NvmlFabric>;

export const NvmlCard = v.object({
  index: Count,
  error: v.optional(
    v.pipe(
      v.object({ symbol: v.string(), code: v.number(), word: v.string() }),
      v.description("The card gave no handle, or was lost while it was read; what was read before stands"),
    ),
  ),
  uuid: v.optional(v.string()),
  name: v.optional(v.string()),
  pci_bus_id: v.optional(v.pipe(v.string(), v.description("As the library writes it: 00000000:17:00.0"))),
  minor: v.optional(Count),
  compute_capability: v.optional(v.string()),
  memory_total_bytes: v.optional(Bytes),
  memory_used_bytes: v.optional(Bytes),
  memory_free_bytes: v.optional(Bytes),
  mig_mode: v.optional(v.object({ current: Switch, pending: Switch })),
  max_mig_devices: v.optional(Count),
  mig_devices: v.optional(v.array(NvmlMigDevice)),
  temperature_c: v.optional(v.number()),
  power_w: v.optional(v.pipe(v.number(), v.description("Instantaneous where the driver has it"))),
  power_limit_w: v.optional(v.number()),
  utilization_pct: v.optional(Count),
  ecc: v.optional(
    v.object({
      current: v.optional(Switch),
      pending: v.optional(Switch),
      volatile_uncorrected: v.optional(Bytes),
      aggregate_uncorrected: v.optional(Bytes),
      sram_threshold_exceeded: v.optional(v.boolean()),
      channel_repair_pending: v.optional(v.boolean()),
      tpc_repair_pending: v.optional(v.boolean()),
    }),
  ),
  remapped_rows: v.optional(v.object({ corrected: Count, uncorrected: Count, pending: v.boolean(), failure: v.boolean() })),
  retired_pages_pending: v.optional(v.boolean()),
  clock_event_reasons: v.optional(v.array(Word)),
  recovery_action: v.optional(Word),
  compute_mode: v.optional(Word),
  persistence_mode: v.optional(Switch),
  virtualization_mode: v.optional(Word),
  pcie: v.optional(
    v.object({
      gen_current: v.optional(Count),
      gen_max: v.optional(Count),
      width_current: v.optional(Count),
      width_max: v.optional(Count),
    }),
  ),
  fabric: v.optional(NvmlFabric),
  nvlinks: v.optional(v.pipe(v.array(NvmlLink), v.description("[] when the card has none; absent when they could not be read"))),
  processes: v.optional(v.array(NvmlProcess)),
  codes: v.optional(Codes),
});
export type NvmlCard = v.InferOutput<typeof NvmlCard>;

export const NvmlSnapshot = v.object({
  version: v.literal(1),
  library: v.pipe(v.string(), v.description("Absolute path of the library that answered")),
  driver_version: v.optional(v.string()),
  nvml_version: v.optional(v.string()),
  cuda_version: v.optional(v.string()),
  cards: v.array(NvmlCard),
});
export type NvmlSnapshot = v.InferOutput<typeof NvmlSnapshot>;

/** What the probe process answers: a snapshot, that there is no library, or why the library gives nothing. */
export const NvmlReply = v.variant("kind", [
  v.object({ kind: v.literal("snapshot"), snapshot: NvmlSnapshot }),
  v.object({ kind: v.literal("absent") }),
  v.object({ kind: v.literal("failed"), text: v.string(), code: v.optional(v.number()) }),
]);
export type NvmlReply = v.InferOutput<typeof NvmlReply>;
