/** A description as the files of a recorded machine. */
import { stringify } from "yaml";
import type { AnswerDescription, NodeDescription } from "./description.ts";
import { renderImex } from "./render-imex.ts";
import { handleSentence, renderList } from "./render-list.ts";
import { renderNvml } from "./render-nvml.ts";
import { renderQuery, smiBusId } from "./render-query.ts";
import { renderTopology } from "./render-topology.ts";
import { renderTree, type Tree, type TreeEntry } from "./render-tree.ts";

interface Command {
  readonly argv: readonly string[];
  readonly stdout?: string;
  readonly exit?: number;
  readonly hangs?: boolean;
}

/** Places where llmgw looks; those that a tree has nothing of were not there. */
const LOOKED_AT = [
  "/etc/llmgw/agent.yaml",
  "/proc/driver/nvidia",
  "/root/.cache/huggingface/hub",
  "/root/.ollama/models",
  "/sys/bus/pci/devices",
  "/sys/class/infiniband",
  "/sys/fs/cgroup/memory",
  "/sys/fs/cgroup/memory.max",
  "/usr/share/ollama/.ollama/models",
  "/var/lib/llmgw/models",
];

/** File name inside the machine's folder → content. */
export function renderMachine(node: NodeDescription): ReadonlyMap<string, TreeEntry> {
  const files = new Map<string, TreeEntry>();
  const commands: Command[] = [];
  const answer = (argv: readonly string[], file: string, described: AnswerDescription | undefined, usual: () => string): void => {
    if (described?.hangs === true) {
      commands.push({ argv, hangs: true });
      return;
    }
    files.set(file, described?.text ?? usual());
    commands.push({ argv, stdout: file, ...(described?.exit === undefined ? {} : { exit: described.exit }) });
  };
  const { driver } = node;
  if (driver !== undefined) {
    answer(["nvidia-smi", "-L"], "L.txt", node.answers?.list, () => renderList(node.cards));
    answer(["nvidia-smi", "-q", "-x"], "q-x.xml", node.answers?.query, () => renderQuery(node, driver));
    answer(["nvidia-smi", "topo", "-m"], "topo-m.txt", node.answers?.topology, () => renderTopology(node));
    if (node.cardByCard === true) {
      for (const card of node.cards) {
        const argv = ["nvidia-smi", "-q", "-x", "-i", smiBusId(card)];
        const lost = { text: `${handleSentence(card)}\n`, exit: 15 };
        answer(argv, `q-x-${card.busId.replace(/[:.]/g, "-")}.xml`, card.lost === true ? lost : undefined, () =>
          renderQuery(node, driver, card),
        );
      }
    }
  }
  if (driver !== undefined && node.nvml === true) files.set("nvml.json", `${JSON.stringify(renderNvml(node, driver), undefined, 2)}\n`);
  if (node.imex !== undefined)
    answer(["nvidia-imex-ctl", "-N"], "imex-ctl-N.txt", undefined, () => (node.imex === undefined ? "" : renderImex(node.imex)));
  const tree = renderTree(node);
  for (const [path, entry] of tree) files.set(`root${path}`, entry);
  files.set("machine.yaml", machineYaml(node, commands, tree));
  return files;
}

function machineYaml(node: NodeDescription, commands: readonly Command[], tree: Tree): string {
  const absentCommands = [...(node.driver === undefined ? ["nvidia-smi"] : []), ...(node.imex === undefined ? ["nvidia-imex-ctl"] : [])];
  const absent = LOOKED_AT.filter((place) => ![...tree.keys()].some((path) => path === place || path.startsWith(`${place}/`)));
  const machine = {
    about: node.about,
    source: "composed",
    from: fromText(node),
    recorded_at: "2026-11-30T12:00:00Z",
    unrecorded: "error",
    commands,
    absent_commands: absentCommands,
    absent,
    disks: node.disks ?? { "/var/lib/llmgw/models": { total_bytes: 3_840_755_982_336, free_bytes: 2_199_023_255_552 } },
  };
  return `# Written by fakes/compose/compose.ts: change the description there.\n${stringify(machine, { lineWidth: 140 })}`;
}

function fromText(node: NodeDescription): string {
  const parts = [
    ...(node.driver === undefined ? ["a Linux host without NVIDIA's driver"] : [`what nvidia-smi of driver ${node.driver.version} prints`]),
    ...(node.nvml === true ? ["nvml.h"] : []),
    ...(node.cards.some((card) => card.mig !== undefined) ? ["NVIDIA's MIG user guide"] : []),
    ...(node.adapters.length > 0 ? ["the kernel's ABI document on /sys/class/infiniband"] : []),
    ...(node.imex === undefined ? [] : ["NVIDIA's IMEX guide"]),
  ];
  return `facts on ${parts.join(", ")}; identifiers are made up`;
}
