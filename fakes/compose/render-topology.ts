/** `nvidia-smi topo -m`: tab-separated, the header underlined, a legend after the matrix. */
import type { CardDescription, NodeDescription } from "./description.ts";
import { driverMajor } from "./render-query.ts";

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

/**
 * Adapters stand under their own names up to the 470 era and as NIC<n> with a legend later (the change lies between 470 and 525);
 * the NUMA column came between 440 and 470, the one of the cards' own memory about 535. Without a driver: the newest form.
 */
export function renderTopology(node: NodeDescription): string {
  const version = node.driver === undefined ? Number.POSITIVE_INFINITY : driverMajor(node.driver);
  const inline = version <= 470;
  const titles = ["CPU Affinity", ...(version >= 470 ? ["NUMA Affinity"] : []), ...(version >= 535 ? ["GPU NUMA ID"] : [])];
  const cards = node.cards.flatMap((card, index): readonly Place[] =>
    card.lost === true || card.unknownToDriver === true
      ? []
      : [{ label: `GPU${index}`, bridge: card.bridge, numaNode: card.numaNode, card: index }],
  );
  const nics = node.adapters.map(
    (adapter, at): Place => ({
      label: inline ? adapter.name : `NIC${at}`,
      bridge: adapter.bridge,
      numaNode: adapter.numaNode,
      card: undefined,
    }),
  );
  const places = [...cards, ...nics];
  const header = `\t\u001b[4m${[...places.map((place) => place.label), ...titles].join("\t")}\u001b[0m`;
  const rows = places.map((row) => {
    const words = places.map((column) => word(node, row, column));
    const card = row.card === undefined ? undefined : node.cards[row.card];
    return `${row.label}\t${words.join("\t")}${tail(card, version)}`;
  });
  const legend =
    nics.length === 0 || inline ? [] : ["", "NIC Legend:", "", ...node.adapters.map((adapter, at) => `  NIC${at}: ${adapter.name}`)];
  return [header, ...rows, "", "Legend:", "", ...LEGEND, ...legend, ""].map((line) => `${line}\n`).join("");
}

/** A tab doubles before the last column; rows of adapters keep the tabs, except where the adapters stand inline. */
function tail(card: CardDescription | undefined, version: number): string {
  if (card === undefined) return version <= 470 ? "" : version < 535 ? "\t\t" : "\t\t\t\t";
  const numa = version >= 470 ? `\t${card.numaNode}` : "";
  return `\t${card.cpuList}${numa}${version >= 535 ? `\t\t${card.gpuNumaNode ?? "N/A"}` : ""}`;
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
