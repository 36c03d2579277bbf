/** `nvidia-smi topo -m`: tab-separated, the header underlined, a legend after the matrix. */
import type { NodeDescription } from "./description.ts";

interface Place {
  readonly label: string;
  readonly bridge: string;
  readonly numaNode: number;
  readonly card: number | undefined;
}

/** In our own words; the tool's are longer. */
const LEGEND = [
  "  X    = the device itself",
  "  SYS  = across NUMA nodes",
  "  NODE = across host bridges of one NUMA node",
  "  PHB  = through one host bridge",
  "  PXB  = through several PCIe bridges",
  "  PIX  = through one PCIe bridge",
  "  NV#  = over # NVLinks",
];

export function renderTopology(node: NodeDescription): string {
  const cards = node.cards.flatMap((card, index): readonly Place[] =>
    card.lost === true || card.unknownToDriver === true
      ? []
      : [{ label: `GPU${index}`, bridge: card.bridge, numaNode: card.numaNode, card: index }],
  );
  const nics = node.adapters.map(
    (adapter, at): Place => ({ label: `NIC${at}`, bridge: adapter.bridge, numaNode: adapter.numaNode, card: undefined }),
  );
  const places = [...cards, ...nics];
  const header = `\t\u001b[4m${[...places.map((place) => place.label), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"].join("\t")}\u001b[0m`;
  const rows = places.map((row) => {
    const words = places.map((column) => word(node, row, column));
    const card = row.card === undefined ? undefined : node.cards[row.card];
    const tail = card === undefined ? "\t\t\t\t" : `\t${card.cpuList}\t${card.numaNode}\t\tN/A`;
    return `${row.label}\t${words.join("\t")}${tail}`;
  });
  const legend = nics.length === 0 ? [] : ["", "NIC Legend:", "", ...node.adapters.map((adapter, at) => `  NIC${at}: ${adapter.name}`)];
  return [header, ...rows, "", "Legend:", "", ...LEGEND, ...legend, ""].map((line) => `${line}\n`).join("");
}

function word(node: NodeDescription, row: Place, column: Place): string {
  if (row.label === column.label) return " X ";
  if (row.card !== undefined && column.card !== undefined) {
    const links = node.nvlinks?.(row.card, column.card) ?? 0;
    if (links > 0) return `NV${links}`;
  }
  if (row.bridge === column.bridge) return "PIX";
  return row.numaNode === column.numaNode ? "NODE" : "SYS";
}
