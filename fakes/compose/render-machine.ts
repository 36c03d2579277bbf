/** A description as the files of a recorded machine. */
import { stringify } from "yaml";
import type { AnswerDescription, NodeDescription } from "./description.ts";
import { renderImex } from "./render-imex.ts";
import { handleSentence, renderList } from "./render-list.ts";
import { renderNvml } from "./render-nvml.ts";
import { renderQuery, smiBusId } from "./render-query.ts";
import { renderTopology } from "./render-topology.ts";
import { KERNEL, renderTree, type Tree, type TreeEntry } from "./render-tree.ts";

interface Command {
  readonly argv: readonly string[];
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exit?: number;
  readonly hangs?: boolean;
}

/** Places where llmgw looks; those that a tree has nothing of were not there. */
const LOOKED_AT = [
  "/.dockerenv",
  "/dev",
  "/dev/nvidia-caps",
  "/etc/llmgw/agent.yaml",
  "/lib/modules",
  "/proc/2/comm",
  "/proc/driver/nvidia",
  "/proc/driver/nvidia-caps",
  "/root/.cache/huggingface/hub",
  "/root/.ollama/models",
  "/run/.containerenv",
  "/run/systemd/timesync",
  "/sys/bus/pci/devices",
  "/sys/class/infiniband",
  "/sys/firmware/efi/efivars",
  "/sys/fs/cgroup/memory",
  "/sys/fs/cgroup/memory.max",
  "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
  "/usr/lib/libnvidia-ml.so.1",
  "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
  "/usr/lib64/libnvidia-ml.so.1",
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
  hostCommands(node, commands, files);
  const tree = renderTree(node);
  for (const [path, entry] of tree) files.set(`root${path}`, entry);
  files.set("machine.yaml", machineYaml(node, commands, tree));
  return files;
}

const SERVICES = ["nvidia-fabricmanager", "nvidia-persistenced", "systemd-timesyncd", "chronyd", "chrony", "ntpd", "ntpsec", "ptp4l"];

/** What doctor asks beside the driver: the kernel log, services, the module's file. */
function hostCommands(node: NodeDescription, commands: Command[], files: Map<string, TreeEntry>): void {
  const { host = {}, driver } = node;
  if (host.container === true) {
    files.set("dmesg-refused.txt", "dmesg: read kernel buffer failed: Operation not permitted\n");
    commands.push({ argv: ["dmesg"], stderr: "dmesg-refused.txt", exit: 1 });
    return;
  }
  const loaded = driver !== undefined && node.procDriver !== false;
  const lines = [
    `Linux version ${KERNEL}`,
    ...(loaded ? [`NVRM: loading NVIDIA UNIX x86_64 Kernel Module  ${driver.version}  Mon Nov  2 10:00:00 UTC 2026`] : []),
    ...(host.kernelLog ?? []),
  ];
  const at = (n: number): string => `2026-11-30T0${Math.min(9, 6 + n)}:00:00+00:00`;
  files.set("kernel-log.txt", lines.map((line, n) => `${at(n)} ${node.hostname} kernel: ${line}\n`).join(""));
  commands.push({ argv: ["journalctl", "-k", "-b", "--no-pager", "-o", "short-iso"], stdout: "kernel-log.txt" });
  files.set("services.txt", servicesText(node));
  const units = SERVICES.map((name) => `${name}.service`);
  commands.push({ argv: ["systemctl", "show", "--property=Id,LoadState,ActiveState", ...units], stdout: "services.txt" });
  const module = host.moduleFile === undefined ? (loaded ? driver.version : null) : host.moduleFile;
  if (module === null) commands.push({ argv: ["modinfo", "-F", "version", "nvidia"], exit: 1 });
  else {
    files.set("modinfo.txt", `${module}\n`);
    commands.push({ argv: ["modinfo", "-F", "version", "nvidia"], stdout: "modinfo.txt" });
    if (host.nextKernel !== undefined) commands.push({ argv: ["modinfo", "-k", host.nextKernel, "-F", "version", "nvidia"], exit: 1 });
  }
  if ((host.nvswitches ?? 0) > 0 && host.fabricManager !== undefined) {
    files.set("fabric-manager.txt", `Fabric Manager version is : ${host.fabricManager.version}\n`);
    commands.push({ argv: ["nv-fabricmanager", "--version"], stdout: "fabric-manager.txt" });
  }
}

function servicesText(node: NodeDescription): string {
  const { host = {} } = node;
  const state = (name: string): readonly [string, string] => {
    if (name === (host.timeService ?? "systemd-timesyncd")) return ["loaded", "active"];
    if (name === "nvidia-persistenced" && node.driver !== undefined) {
      return ["loaded", node.cards.some((card) => card.persistence === false) ? "inactive" : "active"];
    }
    if (name === "nvidia-fabricmanager" && host.fabricManager !== undefined)
      return ["loaded", host.fabricManager.active ? "active" : "inactive"];
    return ["not-found", "inactive"];
  };
  return SERVICES.map((name) => {
    const [load, active] = state(name);
    return `Id=${name}.service\nLoadState=${load}\nActiveState=${active}\n`;
  }).join("\n");
}

function machineYaml(node: NodeDescription, commands: readonly Command[], tree: Tree): string {
  const absentCommands = [
    ...(node.driver === undefined ? ["nvidia-smi"] : []),
    ...(node.imex === undefined ? ["nvidia-imex-ctl"] : []),
    ...(node.host?.container === true ? ["journalctl", "modinfo", "systemctl"] : []),
    ...(node.host?.fabricManager === undefined ? ["nv-fabricmanager"] : []),
  ];
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
    ...(node.unreadable === undefined ? {} : { unreadable: node.unreadable }),
    disks: {
      "/": { total_bytes: 479_559_942_144, free_bytes: 312_408_559_616 },
      "/dev/shm": sharedMemory(node),
      ...(node.disks ?? { "/var/lib/llmgw/models": { total_bytes: 3_840_755_982_336, free_bytes: 2_199_023_255_552 } }),
    },
  };
  return `# Written by fakes/compose/compose.ts: change the description there.\n${stringify(machine, { lineWidth: 140 })}`;
}

/** Half of the memory, as the kernel does, unless said. */
function sharedMemory(node: NodeDescription): { readonly total_bytes: number; readonly free_bytes: number } {
  const bytes = node.host?.shmBytes ?? node.memoryMb * 512 * 1024;
  return { total_bytes: bytes, free_bytes: bytes };
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
