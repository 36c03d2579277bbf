/** `nvidia-imex-ctl -N`. */
import type { ImexDescription } from "./description.ts";

/** In our own words; the tool's are longer. */
const LEGEND = ["Connectivity Table Legend:", "I - not reachable", "N - never connected", "D - disconnected", "C - connected"];

export function renderImex(imex: ImexDescription): string {
  const nodes = imex.nodes.map((node, at) =>
    `Node #${String(at).padEnd(3)} - ${node.address.padEnd(15)} - ${node.status.padEnd(20)}${node.version === undefined ? "" : ` - Version: ${node.version}`}`.trimEnd(),
  );
  const header = ` Nodes From\\To  ${imex.nodes
    .map((_, at) => String(at).padEnd(4))
    .join("")
    .trimEnd()}`;
  const rows = imex.nodes.map(
    (_, from) =>
      `${String(from).padStart(8)}        ${imex.nodes
        .map((__, to) => imex.letter(from, to).padEnd(4))
        .join("")
        .trimEnd()}`,
  );
  return [...LEGEND, "", "11/30/2026 12:00:00.000", "Nodes:", ...nodes, "", header, ...rows, "", `Domain State: ${imex.state}`]
    .map((line) => `${line}\n`)
    .join("");
}
