/** Everything that doctor judges, collected once (collect.ts). Checks are pure functions of it. */
import type { NvidiaReport } from "../discovery/nvidia.ts";
import type { ProcNvidia } from "../discovery/pci.ts";
import type { AgentConfig } from "../domain/agent-config.ts";
import type { Inventory } from "../domain/inventory.ts";
import type { DiskSpace } from "../platform/runner.ts";

/** What looking gave: a value, that there is none, or why it could not be seen ("needs root: kernel log"). */
export type Read<T> =
  | { readonly kind: "read"; readonly value: T }
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly why: string };

/** One PCI function of NVIDIA's. */
export interface PciFunction {
  /** `0000:17:00.0`. */
  readonly busId: string;
  /** Four hex digits: 0300 and 0302 are cards, 0680 is an NVSwitch. */
  readonly classCode: string;
  /** Kernel driver that holds it: nvidia, nouveau, vfio-pci. */
  readonly driver: string | undefined;
  /** First four bytes of its configuration as hex digits; `ffffffff` when nobody answers on the bus. */
  readonly config: string | undefined;
  /** Lanes of the port above it: what its slot can give. `undefined` in most virtual machines. */
  readonly slotWidth: number | undefined;
}

/** Version of the module file that `modprobe nvidia` would load under a kernel. */
export interface ModuleFile {
  readonly kernel: string;
  readonly running: boolean;
  /** `undefined` when that kernel has no such module. */
  readonly version: string | undefined;
}

export interface KernelLog {
  readonly command: string;
  /** Only the lines that a check reads. */
  readonly lines: readonly string[];
}

/** As `systemctl show` says: loaded or not-found, active or inactive or failed. */
export interface Service {
  readonly load: string;
  readonly active: string;
}

export interface OpenFiles {
  /** `undefined` for unlimited. */
  readonly soft: number | undefined;
  readonly hard: number | undefined;
}

/** An instance of the capability tree: a GPU instance, and its compute instances. */
export interface CapabilityInstance {
  /** N of `/dev/nvidiaN`. */
  readonly minor: number;
  readonly gpuInstanceId: number;
  readonly computeInstanceIds: readonly number[];
}

/** `gpu0/gi1/ci0` → number of its device node. */
export type MigMinors = Readonly<Record<string, number>>;

export interface ProcessFacts {
  readonly pid: number;
  readonly command: string | undefined;
  /** R, S, D, Z as the kernel says; `undefined` when there is no such process here. */
  readonly state: string | undefined;
}

export interface FolderAccess {
  readonly path: string;
  readonly access: "readable" | "absent" | "refused" | "hung";
  /** The first folder on the way that may not be read. */
  readonly stopsAt: string | undefined;
}

export interface Disk {
  readonly path: string;
  readonly space: DiskSpace;
}

/** A model that is to run here. Nothing fills this before an agent has an assignment. */
export interface PlacedModel {
  readonly name: string;
  /** Devices that one replica asks for. */
  readonly devices: number;
  readonly class: string;
  /** Weights and the smallest cache, MiB on each device. */
  readonly need_mb: number | undefined;
  /** Several nodes run one replica. */
  readonly multi_node: boolean;
  /** Folder or file of its weights, as in the inventory. */
  readonly path: string | undefined;
}

/** An engine that is configured here. Nothing fills this before engines can be configured. */
export interface ConfiguredEngine {
  readonly name: string;
  readonly program: string;
  /** Versions that llmgw knows, in words. */
  readonly wanted: string;
  readonly found: { readonly version: string; readonly supported: boolean } | undefined;
  /** The CUDA that it was built for. */
  readonly cuda_version: string | undefined;
  /** Whether it can be pointed at an instance by UUID; `undefined` when that is not known. */
  readonly takes_instances: boolean | undefined;
  readonly models: readonly string[];
}

/** An engine process with llmgw's mark. Nothing fills this before an agent runs here. */
export interface MarkedProcess {
  readonly pid: number;
  readonly engine: string;
  readonly owned: boolean;
  readonly memory_mb: number | undefined;
  readonly port: number | undefined;
}

/** What the way to the control plane showed; `undefined` in `Facts` until the node has joined one. */
export interface ControlPlaneFacts {
  readonly address: string;
  readonly failed: { readonly step: "look up" | "connect to" | "speak TLS with" | "ask"; readonly error: string } | undefined;
  readonly certificates: readonly { readonly who: string; readonly from_ms: number; readonly until_ms: number }[];
  /** False for plain HTTP on loopback, which has no certificates to judge. */
  readonly encrypted: boolean;
  /** `undefined` while nothing listens here that the control plane should reach. */
  readonly callback: { readonly address: string; readonly error: string | undefined } | undefined;
  /** This node's clock less the control plane's, ms. */
  readonly clock_offset_ms: number | undefined;
}

export interface Facts {
  /** The machine's clock, ms since 1970. */
  readonly nowMs: number;
  readonly inventory: Inventory;
  readonly config: AgentConfig;
  /** What the driver said, call by call. */
  readonly nvidia: NvidiaReport;
  /** Whether we look as root; `undefined` when that is not known. */
  readonly root: boolean | undefined;
  /** In a container: the processes of others are not visible. */
  readonly container: boolean;
  readonly pci: Read<readonly PciFunction[]>;
  readonly modules: Read<readonly string[]>;
  /** What the loaded module says by itself. */
  readonly proc: ProcNvidia | undefined;
  readonly libraryVersion: Read<string>;
  readonly moduleFiles: Read<readonly ModuleFile[]>;
  /** Cards that were here before, as an agent wrote them down in `file`; `undefined` where none has run. */
  readonly remembered:
    | {
        readonly file: string;
        readonly cards: readonly {
          readonly pci_bus_id: string;
          readonly name: string;
          readonly class?: string | undefined;
          readonly last_seen_at: string;
        }[];
      }
    | undefined;
  /** Those of NVIDIA's device nodes, `nvidiactl`, `nvidia-caps/nvidia-cap3`, that the user who looks may not open. */
  readonly closedNodes: readonly string[];
  /** Names in /dev and in /dev/nvidia-caps. */
  readonly deviceNodes: Read<readonly string[]>;
  readonly capabilityNodes: Read<readonly string[]>;
  readonly kernelLog: Read<KernelLog>;
  readonly openFiles: Read<OpenFiles>;
  readonly sharedMemory: Read<DiskSpace>;
  readonly secureBoot: Read<boolean>;
  /** By name without `.service`. */
  readonly services: Read<Readonly<Record<string, Service>>>;
  readonly fabricManagerVersion: Read<string>;
  readonly timeSynchronized: Read<boolean>;
  readonly migMinors: Read<MigMinors>;
  readonly migInstances: Read<readonly CapabilityInstance[]>;
  /** The processes that hold a card. */
  readonly processes: readonly ProcessFacts[];
  /** Processes in uninterruptible sleep; looked for only when the driver does not answer. */
  readonly stuck: readonly ProcessFacts[];
  /** Adapters that are virtual functions. */
  readonly virtualAdapters: readonly string[];
  readonly modelFolders: readonly FolderAccess[];
  readonly disks: readonly Disk[];
  readonly models: readonly PlacedModel[] | undefined;
  readonly engines: readonly ConfiguredEngine[] | undefined;
  readonly markedProcesses: readonly MarkedProcess[] | undefined;
  readonly controlPlane: ControlPlaneFacts | undefined;
}

/** The value, when there is one. */
export function known<T>(read: Read<T>): T | undefined {
  return read.kind === "read" ? read.value : undefined;
}

/** Why there is no value, for a finding that is `unknown`. */
export function whyUnread(read: Read<unknown>, what: string): string {
  return read.kind === "refused" ? read.why : `${what} is not there`;
}
