/** The files of a node: /proc, /sys with links as the kernel makes them, and whatever the description adds. */
import type { AdapterDescription, CardDescription, NodeDescription } from "./description.ts";

export type TreeEntry = string | Uint8Array | { readonly link: string };
export type Tree = ReadonlyMap<string, TreeEntry>;

/** Paths as seen from `/`. Text files end with a newline, as the kernel's do. */
export function renderTree(node: NodeDescription): Tree {
  const tree = new Map<string, TreeEntry>();
  tree.set("/proc/sys/kernel/hostname", `${node.hostname}\n`);
  tree.set(
    "/proc/meminfo",
    `MemTotal:       ${node.memoryMb * 1024} kB\nMemFree:        ${node.memoryMb * 512} kB\nSwapTotal:             0 kB\n`,
  );
  tree.set("/proc/self/cgroup", node.cgroupLimitBytes === undefined ? "0::/user.slice/user-0.slice/session-1.scope\n" : "0::/\n");
  tree.set("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
  if (node.cgroupLimitBytes !== undefined) tree.set("/sys/fs/cgroup/memory.max", `${node.cgroupLimitBytes}\n`);
  else
    for (const level of ["/user.slice", "/user.slice/user-0.slice", "/user.slice/user-0.slice/session-1.scope"])
      tree.set(`/sys/fs/cgroup${level}/memory.max`, "max\n");
  for (const card of node.cards) addCard(tree, card);
  for (const adapter of node.adapters) addAdapter(tree, adapter);
  if (node.driver !== undefined && node.procDriver !== false) addDriver(tree, node, node.driver.version);
  for (const [path, entry] of Object.entries(node.files ?? {})) tree.set(path, entry);
  return tree;
}

/** Where a function sits: host bridge, root port, switch, function. */
function devicePath(bridge: string, busId: string): string {
  return `/sys/devices/pci0000:${bridge}/0000:${bridge}:01.0/0000:${bridge}:02.0/${busId}`;
}

function addFunction(
  tree: Map<string, TreeEntry>,
  place: { readonly bridge: string; readonly busId: string; readonly numaNode: number; readonly cpuList: string },
): string {
  const path = devicePath(place.bridge, place.busId);
  tree.set(`/sys/bus/pci/devices/${place.busId}`, { link: `../../../${path.slice("/sys/".length)}` });
  tree.set(`${path}/numa_node`, `${place.numaNode}\n`);
  tree.set(`${path}/local_cpulist`, `${place.cpuList}\n`);
  return path;
}

function addCard(tree: Map<string, TreeEntry>, card: CardDescription): void {
  const path = addFunction(tree, card);
  tree.set(`${path}/vendor`, "0x10de\n");
  tree.set(`${path}/class`, "0x030200\n");
}

function addAdapter(tree: Map<string, TreeEntry>, adapter: AdapterDescription): void {
  const path = addFunction(tree, adapter);
  const folder = `${path}/infiniband/${adapter.name}`;
  tree.set(`${path}/vendor`, "0x15b3\n");
  tree.set(`${path}/class`, "0x020700\n");
  tree.set(`/sys/class/infiniband/${adapter.name}`, { link: `../../${folder.slice("/sys/".length)}` });
  tree.set(`${folder}/device`, { link: `../../../${adapter.busId}` });
  tree.set(`${folder}/node_type`, "1: CA\n");
  tree.set(`${folder}/node_guid`, `${adapter.nodeGuid}\n`);
  tree.set(`${folder}/fw_ver`, `${adapter.firmware}\n`);
  tree.set(`${folder}/board_id`, `${adapter.boardId}\n`);
  tree.set(`${folder}/hca_type`, `${adapter.hcaType}\n`);
  for (const netdev of adapter.netdevs) tree.set(`${path}/net/${netdev}/dev_port`, "0\n");
  for (const [at, port] of adapter.ports.entries()) {
    const ports = `${folder}/ports/${at + 1}`;
    tree.set(`${ports}/state`, `${port.state}\n`);
    tree.set(`${ports}/phys_state`, `${port.physState}\n`);
    tree.set(`${ports}/rate`, `${port.rate}\n`);
    tree.set(`${ports}/link_layer`, `${port.linkLayer}\n`);
    tree.set(`${ports}/lid`, `0x${port.lid.toString(16)}\n`);
    tree.set(`${ports}/sm_lid`, `0x${port.smLid.toString(16)}\n`);
    tree.set(`${ports}/lid_mask_count`, "0\n");
    tree.set(`${ports}/gids/0`, `${port.gid}\n`);
  }
}

function addDriver(tree: Map<string, TreeEntry>, node: NodeDescription, version: string): void {
  tree.set(
    "/proc/driver/nvidia/version",
    `NVRM version: NVIDIA UNIX x86_64 Kernel Module  ${version}  Mon Nov  2 10:00:00 UTC 2026\nGCC version:  gcc version 12.2.0\n`,
  );
  for (const [index, card] of node.cards.entries()) {
    const uuid = card.lost === true ? "GPU-????????-????-????-????-????????????" : card.uuid;
    tree.set(
      `/proc/driver/nvidia/gpus/${card.busId}/information`,
      `Model: \t\t ${card.name}\nIRQ:   \t\t ${100 + index}\nGPU UUID: \t ${uuid}\nBus Type: \t PCIe\nBus Location: \t ${card.busId}\nDevice Minor: \t ${index}\n`,
    );
  }
}
