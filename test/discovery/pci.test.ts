import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  discoverPci,
  discoverProcNvidia,
  listNvidiaCards,
  nearestAdapters,
  type PciPlace,
  parseDevicePath,
  parseProcInformation,
  parseProcVersion,
} from "../../src/discovery/pci.ts";
import { temporaryFolder } from "../support/folders.ts";
import { treeRunner } from "../support/tree-runner.ts";

function place(path: string, numaNode?: number): PciPlace {
  const parts = path.split("/");
  return { busId: parts.at(-1) ?? "", path: parts, numaNode, cpuList: undefined };
}

const CARD = place("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0);
const SAME_SWITCH = { name: "switch", place: place("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0) };
const SAME_PORT = {
  name: "port",
  place: place("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", 0),
};
const SAME_HOST_BRIDGE = { name: "host", place: place("pci0000:15/0000:15:05.0/0000:20:00.0", 0) };
const SAME_NODE = { name: "node", place: place("pci0000:26/0000:26:01.0/0000:27:00.0", 0) };
const OTHER_SOCKET = { name: "far", place: place("pci0000:97/0000:97:01.0/0000:98:00.0", 1) };

test("a shared bridge comes before a shared host bridge, that before the same NUMA node, and the fewest steps first", () => {
  const all = [OTHER_SOCKET, SAME_NODE, SAME_HOST_BRIDGE, SAME_PORT, SAME_SWITCH];
  expect(nearestAdapters(CARD, all)).toEqual(["switch"]);
  expect(nearestAdapters(CARD, all.slice(0, 4))).toEqual(["port"]);
  expect(nearestAdapters(CARD, all.slice(0, 3))).toEqual(["host"]);
  expect(nearestAdapters(CARD, all.slice(0, 2))).toEqual(["node"]);
});

test("equally near adapters are all listed, in their order", () => {
  const twin = { name: "twin", place: place("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.1", 0) };
  expect(nearestAdapters(CARD, [twin, SAME_NODE, SAME_SWITCH])).toEqual(["twin", "switch"]);
});

test("across sockets none is near, and without adapters there is none", () => {
  expect(nearestAdapters(CARD, [OTHER_SOCKET])).toEqual([]);
  expect(nearestAdapters(CARD, [])).toEqual([]);
});

test("an unknown NUMA node pairs with nothing: then it cannot be told", () => {
  const unknown = { name: "unknown", place: place("pci0000:97/0000:97:01.0/0000:98:00.0") };
  expect(nearestAdapters(CARD, [unknown])).toBeUndefined();
  expect(nearestAdapters({ ...CARD, numaNode: undefined }, [unknown])).toBeUndefined();
  expect(nearestAdapters(CARD, [{ name: "virtual", place: undefined }])).toBeUndefined();
});

test("the way starts at the host bridge, whatever stands before it", () => {
  expect(parseDevicePath("/sys/devices/LNXSYSTM:00/VMBUS:00/guid/pci0101:00/0101:00:00.0", "0101:00:00.0")).toEqual([
    "pci0101:00",
    "0101:00:00.0",
  ]);
  expect(parseDevicePath("/sys/devices/pci0000:00/0000:00:01.0", "0000:00:02.0")).toBeUndefined();
  expect(parseDevicePath("/somewhere/else", "0000:00:02.0")).toBeUndefined();
});

const DEVICE = "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0";
const TREE = {
  [`${DEVICE}/numa_node`]: "1\n",
  [`${DEVICE}/local_cpulist`]: "48-95\n",
  [`${DEVICE}/vendor`]: "0x10de\n",
  [`${DEVICE}/class`]: "0x030200\n",
  "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.1/vendor": "0x10de\n",
  "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.1/class": "0x040300\n",
  "sys/devices/pci0000:00/0000:00:02.0/vendor": "0x8086\n",
  "sys/devices/pci0000:00/0000:00:02.0/class": "0x030000\n",
  "sys/devices/pci10000:00/10000:01:00.0/vendor": "0x10de\n",
  "sys/devices/pci10000:00/10000:01:00.0/class": "0x030000\n",
  "sys/bus/pci/devices/0000:18:00.0": { link: "../../../devices/pci0000:15/0000:15:01.0/0000:18:00.0" },
  "sys/bus/pci/devices/0000:18:00.1": { link: "../../../devices/pci0000:15/0000:15:01.0/0000:18:00.1" },
  "sys/bus/pci/devices/0000:00:02.0": { link: "../../../devices/pci0000:00/0000:00:02.0" },
  "sys/bus/pci/devices/10000:01:00.0": { link: "../../../devices/pci10000:00/10000:01:00.0" },
};

test("a function's place is read by its bus id in any form; one that is not on the bus is left out", async () => {
  using folder = temporaryFolder();
  const places = await discoverPci(treeRunner(folder.path, TREE), ["00000000:18:00.0", "0000:18:00.0", "0000:99:00.0", "nonsense"]);
  expect([...places]).toEqual([
    ["0000:18:00.0", { busId: "0000:18:00.0", path: ["pci0000:15", "0000:15:01.0", "0000:18:00.0"], numaNode: 1, cpuList: "48-95" }],
  ]);
});

test("a file that may not be read costs its own fact", async () => {
  using folder = temporaryFolder();
  const runner = treeRunner(folder.path, TREE, { fails: { "/sys/bus/pci/devices/0000:18:00.0/numa_node": "denied" } });
  const found = (await discoverPci(runner, ["0000:18:00.0"])).get("0000:18:00.0");
  expect(found?.numaNode).toBeUndefined();
  expect(found?.cpuList).toBe("48-95");
});

test("NVIDIA's display and 3D controllers are cards; its audio functions and other vendors' cards are not", async () => {
  using folder = temporaryFolder();
  expect(await listNvidiaCards(treeRunner(folder.path, TREE))).toEqual(["0000:18:00.0", "10000:01:00.0"]);
});

test("without a PCI bus it is not known which cards there are", async () => {
  using folder = temporaryFolder();
  expect(await listNvidiaCards(treeRunner(folder.path, {}))).toBeUndefined();
});

const INFORMATION = `Model: \t\t NVIDIA Test Card
IRQ:   \t\t 120
GPU UUID: \t GPU-00000000-1111-2222-3333-444444444444
Bus Location: \t 0000:18:00.0
Device Minor: \t 3
`;

test("the driver's own folder tells its version and cards", async () => {
  using folder = temporaryFolder();
  const runner = treeRunner(folder.path, {
    "proc/driver/nvidia/version":
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 22:38:31 UTC 2024\nGCC version: 11.4.0\n",
    "proc/driver/nvidia/gpus/0000:18:00.0/information": INFORMATION,
    "proc/driver/nvidia/gpus/0000:17:00.0/information": "Model: Unknown\nGPU UUID: GPU-????????-????-????-????-????????????\n",
  });
  expect(await discoverProcNvidia(runner)).toEqual({
    driverVersion: "535.161.08",
    cards: [
      { busId: "0000:17:00.0", model: undefined, uuid: undefined, minor: undefined },
      { busId: "0000:18:00.0", model: "NVIDIA Test Card", uuid: "GPU-00000000-1111-2222-3333-444444444444", minor: 3 },
    ],
  });
});

test("a module that is not loaded has nothing to tell", async () => {
  using folder = temporaryFolder();
  expect(await discoverProcNvidia(treeRunner(folder.path, {}))).toBeUndefined();
});

test("the open modules print their version elsewhere in the line", () => {
  const line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder)";
  expect(parseProcVersion(line)).toBe("580.95.05");
  expect(parseProcVersion("GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0)")).toBeUndefined();
});

test("any text of the driver's files is read without a crash", () => {
  fc.assert(
    fc.property(fc.nat(INFORMATION.length), fc.string(), (keep, noise) => {
      const card = parseProcInformation(INFORMATION.slice(0, keep) + noise);
      expect(card.minor === undefined || Number.isSafeInteger(card.minor)).toBe(true);
      parseProcVersion(noise);
    }),
  );
});
