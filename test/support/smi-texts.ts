/** Outputs of nvidia-smi in the tool's form, composed from few facts; identifiers are our own. */

export interface SmiInstance {
  readonly device: number;
  readonly gi: number;
  readonly ci: number;
  readonly memoryMb?: number;
  readonly profile?: string;
}

export interface SmiCard {
  /** Goes into every identifier of the card. */
  readonly n: number;
  readonly index?: number;
  readonly name?: string;
  readonly uuid?: string;
  readonly mig?: string;
  readonly instances?: readonly SmiInstance[];
  /** Elements put at the end of the card's block. */
  readonly more?: string;
  /** Replaces the memory block's children. */
  readonly memory?: string;
  /** What is inside `<processes>`. */
  readonly processes?: string;
}

export const NAME = "NVIDIA H100 80GB HBM3";

export function smiUuid(n: number): string {
  return `GPU-5eed0000-0000-4000-8000-${String(n).padStart(12, "0")}`;
}

export function migUuid(n: number, device: number): string {
  return `MIG-5eed0000-00${String(device).padStart(2, "0")}-5000-8000-${String(n).padStart(12, "0")}`;
}

/** As the XML prints it. */
export function smiBus(n: number): string {
  return `00000000:${(n + 16).toString(16).toUpperCase()}:00.0`;
}

/** `nvidia-smi -L`. */
export function listText(cards: readonly SmiCard[]): string {
  return cards
    .flatMap((card) => [
      `GPU ${card.index ?? card.n}: ${card.name ?? NAME} (UUID: ${card.uuid ?? smiUuid(card.n)})`,
      ...(card.instances ?? []).map(
        ({ device, profile }) =>
          `  MIG ${(profile ?? "1g.10gb").padEnd(12)} Device ${String(device).padStart(2)}: (UUID: ${migUuid(card.n, device)})`,
      ),
    ])
    .map((line) => `${line}\n`)
    .join("");
}

/** `nvidia-smi -q -x`. */
export function queryText(cards: readonly SmiCard[], driver = "580.65.06"): string {
  return `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
\t<timestamp>Thu Jan  1 00:00:00 2026</timestamp>
\t<driver_version>${driver}</driver_version>
\t<cuda_version>13.0</cuda_version>
\t<attached_gpus>${cards.length}</attached_gpus>
${cards.map(cardText).join("")}</nvidia_smi_log>
`;
}

function cardText(card: SmiCard): string {
  const mig = card.mig ?? (card.instances === undefined ? "Disabled" : "Enabled");
  const [current = "", pending = current] = mig.split("/");
  return `\t<gpu id="${smiBus(card.n)}">
\t\t<product_name>${card.name ?? NAME}</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode>
\t\t\t<current_mig>${current}</current_mig>
\t\t\t<pending_mig>${pending}</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>
${(card.instances ?? []).map(instanceText).join("") || "\t\t\tNone\n"}\t\t</mig_devices>
\t\t<uuid>${card.uuid ?? smiUuid(card.n)}</uuid>
\t\t<minor_number>${card.n}</minor_number>
\t\t<pci>
\t\t\t<pci_bus_id>${smiBus(card.n)}</pci_bus_id>
\t\t</pci>
\t\t<fb_memory_usage>
${card.memory ?? "\t\t\t<total>81559 MiB</total>\n\t\t\t<reserved>551 MiB</reserved>\n\t\t\t<used>1024 MiB</used>\n\t\t\t<free>79984 MiB</free>"}
\t\t</fb_memory_usage>
\t\t<compute_mode>Default</compute_mode>
\t\t<temperature>
\t\t\t<gpu_temp>41 C</gpu_temp>
\t\t</temperature>
\t\t<supported_clocks>
\t\t\t<supported_mem_clock>
\t\t\t\t<value>2619 MHz</value>
\t\t\t\t<supported_graphics_clock>1980 MHz</supported_graphics_clock>
\t\t\t</supported_mem_clock>
\t\t</supported_clocks>
\t\t<processes>${card.processes ?? "\n"}\t\t</processes>
${card.more ?? ""}\t</gpu>
`;
}

function instanceText({ device, gi, ci, memoryMb = 9984 }: SmiInstance): string {
  return `\t\t\t<mig_device>
\t\t\t\t<index>${device}</index>
\t\t\t\t<gpu_instance_id>${gi}</gpu_instance_id>
\t\t\t\t<compute_instance_id>${ci}</compute_instance_id>
\t\t\t\t<device_attributes>
\t\t\t\t\t<shared>
\t\t\t\t\t\t<multiprocessor_count>16</multiprocessor_count>
\t\t\t\t\t</shared>
\t\t\t\t</device_attributes>
\t\t\t\t<ecc_error_count>
\t\t\t\t\t<volatile_count>
\t\t\t\t\t\t<sram_uncorrectable>0</sram_uncorrectable>
\t\t\t\t\t</volatile_count>
\t\t\t\t</ecc_error_count>
\t\t\t\t<fb_memory_usage>
\t\t\t\t\t<total>${memoryMb} MiB</total>
\t\t\t\t\t<used>12 MiB</used>
\t\t\t\t</fb_memory_usage>
\t\t\t</mig_device>
`;
}

export function processText(pid: number, name: string, memory: string, gi = "N/A", ci = "N/A"): string {
  return `
\t\t\t<process_info>
\t\t\t\t<gpu_instance_id>${gi}</gpu_instance_id>
\t\t\t\t<compute_instance_id>${ci}</compute_instance_id>
\t\t\t\t<pid>${pid}</pid>
\t\t\t\t<type>C</type>
\t\t\t\t<process_name>${name}</process_name>
\t\t\t\t<used_memory>${memory}</used_memory>
\t\t\t</process_info>
`;
}

/** `nvidia-smi topo -m` as the tool writes it: tabs, an underlined header. `rows` hold the words of each card's row, then its tail. */
export function topologyText(rows: readonly (readonly string[])[], nics: readonly string[] = [], legend: readonly string[] = []): string {
  const columns = [...rows.map((_, at) => `GPU${at}`), ...nics];
  const header = `\t\u001b[4m${[...columns, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"].join("\t")}\u001b[0m\n`;
  const cards = rows.map((row, at) => `GPU${at}\t${row.join("\t")}\n`).join("");
  const adapters = nics.map(
    (nic, at) => `${nic}\t${columns.map((_, to) => (to === rows.length + at ? " X " : "SYS")).join("\t")}\t\t\t\t\n`,
  );
  const words = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n";
  const names = legend.length === 0 ? "" : `\nNIC Legend:\n\n${legend.map((name, at) => `  NIC${at}: ${name}\n`).join("")}\n`;
  return header + cards + adapters.join("") + words + names;
}
