/** What a composed machine is, in the words of the domain. The renderers turn it into what the tools would print. */

export interface NodeDescription {
  readonly name: string;
  /** One sentence. */
  readonly about: string;
  readonly hostname: string;
  readonly memoryMb: number;
  /** Memory limit of the container that llmgw runs in, bytes. */
  readonly cgroupLimitBytes?: number;
  /** `undefined` on a node without NVIDIA's tools. */
  readonly driver?: DriverDescription;
  /** NVIDIA's library is there as well, and recorded. */
  readonly nvml?: boolean;
  readonly cards: readonly CardDescription[];
  /** Links between two cards by index; 0 for none. */
  readonly nvlinks?: (a: number, b: number) => number;
  readonly adapters: readonly AdapterDescription[];
  readonly imex?: ImexDescription;
  /** What a command does instead of answering for the cards described. */
  readonly answers?: Partial<Readonly<Record<"list" | "query" | "topology", AnswerDescription>>>;
  /** Answers of `-q -x -i BUS_ID` are recorded for every card; those of lost cards fail. */
  readonly cardByCard?: boolean;
  /** Files below `/`, such as agent.yaml or model folders: bytes, text, or a link's target. */
  readonly files?: Readonly<Record<string, string | Uint8Array | { readonly link: string }>>;
  readonly disks?: Readonly<Record<string, { readonly total_bytes: number; readonly free_bytes: number }>>;
  /** The kernel module's own folder is there although the tools fail. */
  readonly procDriver?: boolean;
  /** What only doctor reads; a healthy host unless said. */
  readonly host?: HostDescription;
  /** Paths that may not be read. */
  readonly unreadable?: readonly string[];
}

export interface HostDescription {
  /** Lines of the kernel log beside the usual ones, without time and host name. */
  readonly kernelLog?: readonly string[];
  /** Driver that holds the cards. Default nvidia where its module is loaded. */
  readonly heldBy?: string;
  readonly secureBoot?: boolean;
  readonly container?: boolean;
  /** Version that the library's link names. Default the driver's. */
  readonly library?: string;
  /** Version of the module file; `null` for none. Default the driver's. */
  readonly moduleFile?: string | null;
  /** A newer kernel is installed that has no module. */
  readonly nextKernel?: string;
  /** NVSwitches on the PCI bus. */
  readonly nvswitches?: number;
  readonly fabricManager?: { readonly version: string; readonly active: boolean };
  readonly timeService?: "systemd-timesyncd" | "chronyd" | "none";
  /** Nodes in /dev, or in /dev/nvidia-caps, that were not made. */
  readonly missingNodes?: readonly string[];
  readonly openFiles?: number;
  readonly shmBytes?: number;
}

export interface DriverDescription {
  readonly version: string;
  readonly cuda: string;
}

export interface AnswerDescription {
  readonly text?: string;
  readonly exit?: number;
  readonly hangs?: boolean;
}

export interface CardDescription {
  readonly name: string;
  readonly uuid: string;
  /** `0000:17:00.0`. */
  readonly busId: string;
  readonly numaNode: number;
  readonly cpuList: string;
  /** Cards and adapters of one bridge are next to each other (PIX). */
  readonly bridge: string;
  readonly memoryMb: number;
  readonly reservedMb: number;
  readonly usedMb: number;
  readonly temperatureC: number;
  readonly powerW: number;
  readonly powerLimitW: number;
  readonly utilizationPct: number;
  readonly mig?: MigDescription;
  readonly processes: readonly ProcessDescription[];
  /** Data-centre cards count ECC errors; others answer N/A. */
  readonly ecc?: { readonly volatileUncorrectable: number; readonly aggregateUncorrectable: number };
  readonly remapPending?: boolean;
  readonly remapFailure?: boolean;
  readonly recoveryAction?: string;
  readonly hwThermal?: boolean;
  readonly hwPowerBrake?: boolean;
  readonly fabric?: FabricDescription;
  /** NUMA node of the card's own memory, on coherent systems. */
  readonly gpuNumaNode?: number;
  /** Real lists are long and nothing reads them: a short one on one machine is enough. */
  readonly supportedClocks?: readonly SupportedClocks[];
  /** Fell off the bus. */
  readonly lost?: boolean;
  /** On the bus, and the driver does not know it. */
  readonly unknownToDriver?: boolean;
  /** Default on. */
  readonly persistence?: boolean;
  /** Default `Default`. */
  readonly computeMode?: string;
  /** Lanes in use of 16. */
  readonly linkWidth?: number;
}

export interface MigDescription {
  readonly current: "Enabled" | "Disabled";
  readonly pending: "Enabled" | "Disabled";
  readonly instances: readonly InstanceDescription[];
  /** UUIDs in the form of drivers before R470. */
  readonly oldForm?: boolean;
  /** GPU instances without a compute instance. */
  readonly bare?: readonly number[];
}

export interface InstanceDescription {
  readonly device: number;
  readonly profile: string;
  readonly uuid: string;
  readonly gpuInstanceId: number;
  readonly computeInstanceId: number;
  readonly memoryMb: number;
  readonly usedMb: number;
  readonly smCount: number;
}

export interface ProcessDescription {
  readonly pid: number;
  readonly name: string;
  readonly type: "C" | "G" | "C+G";
  /** Command line in /proc where it says more than the name. */
  readonly command?: string;
  readonly memoryMb: number;
  readonly gpuInstanceId?: number;
  readonly computeInstanceId?: number;
}

export interface FabricDescription {
  readonly state: "In Progress" | "Completed";
  readonly status: string;
  readonly cliqueId: number;
  readonly clusterUuid: string;
  /** Printed from 570 on. */
  readonly health?: FabricHealthDescription;
}

export interface FabricHealthDescription {
  readonly summary: "Healthy" | "Unhealthy" | "Limited Capacity";
  readonly bandwidth: "Full" | "Degraded";
  readonly routeRecovery: boolean;
  readonly routeUnhealthy: boolean;
  readonly accessTimeoutRecovery: boolean;
  /** What is wrong; `undefined` prints as N/A. */
  readonly incorrectConfiguration?: string;
}

export interface SupportedClocks {
  readonly memoryMhz: number;
  readonly graphicsMhz: readonly number[];
}

export interface AdapterDescription {
  readonly name: string;
  readonly busId: string;
  readonly numaNode: number;
  readonly cpuList: string;
  readonly bridge: string;
  readonly firmware: string;
  readonly boardId: string;
  readonly hcaType: string;
  readonly nodeGuid: string;
  readonly netdevs: readonly string[];
  readonly ports: readonly PortDescription[];
}

export interface PortDescription {
  readonly state: "1: DOWN" | "2: INIT" | "4: ACTIVE";
  readonly physState: "2: Polling" | "5: LinkUp";
  readonly rate: string;
  readonly linkLayer: "InfiniBand" | "Ethernet";
  readonly gid: string;
  readonly lid: number;
  readonly smLid: number;
}

export interface ImexDescription {
  readonly nodes: readonly { readonly address: string; readonly status: string; readonly version?: string }[];
  /** Connected pairs are `C`; the letter of any other. */
  readonly letter: (from: number, to: number) => string;
  readonly state: "UP" | "DEGRADED" | "DOWN";
}
