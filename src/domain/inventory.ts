/**
 * What a node has: the shape of `llmgw inventory --json`, of the agent's report, and of what the scheduler reads
 * (DESIGN.md, section 6). Sizes are MiB (`_mb`), as nvidia-smi counts. A key is absent where the hardware does not say.
 */
import * as v from "valibot";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Text = v.string();

/** Which source the cards come from: `none` without a driver's tools, `unavailable` when they are there and broken. */
export const Source = v.picklist(["nvml", "nvidia-smi", "none", "unavailable"]);
export type Source = v.InferOutput<typeof Source>;

export const Health = v.object({
  ok: v.pipe(v.boolean(), v.description("False when nothing new may be placed here")),
  problems: v.pipe(v.array(Text), v.description("What is wrong, in words")),
});
export type Health = v.InferOutput<typeof Health>;

export const GpuProcess = v.object({
  pid: Count,
  name: v.optional(Text),
  memory_mb: v.optional(Count),
});
export type GpuProcess = v.InferOutput<typeof GpuProcess>;

export const MigIdentity = v.object({
  card: v.pipe(Count, v.description("Index of the card")),
  instance: v.pipe(Count, v.description("MIG device index on that card; indexes may have holes")),
  profile: v.pipe(Text, v.description("As the driver prints it: 3g.40gb, 1c.3g.40gb, 1g.10gb+me")),
  gpu_instance_id: v.optional(Count),
  compute_instance_id: v.optional(Count),
});
export type MigIdentity = v.InferOutput<typeof MigIdentity>;

export const NvlinkDomain = v.object({
  state: v.pipe(Text, v.description("not_started, in_progress, completed, or the driver's word in that form")),
  status: v.optional(v.pipe(Text, v.description("Counts only when completed: success, or what failed"))),
  cluster_uuid: v.optional(v.pipe(Text, v.description("The domain; absent when zero (one NVSwitch board) or not completed"))),
  clique_id: v.optional(v.pipe(Count, v.description("The partition inside the domain"))),
});
export type NvlinkDomain = v.InferOutput<typeof NvlinkDomain>;

/** A device that a replica can be placed on: a whole card, or one MIG instance. */
export const Gpu = v.object({
  index: v.pipe(Count, v.description("Device index: the card's own, or 1000 + 100 × card + instance")),
  label: v.pipe(Text, v.description("What people see: 3, or 3/mig1")),
  uuid: Text,
  name: v.pipe(Text, v.description("The product name of the card")),
  class: v.pipe(Text, v.description("What the device is interchangeable with")),
  memory_total_mb: v.optional(Count),
  memory_used_mb: v.optional(Count),
  compute_capability: v.optional(Text),
  pci_bus_id: v.optional(v.pipe(Text, v.description("0000:17:00.0, lower case"))),
  numa_node: v.optional(Count),
  cpu_affinity: v.optional(v.pipe(Text, v.description("CPU list: 0-47,96-143"))),
  nvlink_peers: v.optional(v.pipe(v.array(Count), v.description("Whole cards reachable over NVLink; [] when there are none"))),
  nvlinks: v.optional(v.pipe(v.record(Text, Count), v.description("Links per peer index"))),
  nearest_hcas: v.optional(v.pipe(v.array(Text), v.description("Adapters nearest on the bus, not across sockets"))),
  mig: v.optional(MigIdentity),
  nvlink_domain: v.optional(NvlinkDomain),
  health: Health,
  temperature_c: v.optional(v.number()),
  power_w: v.optional(v.number()),
  power_limit_w: v.optional(v.number()),
  utilization_pct: v.optional(Count),
  processes: v.optional(v.array(GpuProcess)),
});
export type Gpu = v.InferOutput<typeof Gpu>;

/** A card that nothing is placed on, with what is still known of it. */
export const UnusableCard = v.object({
  index: v.optional(Count),
  uuid: v.optional(Text),
  name: v.optional(Text),
  pci_bus_id: v.optional(Text),
  reason: Text,
});
export type UnusableCard = v.InferOutput<typeof UnusableCard>;

export const Port = v.object({
  num: Count,
  state: v.optional(v.pipe(Text, v.description("As the kernel says: ACTIVE, INIT, DOWN"))),
  phys_state: v.optional(v.pipe(Text, v.description("LinkUp, Polling, Disabled"))),
  rate_gbps: v.optional(v.pipe(v.number(), v.description("As the kernel says; a placeholder while the port is not ACTIVE"))),
  link_layer: v.optional(Text),
  gid_prefix: v.optional(v.pipe(Text, v.description("First half of GID 0; the default fe80:0000:0000:0000 proves nothing"))),
  lid: v.optional(Count),
  sm_lid: v.optional(Count),
  fabric: v.optional(v.pipe(Text, v.description("The name declared in agent.yaml"))),
});
export type Port = v.InferOutput<typeof Port>;

/** A host channel adapter, or anything else under /sys/class/infiniband (RoCE, iWARP, Omni-Path, EFA). */
export const Hca = v.object({
  name: Text,
  numa_node: v.optional(Count),
  firmware: v.optional(Text),
  board_id: v.optional(Text),
  node_guid: v.optional(Text),
  pci_bus_id: v.optional(Text),
  netdevs: v.array(Text),
  ports: v.array(Port),
});
export type Hca = v.InferOutput<typeof Hca>;

export const ImexNode = v.object({
  index: Count,
  address: Text,
  status: v.pipe(Text, v.description("As the daemon says, lower case: ready, waiting_for_peers, unavailable")),
  version: v.optional(Text),
});

/** The memory exchange service of a multi-node NVLink domain, as `nvidia-imex-ctl -N` tells it. */
export const Imex = v.object({
  domain_state: v.optional(v.pipe(Text, v.description("up, degraded, down"))),
  nodes: v.array(ImexNode),
  disconnected: v.optional(
    v.pipe(v.array(v.object({ from: Count, to: Count, state: Text })), v.description("Pairs that are not connected; absent when all are")),
  ),
});
export type Imex = v.InferOutput<typeof Imex>;

export const WeightsFormat = v.picklist(["safetensors", "gguf", "pickle", "mistral"]);
export const WeightsLayout = v.picklist(["hf-cache", "folder", "gguf", "ollama"]);

/** One model found on disk. Which engine can run it is decided elsewhere; here is what the files say. */
export const Weights = v.object({
  name: v.pipe(Text, v.description("org/name, folder name, file name, or Ollama's model:tag")),
  layout: WeightsLayout,
  format: v.optional(WeightsFormat),
  path: v.pipe(Text, v.description("What an engine is given: the folder, the first GGUF shard, the Ollama blob")),
  revision: v.optional(v.pipe(Text, v.description("Commit of a hub snapshot"))),
  architecture: v.optional(Text),
  purpose: v.optional(v.pipe(v.picklist(["chat", "embedding", "rerank", "audio"]), v.description("Guessed from the architecture"))),
  parameters: v.optional(v.pipe(Count, v.description("Counted from the tensors in the headers"))),
  dtype: v.optional(v.pipe(Text, v.description("The one with most bytes: bf16, q4_k, f8_e4m3"))),
  quantization: v.optional(v.pipe(Text, v.description("awq, gptq, fp8, q4_k_m, …; absent when there is none"))),
  context_length: v.optional(Count),
  layers: v.optional(Count),
  attention_layers: v.optional(v.pipe(Count, v.description("Layers whose cache grows with the context; absent when all do"))),
  sliding_layers: v.optional(v.pipe(Count, v.description("Layers whose cache ends at sliding_window"))),
  hidden_size: v.optional(Count),
  heads: v.optional(Count),
  kv_heads: v.optional(Count),
  head_dim: v.optional(Count),
  kv_lora_rank: v.optional(v.pipe(Count, v.description("Multi-head latent attention: rank of the compressed cache"))),
  qk_rope_head_dim: v.optional(Count),
  sliding_window: v.optional(Count),
  experts: v.optional(Count),
  experts_per_token: v.optional(Count),
  vocab_size: v.optional(Count),
  bytes: v.pipe(Count, v.description("Bytes on disk of the weight files; links to one blob count once")),
  files: v.pipe(Count, v.description("Weight files")),
  state: v.pipe(v.picklist(["complete", "downloading", "incomplete"]), v.description("Only complete weights can be placed")),
  problems: v.pipe(v.array(Text), v.description("Why not, or what to watch; file names included")),
  side_files: v.optional(v.pipe(v.array(Text), v.description("Projectors and adapters beside the model"))),
  needs_remote_code: v.optional(v.pipe(v.boolean(), v.description("config.json has auto_map: running it runs code from the folder"))),
  id: v.optional(v.pipe(Text, v.description("Equal on two nodes that hold the same files: hash over headers and lengths"))),
});
export type Weights = v.InferOutput<typeof Weights>;

/** Disk behind one model folder. */
export const Storage = v.object({
  path: Text,
  total_mb: v.optional(Count),
  free_mb: v.optional(Count),
});
export type Storage = v.InferOutput<typeof Storage>;

export const Inventory = v.object({
  source: Source,
  hostname: v.optional(Text),
  driver_version: v.optional(Text),
  cuda_version: v.optional(v.pipe(Text, v.description("The newest CUDA that this driver runs"))),
  memory_total_mb: v.optional(v.pipe(Count, v.description("RAM; a container's limit where that is lower"))),
  gpus: v.array(Gpu),
  unusable_cards: v.array(UnusableCard),
  hcas: v.array(Hca),
  imex: v.optional(Imex),
  weights: v.array(Weights),
  storage: v.array(Storage),
  warnings: v.array(Text),
});
export type Inventory = v.InferOutput<typeof Inventory>;
