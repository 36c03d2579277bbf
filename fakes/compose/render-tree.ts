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
  addHost(tree, node);
  for (const card of node.cards) addCard(tree, node, card);
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

function addCard(tree: Map<string, TreeEntry>, node: NodeDescription, card: CardDescription): void {
  const path = addFunction(tree, card);
  tree.set(`${path}/vendor`, "0x10de\n");
  tree.set(`${path}/class`, "0x030200\n");
  tree.set(`${path.slice(0, path.lastIndexOf("/"))}/max_link_width`, "16\n");
  // Vendor 10de and a device number; a card that left the bus answers with all ones.
  tree.set(`${path}/config`, Uint8Array.from(card.lost === true ? [0xff, 0xff, 0xff, 0xff] : [0xde, 0x10, 0x30, 0x23]));
  const held = node.host?.heldBy ?? (isLoaded(node) ? "nvidia" : undefined);
  if (held !== undefined) tree.set(`${path}/driver`, { link: `../../../../../bus/pci/drivers/${held}` });
}

/** Whether NVIDIA's module is loaded. */
function isLoaded(node: NodeDescription): boolean {
  return node.driver !== undefined && node.procDriver !== false;
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

export const KERNEL = "6.8.0-48-generic";

function addHost(tree: Map<string, TreeEntry>, node: NodeDescription): void {
  const { host = {} } = node;
  const modules = [
    ...(isLoaded(node) ? ["nvidia_uvm", "nvidia"] : []),
    ...(node.adapters.length > 0 ? ["mlx5_ib", "ib_core"] : []),
    "nvme",
  ];
  const nouveau = host.heldBy === "nouveau" ? ["nouveau"] : [];
  tree.set("/proc/modules", [...nouveau, ...modules].map((name) => `${name} 16384 0 - Live 0x0000000000000000\n`).join(""));
  tree.set("/proc/sys/kernel/osrelease", `${KERNEL}\n`);
  tree.set("/proc/self/status", "Name:\tllmgw\nState:\tR (running)\nUid:\t0\t0\t0\t0\n");
  tree.set("/proc/1/comm", host.container === true ? "llmgw\n" : "systemd\n");
  if (host.container !== true) tree.set("/proc/2/comm", "kthreadd\n");
  const files = host.openFiles ?? 1_048_576;
  tree.set(
    "/proc/self/limits",
    `Limit                     Soft Limit           Hard Limit           Units     \nMax open files            ${String(Math.min(files, 1024)).padEnd(20)} ${String(files).padEnd(20)} files     \n`,
  );
  for (const kernel of [KERNEL, ...(host.nextKernel === undefined ? [] : [host.nextKernel])]) {
    tree.set(`/lib/modules/${kernel}/modules.order`, "kernel/drivers/nvme/host/nvme.ko\n");
  }
  if (host.container === true) tree.set("/.dockerenv", "");
  else if ((host.timeService ?? "systemd-timesyncd") === "systemd-timesyncd") tree.set("/run/systemd/timesync/synchronized", "");
  if (host.secureBoot !== undefined) {
    const variable = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    tree.set(`/sys/firmware/efi/efivars/${variable}`, Uint8Array.from([6, 0, 0, 0, host.secureBoot ? 1 : 0]));
  }
  for (let n = 0; n < (host.nvswitches ?? 0); n++) {
    const path = addFunction(tree, {
      bridge: "0a",
      busId: `0000:${(0x0c + n).toString(16).padStart(2, "0")}:00.0`,
      numaNode: 0,
      cpuList: "0-47,96-143",
    });
    tree.set(`${path}/vendor`, "0x10de\n");
    tree.set(`${path}/class`, "0x068000\n");
  }
  for (const process of node.cards.flatMap((card) => card.processes)) {
    tree.set(`/proc/${process.pid}/cmdline`, `${(process.command ?? process.name).replaceAll(" ", "\0")}\0`);
    tree.set(`/proc/${process.pid}/stat`, `${process.pid} (${process.name.split("/").at(-1)?.slice(0, 15)}) S 1 1 1 0 -1\n`);
  }
}

/** The library, the device nodes, and MIG's capabilities. */
function addDriverFiles(tree: Map<string, TreeEntry>, node: NodeDescription, version: string): void {
  tree.set("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", { link: `libnvidia-ml.so.${node.host?.library ?? version}` });
  const missing = node.host?.missingNodes ?? [];
  const known = node.cards.filter((card) => card.unknownToDriver !== true);
  const names = ["nvidiactl", "nvidia-uvm", ...known.map((_, minor) => `nvidia${minor}`)];
  for (const name of names) if (!missing.includes(name)) tree.set(`/dev/${name}`, "");
  const minors: string[] = ["config 1", "monitor 2"];
  for (const [minor, card] of known.entries()) {
    if (card.mig?.current !== "Enabled") continue;
    const folder = `/proc/driver/nvidia/capabilities/gpu${minor}/mig`;
    const carved = new Map<number, number[]>((card.mig.bare ?? []).map((gi) => [gi, []]));
    for (const { gpuInstanceId: gi, computeInstanceId: ci } of card.mig.instances) carved.set(gi, [...(carved.get(gi) ?? []), ci]);
    for (const [gi, cis] of carved) {
      for (const below of [`gi${gi}`, ...cis.map((ci) => `gi${gi}/ci${ci}`)]) {
        const cap = minors.length + 1;
        minors.push(`gpu${minor}/${below}/access ${cap}`);
        tree.set(`${folder}/${below}/access`, `DeviceFileMinor: ${cap}\nDeviceFileMode: 292\nDeviceFileModify: 1\n`);
        if (!missing.includes(`nvidia-cap${cap}`)) tree.set(`/dev/nvidia-caps/nvidia-cap${cap}`, "");
      }
    }
  }
  if (minors.length > 2) tree.set("/proc/driver/nvidia-caps/mig-minors", minors.map((line) => `${line}\n`).join(""));
}

function addDriver(tree: Map<string, TreeEntry>, node: NodeDescription, version: string): void {
  tree.set(
    "/proc/driver/nvidia/version",
    `NVRM version: NVIDIA UNIX x86_64 Kernel Module  ${version}  Mon Nov  2 10:00:00 UTC 2026\nGCC version:  gcc version 12.2.0\n`,
  );
  addDriverFiles(tree, node, version);
  for (const [index, card] of node.cards.filter((one) => one.unknownToDriver !== true).entries()) {
    const uuid = card.lost === true ? "GPU-????????-????-????-????-????????????" : card.uuid;
    tree.set(
      `/proc/driver/nvidia/gpus/${card.busId}/information`,
      `Model: \t\t ${card.name}\nIRQ:   \t\t ${100 + index}\nGPU UUID: \t ${uuid}\nBus Type: \t PCIe\nBus Location: \t ${card.busId}\nDevice Minor: \t ${index}\n`,
    );
  }
}
