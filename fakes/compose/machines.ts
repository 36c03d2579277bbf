/** The fake machines, in the order in which a reader would want to meet them. */
import type { CardDescription, HostDescription, NodeDescription } from "./description.ts";
import { A100_80, adapter, card, GB200, H100, instances, L40S, port, RTX_PRO_6000, RTX4090, uuid } from "./parts.ts";
import { ggufFile, hubSnapshot, lfsPointer, missingShard, ollamaStore, wholeFolder } from "./weights.ts";

const DRIVER_550 = { version: "550.127.08", cuda: "12.4" };
const DRIVER_570 = { version: "570.172.08", cuda: "12.8" };
const DRIVER_580 = { version: "580.95.05", cuda: "13.0" };

const TWO_TB_MB = 2_063_968;
const ALL = [0, 1, 2, 3, 4, 5, 6, 7] as const;

/** One HGX board: completed, and no domain beyond the board. */
const ONE_BOARD = { state: "Completed", status: "Success", cliqueId: 0, clusterUuid: "00000000-0000-0000-0000-000000000000" } as const;

const switched = (links: number) => (a: number, b: number) => (a === b ? 0 : links);

const healthy8: NodeDescription = {
  name: "h100-nvswitch-8",
  about: "a healthy HGX H100: 8 cards behind NVSwitch, each beside its own NDR adapter, with models on disk",
  hostname: "hgx-01",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: ALL.map((n) =>
    card(1, n, H100, {
      fabric: ONE_BOARD,
      ...(n === 2
        ? {
            usedMb: 61_244,
            utilizationPct: 87,
            powerW: 512.25,
            processes: [{ pid: 41_772, name: "/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server", type: "C", memoryMb: 61_230 }],
          }
        : {}),
    }),
  ),
  nvlinks: switched(18),
  host: { nvswitches: 4, fabricManager: { version: DRIVER_550.version, active: true } },
  adapters: ALL.map((n) => adapter(1, n)),
  files: {
    ...wholeFolder("/var/lib/llmgw/models/tiny-llama"),
    ...missingShard("/var/lib/llmgw/models/half-copied"),
    ...lfsPointer("/var/lib/llmgw/models/cloned-without-lfs"),
    ...hubSnapshot("/root/.cache/huggingface/hub", "example-org/tiny-llama-chat"),
  },
  disks: {
    "/var/lib/llmgw/models": { total_bytes: 15_361_000_000_000, free_bytes: 9_216_000_000_000 },
    "/root/.cache/huggingface/hub": { total_bytes: 959_000_000_000, free_bytes: 412_000_000_000 },
  },
};

const pcie4: NodeDescription = {
  name: "l40s-pcie-4",
  about: "4 PCIe cards without NVLink and without fast network adapters, with a GGUF model on disk",
  hostname: "l40s-03",
  memoryMb: 515_820,
  driver: DRIVER_550,
  cards: [0, 1, 4, 5].map((n) => card(2, n, L40S)),
  adapters: [],
  files: ggufFile("/var/lib/llmgw/models/gguf", "tiny-llama-q4_0"),
};

/** Media engines of the card: at most one instance has them. */
const A100_LAYOUT = instances(3, 1, [
  [0, "3g.40gb", 1, 0, 40_192, 42, 38_120],
  [1, "2g.20gb", 5, 0, 19_968, 28],
  [2, "1g.10gb", 9, 0, 9_856, 14],
  [3, "1g.10gb+me", 10, 0, 9_856, 14],
]);

const a100Mixed: NodeDescription = {
  name: "a100-mig-mixed",
  about: "A100 cards: one whole and alone, one carved into four instances, two whole ones joined by NVLink",
  hostname: "a100-07",
  memoryMb: 1_031_900,
  driver: DRIVER_550,
  nvml: true,
  cards: [
    card(3, 0, A100_80, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
    card(3, 1, A100_80, {
      usedMb: 38_159,
      mig: { current: "Enabled", pending: "Enabled", instances: A100_LAYOUT },
      processes: [
        {
          pid: 90_417,
          name: "python3",
          command: "python3 -m vllm.entrypoints.openai.api_server",
          type: "C",
          memoryMb: 38_096,
          gpuInstanceId: 1,
          computeInstanceId: 0,
        },
      ],
    }),
    card(3, 2, A100_80, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
    card(3, 3, A100_80, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
  ],
  nvlinks: (a, b) => (a !== b && a >= 1 && b >= 1 ? 12 : 0),
  adapters: [
    adapter(3, 0, { ports: [port(3, 0, { rate: "200 Gb/sec (4X HDR)" })] }),
    adapter(3, 2, { ports: [port(3, 2, { rate: "200 Gb/sec (4X HDR)" })] }),
  ],
};

const oneCardMig = (
  machine: number,
  name: string,
  about: string,
  rows: Parameters<typeof instances>[2],
  particular: Partial<CardDescription> = {},
): NodeDescription => ({
  name,
  about,
  hostname: `mig-${machine}`,
  memoryMb: 515_820,
  driver: DRIVER_550,
  cards: [
    card(machine, 0, H100, { mig: { current: "Enabled", pending: "Enabled", instances: instances(machine, 0, rows) }, ...particular }),
  ],
  adapters: [],
});

const h100Shared = oneCardMig(
  4,
  "h100-mig-shared",
  "an H100 whose two compute instances share one GPU instance and its memory, beside an instance of its own",
  [
    [0, "1c.3g.40gb", 1, 0, 40_448, 20, 9_120],
    [1, "2c.3g.40gb", 1, 1, 40_448, 40, 9_120],
    [2, "3g.40gb", 2, 0, 40_448, 60],
  ],
  {
    processes: [
      { pid: 5_151, name: "llama-server", type: "C", memoryMb: 4_500, gpuInstanceId: 1, computeInstanceId: 0 },
      { pid: 5_252, name: "llama-server", type: "C", memoryMb: 4_580, gpuInstanceId: 1, computeInstanceId: 1 },
    ],
  },
);

const h100Sparse = oneCardMig(
  5,
  "h100-mig-sparse",
  "an H100 whose MIG device indexes have holes, since instances were destroyed in between",
  [
    [0, "2g.20gb", 3, 0, 20_096, 32],
    [3, "1g.10gb", 9, 0, 9_984, 16],
    [5, "1g.10gb", 13, 0, 9_984, 16],
  ],
);

const h100Media = oneCardMig(6, "h100-mig-media", "an H100 with an instance that has the media engines (+me)", [
  [0, "1g.10gb+me", 7, 0, 9_984, 16],
  [1, "1g.20gb", 8, 0, 20_096, 26],
  [2, "4g.40gb", 1, 0, 40_448, 64],
]);

const rtxPro: NodeDescription = {
  name: "rtxpro6000-mig-graphics",
  about: "an RTX PRO 6000 with instances that have graphics (+gfx) and that have no media engine (-me), beside a whole card",
  hostname: "pro-02",
  memoryMb: 257_850,
  driver: DRIVER_580,
  cards: [
    card(7, 0, RTX_PRO_6000, {
      mig: {
        current: "Enabled",
        pending: "Enabled",
        instances: instances(7, 0, [
          [0, "1g.24gb+gfx", 3, 0, 23_808, 46],
          [1, "1g.24gb-me", 4, 0, 23_808, 46],
          [2, "2g.48gb+me.all", 1, 0, 47_872, 92],
        ]),
      },
    }),
    card(7, 1, RTX_PRO_6000, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
  ],
  adapters: [],
};

const a100Empty: NodeDescription = {
  name: "a100-mig-empty",
  about: "two A100: MIG is on and nothing is carved on the first, the second is whole",
  hostname: "a100-11",
  memoryMb: 515_820,
  driver: DRIVER_550,
  cards: [
    card(8, 0, A100_80, { mig: { current: "Enabled", pending: "Enabled", instances: [] } }),
    card(8, 1, A100_80, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
  ],
  nvlinks: switched(12),
  adapters: [],
};

const a100Pending: NodeDescription = {
  name: "a100-mig-pending",
  about: "two A100: MIG was turned on for the first, which waits for a reset; it is still a whole card",
  hostname: "a100-12",
  memoryMb: 515_820,
  driver: DRIVER_550,
  cards: [
    card(9, 0, A100_80, { mig: { current: "Disabled", pending: "Enabled", instances: [] } }),
    card(9, 1, A100_80, { mig: { current: "Disabled", pending: "Disabled", instances: [] } }),
  ],
  nvlinks: switched(12),
  adapters: [],
};

const oldDriver: NodeDescription = {
  name: "a100-old-driver",
  about: "an A100 under a driver before R470, whose instances have UUIDs of the old form",
  hostname: "a100-old",
  memoryMb: 515_820,
  driver: { version: "460.106.00", cuda: "11.2" },
  cards: [
    card(
      10,
      0,
      { ...A100_80, name: "A100-SXM4-80GB" },
      {
        mig: {
          current: "Enabled",
          pending: "Enabled",
          oldForm: true,
          instances: instances(10, 0, [
            [0, "3g.40gb", 1, 0, 40_192, 42],
            [1, "3g.40gb", 2, 0, 40_192, 42],
          ]),
        },
      },
    ),
  ],
  adapters: [],
};

const cardLost: NodeDescription = {
  name: "h100-card-lost",
  about: "an HGX H100 whose card 3 fell off the bus: the query for all cards fails, card by card works",
  hostname: "hgx-05",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: ALL.map((n) => card(11, n, H100, { fabric: ONE_BOARD, ...(n === 3 ? { lost: true } : {}) })),
  nvlinks: switched(18),
  adapters: [],
  cardByCard: true,
  host: {
    kernelLog: [
      "NVRM: GPU at PCI:0000:60:00: GPU-c0de000b-6e00-4000-8000-000000000003",
      "NVRM: Xid (PCI:0000:60:00): 79, pid=41772, name=python3, GPU has fallen off the bus.",
    ],
  },
  answers: {
    query: {
      text: "Unable to determine the device handle for GPU0000:60:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
      exit: 15,
    },
  },
};

const hangs: NodeDescription = {
  name: "nvidia-smi-hangs",
  about: "nvidia-smi -q -x never answers, as when a card waits in the kernel; -L still does",
  hostname: "hgx-09",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: [0, 1, 2, 3].map((n) => card(12, n, H100)),
  adapters: [],
  answers: { query: { hangs: true }, topology: { hangs: true } },
};

const broken = (name: string, about: string, text: string, exit: number, procDriver: boolean, host: HostDescription): NodeDescription => ({
  name,
  about,
  hostname: name,
  memoryMb: 515_820,
  driver: { version: "535.161.08", cuda: "12.2" },
  cards: [0, 1].map((n) => card(13, n, A100_80)),
  adapters: [],
  procDriver,
  host,
  answers: { list: { text, exit }, query: { text, exit }, topology: { text, exit } },
});

const mismatch = broken(
  "driver-library-mismatch",
  "the driver's files were upgraded under the loaded module: every new GPU process fails until a reboot",
  "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n",
  18,
  true,
  {
    library: "535.183.01",
    moduleFile: "535.183.01",
    kernelLog: ["NVRM: API mismatch: the client has the version 535.183.01, but this kernel module has the version 535.161.08."],
  },
);

const NO_DRIVER_TEXT =
  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n";

const noDriver = broken(
  "no-driver",
  "two cards on the PCI bus and NVIDIA's tools, but no module is loaded",
  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n",
  9,
  false,
  { library: "535.161.08" },
);

const RACK = uuid(14, 0xfab0, 1);
const IN_RACK = {
  state: "Completed",
  status: "Success",
  cliqueId: 32_766,
  clusterUuid: RACK,
  health: { summary: "Healthy", bandwidth: "Full", routeRecovery: false, routeUnhealthy: false, accessTimeoutRecovery: false },
} as const;

/** The cards' own memory is a NUMA node each. */
const GPU_NUMA_NODES = [2, 10, 18, 26] as const;

const rackNodes = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ address: `10.20.0.${n + 11}`, status: "READY", version: "570.172" }));

const domainUp: NodeDescription = {
  name: "gb200-domain-up",
  about: "a GB200 compute tray in a rack-wide NVLink domain of 18 nodes, all connected",
  hostname: "rack1-tray04",
  memoryMb: 980_000,
  driver: DRIVER_570,
  nvml: true,
  cards: GPU_NUMA_NODES.map((gpuNumaNode, n) => card(14, n, GB200, { gpuNumaNode, fabric: IN_RACK })),
  nvlinks: switched(18),
  adapters: [0, 1, 2, 3].map((n) => adapter(14, n)),
  imex: { nodes: rackNodes(18), letter: () => "C", state: "UP" },
};

const domainDegraded: NodeDescription = {
  name: "gb200-domain-degraded",
  about: "a GB200 compute tray: one node of the domain is away, and one card's registration is not completed",
  hostname: "rack1-tray07",
  memoryMb: 980_000,
  driver: DRIVER_570,
  cards: GPU_NUMA_NODES.map((gpuNumaNode, n) =>
    card(15, n, GB200, {
      gpuNumaNode,
      fabric: n === 2 ? { state: "In Progress", status: "N/A", cliqueId: 0, clusterUuid: "" } : IN_RACK,
    }),
  ),
  nvlinks: switched(18),
  adapters: [0, 1, 2, 3].map((n) => adapter(15, n)),
  imex: {
    nodes: rackNodes(4).map((node, n) => (n === 3 ? { address: node.address, status: "UNAVAILABLE" } : node)),
    letter: (from, to) => (from === 3 ? "I" : to === 3 ? "N" : "C"),
    state: "DEGRADED",
  },
};

const twoFabrics: NodeDescription = {
  name: "two-fabrics-same-prefix",
  about: "two rails that are separate fabrics with the same default prefix, told apart by their declarations",
  hostname: "hgx-12",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: [0, 4].map((n) => card(16, n, H100, { fabric: ONE_BOARD })),
  nvlinks: switched(18),
  adapters: [adapter(16, 0), adapter(16, 4, { ports: [port(16, 4, { lid: 0x20, smLid: 7 })] })],
  files: { "/etc/llmgw/agent.yaml": "fabrics:\n  - name: rail0\n    adapters: [mlx5_0]\n  - name: rail1\n    adapters: [mlx5_4]\n" },
};

const noSubnetManager: NodeDescription = {
  name: "no-subnet-manager",
  about: "an adapter whose link is up without any subnet manager, one without a cable, one that works",
  hostname: "hgx-13",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: [0].map((n) => card(17, n, H100, { fabric: ONE_BOARD })),
  adapters: [
    adapter(17, 0, { ports: [port(17, 0, { state: "2: INIT", lid: 0xffff, smLid: 0 })] }),
    adapter(17, 1, {
      ports: [port(17, 1, { state: "1: DOWN", physState: "2: Polling", rate: "10 Gb/sec (4X SDR)", lid: 0xffff, smLid: 0 })],
    }),
    adapter(17, 4),
  ],
};

const desktop: NodeDescription = {
  name: "rtx4090-desktop",
  about: "a desktop with one RTX 4090 that also draws the screen",
  hostname: "workstation",
  memoryMb: 64_220,
  driver: DRIVER_580,
  cards: [
    card(18, 0, RTX4090, {
      usedMb: 1_204,
      utilizationPct: 6,
      temperatureC: 41,
      powerW: 38.4,
      supportedClocks: [
        { memoryMhz: 10_501, graphicsMhz: [3105, 2100, 210] },
        { memoryMhz: 405, graphicsMhz: [420, 210] },
      ],
      processes: [
        { pid: 2_210, name: "/usr/lib/xorg/Xorg", type: "G", memoryMb: 410 },
        { pid: 2_544, name: "/usr/bin/gnome-shell", type: "G", memoryMb: 160 },
        { pid: 3_071, name: "/usr/lib/firefox/firefox --profile=a&b", type: "C+G", memoryMb: 212 },
      ],
    }),
  ],
  adapters: [],
  files: ollamaStore("/root/.ollama/models", "tiny-llama", "1b"),
  disks: { "/root/.ollama/models": { total_bytes: 2_000_398_934_016, free_bytes: 731_000_000_000 } },
};

const cpuOnly: NodeDescription = {
  name: "cpu-only",
  about: "a server without any card or fast adapter",
  hostname: "cpu-21",
  memoryMb: 257_850,
  cards: [],
  adapters: [],
};

const container: NodeDescription = {
  name: "cpu-container",
  about: "a container with 16 GiB on a host with 256 GiB",
  hostname: "3f2a9c1b7d44",
  memoryMb: 257_850,
  cgroupLimitBytes: 16 * 1024 ** 3,
  host: { container: true },
  cards: [],
  adapters: [],
};

const memoryFaults: NodeDescription = {
  name: "ecc-row-remap",
  about: "four H100: uncorrectable errors, a remap that waits for a reset, a remap that failed, and a reset that the driver asks for",
  hostname: "hgx-17",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_570,
  cards: [
    card(19, 0, H100, { fabric: ONE_BOARD, ecc: { volatileUncorrectable: 3, aggregateUncorrectable: 9 } }),
    card(19, 1, H100, { fabric: ONE_BOARD, remapPending: true, recoveryAction: "Reset" }),
    card(19, 2, H100, { fabric: ONE_BOARD, remapFailure: true }),
    card(19, 3, H100, { fabric: ONE_BOARD, ecc: { volatileUncorrectable: 0, aggregateUncorrectable: 12 } }),
  ],
  nvlinks: switched(18),
  adapters: [],
};

const slowed: NodeDescription = {
  name: "thermal-power-brake",
  about: "two L40S that the hardware slows down: one for heat, one because the power supply signals the brake",
  hostname: "l40s-09",
  memoryMb: 515_820,
  driver: DRIVER_580,
  cards: [
    card(20, 0, L40S, { hwThermal: true, temperatureC: 91, utilizationPct: 100, powerW: 211 }),
    card(20, 1, L40S, { hwPowerBrake: true, utilizationPct: 100, powerW: 118 }),
  ],
  adapters: [],
};

const neglected: NodeDescription = {
  name: "a100-neglected",
  about: "four A100 that nobody looked after: an upgrade without a reboot, nodes, lanes, limits and disks in need, strangers on the cards",
  hostname: "a100-21",
  memoryMb: 515_820,
  driver: DRIVER_550,
  cards: [
    card(21, 0, A100_80, {
      persistence: false,
      usedMb: 20_512,
      processes: [{ pid: 8_101, name: "/home/sam/render/blender", type: "C", memoryMb: 20_480 }],
    }),
    card(21, 1, A100_80, { persistence: false, linkWidth: 8, usedMb: 31_004 }),
    card(21, 2, A100_80, { persistence: false, computeMode: "Prohibited" }),
    card(21, 3, A100_80, { persistence: false, computeMode: "Exclusive_Process" }),
  ],
  adapters: [],
  unreadable: ["/var/lib/llmgw/models"],
  disks: { "/": { total_bytes: 479_559_942_144, free_bytes: 3_210_000_000 } },
  host: {
    moduleFile: "550.163.01",
    nextKernel: "6.8.0-101-generic",
    missingNodes: ["nvidia-uvm"],
    timeService: "none",
    openFiles: 4_096,
    shmBytes: 64 * 1024 ** 2,
    kernelLog: [
      "NVRM: Xid (PCI:0000:18:00): 31, pid=7412, name=python3, Ch 00000008, MMU fault",
      "NVRM: Xid (PCI:0000:29:00): 94, pid=7420, name=python3, contained memory error",
      "NVRM: Xid (PCI:0000:3d:00): 119, pid=7431, name=nvidia-smi, timeout waiting for the firmware",
    ],
  },
};

const nouveau: NodeDescription = {
  name: "nouveau-holds-card",
  about: "a card that the kernel's own nouveau driver took before NVIDIA's module came",
  hostname: "fresh-install",
  memoryMb: 257_850,
  driver: { version: "550.127.08", cuda: "12.4" },
  cards: [card(22, 0, L40S)],
  adapters: [],
  procDriver: false,
  answers: Object.fromEntries((["list", "query", "topology"] as const).map((name) => [name, { text: NO_DRIVER_TEXT, exit: 9 }])),
  host: { heldBy: "nouveau", kernelLog: ["nouveau 0000:18:00.0: NVIDIA AD102 (192000a1)"] },
};

const secureBoot: NodeDescription = {
  ...nouveau,
  name: "secure-boot-rejects",
  about: "a card whose module is installed and unsigned, on a machine with Secure Boot",
  hostname: "signed-only",
  cards: [card(23, 0, L40S)],
  host: {
    secureBoot: true,
    moduleFile: "550.127.08",
    kernelLog: ["Loading of module with unavailable key is rejected: nvidia key was rejected by service"],
  },
};

const migBroken: NodeDescription = {
  ...oneCardMig(
    24,
    "h100-mig-half-made",
    "an H100 with a GPU instance that has no compute instance, and an instance whose device node was not made",
    [
      [0, "1g.10gb", 7, 0, 9_984, 16],
      [1, "2g.20gb", 3, 0, 20_096, 32],
    ],
  ),
  host: { missingNodes: ["nvidia-cap7"] },
};

const halfMade: NodeDescription = {
  ...migBroken,
  cards: migBroken.cards.map((one) => (one.mig === undefined ? one : { ...one, mig: { ...one.mig, bare: [1] } })),
};

const noManager: NodeDescription = {
  name: "nvswitch-no-manager",
  about: "an HGX H100 whose fabric manager does not run: no card is registered with the fabric, no CUDA program starts",
  hostname: "hgx-25",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: ALL.map((n) => card(25, n, H100, { fabric: { state: "In Progress", status: "N/A", cliqueId: 0, clusterUuid: "" } })),
  nvlinks: switched(18),
  adapters: [],
  host: { nvswitches: 4, fabricManager: { version: DRIVER_550.version, active: false } },
};

const tired: NodeDescription = {
  name: "h100-links-and-rails",
  about: "an HGX H100 with one card short of NVLinks, one that the driver does not know, a slow rail and one without signal",
  hostname: "hgx-26",
  memoryMb: TWO_TB_MB,
  driver: DRIVER_550,
  cards: [0, 1, 2, 3, 7].map((n) => card(26, n, H100, { fabric: ONE_BOARD, ...(n === 7 ? { unknownToDriver: true } : {}) })),
  nvlinks: (a, b) => (a === b ? 0 : a === 2 || b === 2 ? 16 : 18),
  adapters: [
    adapter(26, 0),
    adapter(26, 1, { ports: [port(26, 1, { rate: "200 Gb/sec (2X NDR)" })] }),
    adapter(26, 2),
    adapter(26, 3, {
      ports: [port(26, 3, { state: "1: DOWN", physState: "2: Polling", rate: "10 Gb/sec (4X SDR)", lid: 0x23, smLid: 1 })],
    }),
    adapter(26, 4, { ports: [port(26, 4, { lid: 0x22 })] }),
  ],
  host: {
    nvswitches: 4,
    fabricManager: { version: DRIVER_550.version, active: true },
    kernelLog: ["NVRM: GPU 0000:da:00.0: RmInitAdapter failed! (0x62:0xffff:2860)"],
  },
};

export const MACHINES: readonly NodeDescription[] = [
  healthy8,
  pcie4,
  a100Mixed,
  h100Shared,
  h100Sparse,
  h100Media,
  rtxPro,
  a100Empty,
  a100Pending,
  oldDriver,
  cardLost,
  hangs,
  mismatch,
  noDriver,
  domainUp,
  domainDegraded,
  twoFabrics,
  noSubnetManager,
  memoryFaults,
  slowed,
  neglected,
  nouveau,
  secureBoot,
  halfMade,
  noManager,
  tired,
  desktop,
  cpuOnly,
  container,
];
