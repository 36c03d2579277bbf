/** The inventory as people read it (DESIGN.md, section 6). Pure: data and a view in, text out. */
import type { Gpu, Hca, Inventory, Port, Storage, UnusableCard, Weights } from "../domain/inventory.ts";
import { type Painter, painter } from "../lib/color.ts";
import { renderTable } from "../lib/table.ts";

export interface InventoryView {
  readonly color: boolean;
  /** What was left out on request, so that an empty list is not taken for an answer. */
  readonly gpus: "all" | "none" | "only";
}

/** Lines without a newline at the end of the last one. */
export function renderInventory(inventory: Inventory, view: InventoryView): string {
  const paint = painter(view.color);
  const sections = [
    nodeSection(inventory),
    view.gpus === "none" ? ["GPUs: not looked for (--no-gpu)"] : gpuSection(inventory, paint),
    ...(inventory.unusable_cards.length > 0 ? [unusableSection(inventory.unusable_cards, paint)] : []),
    ...(view.gpus === "none" ? [] : domainSection(inventory, paint)),
    ...(view.gpus === "only" ? [] : [adapterSection(inventory.hcas, paint), weightsSection(inventory.weights, inventory.storage, paint)]),
    ...(inventory.warnings.length > 0 ? [warningSection(inventory.warnings, paint)] : []),
  ];
  return sections.map((lines) => lines.join("\n")).join("\n\n");
}

function nodeSection(inventory: Inventory): string[] {
  const facts = [
    inventory.driver_version === undefined ? undefined : `driver ${inventory.driver_version}`,
    inventory.cuda_version === undefined ? undefined : `CUDA ${inventory.cuda_version}`,
    inventory.memory_total_mb === undefined ? undefined : `RAM ${gib(inventory.memory_total_mb)}`,
  ].filter((fact) => fact !== undefined);
  return [`Node ${inventory.hostname ?? "-"}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`];
}

function gpuSection(inventory: Inventory, paint: Painter): string[] {
  const { gpus, source } = inventory;
  if (gpus.length === 0) {
    const why =
      source === "none"
        ? "no NVIDIA driver tools here"
        : source === "unavailable"
          ? "the driver does not answer, see the warnings"
          : "none can be used";
    return [`GPUs (0, via ${source})`, `  none: ${why}`];
  }
  const table = renderTable(
    [
      { title: "IDX" },
      { title: "CLASS" },
      { title: "NAME" },
      { title: "MEM", align: "right" },
      { title: "CC", align: "right" },
      { title: "HEALTH" },
    ],
    gpus.map((gpu) => [gpu.label, gpu.class, gpu.name, mib(gpu.memory_total_mb), gpu.compute_capability, healthText(gpu, paint)]),
  );
  return [
    `GPUs (${gpus.length}, via ${source})`,
    ...indent(table),
    ...indent([classLine(gpus), ...peerLines(gpus), ...nearestLine(gpus), ...usageLines(gpus)].join("\n")),
  ];
}

function healthText(gpu: Gpu, paint: Painter): string {
  return gpu.health.ok ? paint.green("ok") : paint.red(gpu.health.problems.join("; "));
}

function classLine(gpus: readonly Gpu[]): string {
  const counts = new Map<string, number>();
  for (const gpu of gpus) counts.set(gpu.class, (counts.get(gpu.class) ?? 0) + 1);
  return `classes: ${[...counts].map(([name, count]) => `${name} × ${count}`).join(", ")}`;
}

function peerLines(gpus: readonly Gpu[]): string[] {
  return gpus.flatMap((gpu) => {
    const peers = gpu.nvlink_peers ?? [];
    if (peers.length === 0) return [];
    const counts = new Set(peers.map((peer) => gpu.nvlinks?.[String(peer)]));
    const [only] = counts;
    const links = counts.size === 1 && only !== undefined ? ` (${only} link${only === 1 ? "" : "s"} each)` : "";
    return [`GPU ${gpu.label} NVLink peers: ${peers.join(", ")}${links}`];
  });
}

/** Instances sit where their card sits, so each card is named once. */
function nearestLine(gpus: readonly Gpu[]): string[] {
  const byCard = new Map<number, readonly string[]>();
  for (const gpu of gpus) if ((gpu.nearest_hcas ?? []).length > 0) byCard.set(gpu.mig?.card ?? gpu.index, gpu.nearest_hcas ?? []);
  if (byCard.size === 0) return [];
  return [`nearest adapters: ${[...byCard].map(([card, names]) => `GPU ${card} ${names.join(" ")}`).join(", ")}`];
}

function usageLines(gpus: readonly Gpu[]): string[] {
  return gpus.flatMap((gpu) => {
    const processes = gpu.processes ?? [];
    if (processes.length === 0) return [];
    const named = processes.map((process) => {
      const memory = process.memory_mb === undefined ? "" : `, ${process.memory_mb} MiB`;
      return `${process.name ?? "-"} (pid ${process.pid}${memory})`;
    });
    return [`GPU ${gpu.label} in use: ${named.join(", ")}`];
  });
}

function unusableSection(cards: readonly UnusableCard[], paint: Painter): string[] {
  const table = renderTable(
    [{ title: "IDX" }, { title: "NAME" }, { title: "PCI" }, { title: "REASON" }],
    cards.map((card) => [
      card.index === undefined ? undefined : String(card.index),
      card.name ?? card.uuid,
      card.pci_bus_id,
      paint.red(card.reason),
    ]),
  );
  return [`Cards out of placement (${cards.length})`, ...indent(table)];
}

function domainSection(inventory: Inventory, paint: Painter): string[][] {
  const domains = new Map<string, string[]>();
  for (const gpu of inventory.gpus) {
    const domain = gpu.nvlink_domain;
    if (domain?.cluster_uuid === undefined) continue;
    const key = `cluster ${domain.cluster_uuid}, clique ${domain.clique_id ?? "-"}`;
    domains.set(key, [...(domains.get(key) ?? []), gpu.label]);
  }
  const { imex } = inventory;
  if (domains.size === 0 && imex === undefined) return [];
  const lines = [...domains].map(([key, labels]) => `  ${key}: GPU ${labels.join(", ")}`);
  if (imex !== undefined) {
    const state = imex.domain_state ?? "-";
    const ready = imex.nodes.filter((node) => node.status === "ready").length;
    lines.push(`  IMEX domain: ${state === "up" ? paint.green(state) : paint.red(state)}, ${ready} of ${imex.nodes.length} nodes ready`);
    for (const node of imex.nodes) if (node.status !== "ready") lines.push(`  IMEX node ${node.index} (${node.address}): ${node.status}`);
  }
  return [["NVLink domain", ...lines]];
}

function adapterSection(hcas: readonly Hca[], paint: Painter): string[] {
  if (hcas.length === 0) return ["InfiniBand adapters (0)", "  none: this node cannot host multi-node replicas"];
  const rows = hcas.flatMap((hca) => {
    const numa = hca.numa_node === undefined ? undefined : String(hca.numa_node);
    if (hca.ports.length === 0) return [[hca.name, undefined, undefined, undefined, undefined, undefined, numa, undefined]];
    return hca.ports.map((port) => [
      hca.name,
      String(port.num),
      stateText(port, paint),
      rateText(port),
      port.link_layer,
      port.gid_prefix,
      numa,
      port.fabric,
    ]);
  });
  const table = renderTable(
    [
      { title: "HCA" },
      { title: "PORT", align: "right" },
      { title: "STATE" },
      { title: "RATE", align: "right" },
      { title: "LINK" },
      { title: "GID PREFIX" },
      { title: "NUMA", align: "right" },
      { title: "FABRIC" },
    ],
    rows,
  );
  return [`InfiniBand adapters (${hcas.length})`, ...indent(table), ...indent(prefixNote(hcas)), ...indent(managerNote(hcas))];
}

function stateText(port: Port, paint: Painter): string | undefined {
  if (port.state === undefined) return undefined;
  if (port.state === "ACTIVE") return paint.green(port.state);
  return port.state === "INIT" || port.state === "ARMED" ? paint.red(port.state) : port.state;
}

/** The rate of a port that is not ACTIVE is a placeholder. */
function rateText(port: Port): string | undefined {
  return port.state === "ACTIVE" && port.rate_gbps !== undefined ? `${port.rate_gbps} Gb/s` : undefined;
}

function prefixNote(hcas: readonly Hca[]): string {
  const ports = hcas
    .flatMap((hca) => hca.ports)
    .filter((port) => port.link_layer === "InfiniBand" && port.gid_prefix !== undefined && port.fabric === undefined);
  return ports.length === 0
    ? ""
    : "note: fe80:0000:0000:0000 is every subnet manager's default, so equal prefixes do not prove one fabric; declare fabrics in agent.yaml";
}

/** A link that is up without a subnet manager looks like a cable fault and is none. */
function managerNote(hcas: readonly Hca[]): string {
  const waiting = hcas.flatMap((hca) =>
    hca.ports.filter((port) => port.state === "INIT" && port.link_layer !== "Ethernet").map((port) => `${hca.name} port ${port.num}`),
  );
  return waiting.length === 0
    ? ""
    : `note: ${waiting.join(", ")}: the link is up but no subnet manager has configured it; start one or check the partition`;
}

function weightsSection(weights: readonly Weights[], storage: readonly Storage[], paint: Painter): string[] {
  const disks = storage.map((disk) => {
    const space = disk.total_mb === undefined || disk.free_mb === undefined ? "" : `: ${gib(disk.free_mb)} free of ${gib(disk.total_mb)}`;
    return `  ${disk.path}${space}`;
  });
  if (weights.length === 0) {
    const where = storage.length === 0 ? "no model folder exists here" : "no weights in the model folders";
    return ["Weights (0)", `  none: ${where}`, ...disks];
  }
  const table = renderTable(
    [
      { title: "NAME" },
      { title: "ARCHITECTURE" },
      { title: "PARAMS", align: "right" },
      { title: "DTYPE" },
      { title: "CONTEXT", align: "right" },
      { title: "SIZE", align: "right" },
      { title: "STATE" },
    ],
    weights.map((model) => [
      model.name,
      model.architecture,
      model.parameters === undefined ? undefined : parameterCount(model.parameters),
      model.quantization ?? model.dtype,
      model.context_length === undefined ? undefined : String(model.context_length),
      bytesText(model.bytes),
      model.state === "complete" ? paint.green(model.state) : paint.red(model.state),
    ]),
  );
  const problems = weights.flatMap((model) => model.problems.map((problem) => `  ${model.name}: ${problem}`));
  return [`Weights (${weights.length})`, ...indent(table), ...problems, ...disks];
}

function warningSection(warnings: readonly string[], paint: Painter): string[] {
  return [`Warnings (${warnings.length})`, ...warnings.map((warning) => `  ${paint.yellow(warning)}`)];
}

function parameterCount(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} B`;
  if (parameters >= 1e6) return `${(parameters / 1e6).toFixed(1)} M`;
  return String(parameters);
}

function bytesText(bytes: number): string {
  if (bytes >= 1024 ** 3) return `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
  if (bytes >= 1024 ** 2) return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
  return `${bytes} B`;
}

function gib(mb: number): string {
  return mb >= 1024 ? `${(mb / 1024).toFixed(1)} GiB` : `${mb} MiB`;
}

function mib(mb: number | undefined): string | undefined {
  return mb === undefined ? undefined : `${mb} MiB`;
}

function indent(text: string): string[] {
  return text === "" ? [] : text.split("\n").map((line) => `  ${line}`);
}
