/** Puts together what a node has: every source on its own, side by side, and one broken source costs only its own facts. */
import type { FabricDeclaration } from "../domain/agent-config.ts";
import { parseBusId } from "../domain/bus-id.ts";
import type { Gpu, Hca, Inventory, UnusableCard } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";
import { askDriver, type DriverAnswer, type NvmlChoice } from "./ask-driver.ts";
import { type CardPlace, joinDevices } from "./cards.ts";
import { withDisagreements } from "./disagreement.ts";
import { discoverHost } from "./host.ts";
import { discoverImex } from "./imex.ts";
import { discoverInfiniband } from "./infiniband.ts";
import { NO_CARDS, type NvidiaOptions, type NvidiaReport } from "./nvidia.ts";
import { discoverPlaces } from "./places.ts";
import { discoverStorage } from "./storage.ts";

export const IB_ROOT = "/sys/class/infiniband";

export interface DiscoverOptions {
  readonly nvidiaSmi?: string | undefined;
  /** Whether NVML is asked first; by default where it is there. */
  readonly nvml?: "wanted" | "if-there" | "no" | undefined;
  /** The library to load, an absolute path. */
  readonly nvmlLibrary?: string | undefined;
  /** Limit of the look through NVML, ms. */
  readonly nvmlTimeoutMs?: number | undefined;
  /** Ask NVML and nvidia-smi both and compare them. By default on recorded machines only, where it costs the driver nothing. */
  readonly bothSources?: boolean | undefined;
  readonly ibRoot?: string | undefined;
  readonly fabrics?: readonly FabricDeclaration[] | undefined;
  readonly hostname?: string | undefined;
  /** Folders to look for weights in. */
  readonly modelDirs: readonly string[];
  /** Cards to leave alone: index, UUID or bus id. */
  readonly skipGpus?: readonly string[] | undefined;
  /** `none`: no card is looked for. `only`: nothing else is. */
  readonly gpus?: "all" | "none" | "only";
  /** Limit of one nvidia-smi call, ms. */
  readonly nvidiaTimeoutMs?: number | undefined;
  /** Limit of all of them together, ms. */
  readonly nvidiaTotalMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The node's inventory (DESIGN.md, section 6). Throws only when the recording does not hold what is asked, or when told to stop. */
export async function discover(runner: Runner, options: DiscoverOptions): Promise<Inventory> {
  return (await discoverWithSources(runner, options)).inventory;
}

/** The inventory with what the driver said, for whoever judges more of it than the inventory shows: nothing is asked twice. */
export interface Discovery {
  readonly inventory: Inventory;
  readonly nvidia: NvidiaReport;
}

/** As `discover`. */
export async function discoverWithSources(runner: Runner, options: DiscoverOptions): Promise<Discovery> {
  const withCards = options.gpus !== "none";
  const withRest = options.gpus !== "only";
  const problems: string[] = [];
  const source = <T>(name: string, wanted: boolean, look: () => Promise<T>, nothing: T): Promise<T> =>
    wanted ? guarded(name, look, nothing, problems) : Promise.resolve(nothing);

  // The driver is asked first: it is the slowest, and all else is read while it thinks.
  const noAnswer: DriverAnswer = { report: { ...NO_CARDS, source: withCards ? "unavailable" : "none" }, other: undefined };
  const asking = source("GPUs", withCards, () => askDriver(runner, nvidiaOptions(options), nvmlChoice(runner, options)), noAnswer);
  const looking = Promise.all([
    source("NVLink domain service", withCards, () => discoverImex(runner), {}),
    source(
      "adapters",
      withRest,
      () => discoverInfiniband(runner, { root: options.ibRoot ?? IB_ROOT, fabrics: options.fabrics ?? [] }),
      NO_ADAPTERS,
    ),
    source("host", true, () => discoverHost(runner), { warnings: [] }),
    source("storage", withRest, () => discoverStorage(runner, options.modelDirs), { storage: [], warnings: [] }),
    source("weights", withRest, () => findWeights(runner, options.modelDirs), { weights: [], warnings: [] }),
  ]);
  // Together: when both throw, the one not waited for would end the process as an unhandled rejection.
  const [{ report: nvidia, other }, [imex, adapters, host, storage, weights]] = await Promise.all([asking, looking]);
  const places = await source("PCI bus", withCards, () => placesOf(runner, nvidia, adapters.hcas), NO_PLACES);
  const joined = joinDevices({ ...nvidia, places });
  const devices = other?.source === "nvidia-smi" ? withDisagreements(joined, joinDevices({ ...other, places })) : joined;
  const kept = leaveAlone(devices.gpus, options.skipGpus ?? []);
  const gpus = kept.gpus.map((gpu) => withoutAdapters(gpu, withRest && adapters.hcas.length === 0));
  const inventory = compact({
    source: nvidia.source,
    hostname: options.hostname ?? host.hostname,
    driver_version: nvidia.driverVersion,
    cuda_version: nvidia.cudaVersion,
    memory_total_mb: host.memory_total_mb,
    gpus,
    unusable_cards: mergeUnusable([...devices.unusable_cards, ...nvidia.lostCards, ...kept.skipped]),
    hcas: [...adapters.hcas],
    imex: imex.imex,
    weights: [...weights.weights],
    storage: [...storage.storage],
    warnings: [
      ...problems,
      ...nvidia.warnings,
      ...devices.warnings,
      ...imexWarnings(imex.problem, gpus),
      ...adapters.warnings,
      ...host.warnings,
      ...storage.warnings,
      ...weights.warnings,
    ],
  });
  return { inventory, nvidia };
}

/** A third of the program is about weights: it is loaded while the driver is being asked. */
async function findWeights(runner: Runner, roots: readonly string[]) {
  return (await import("./weights/discover-weights.ts")).discoverWeights(runner, roots);
}

const NO_ADAPTERS: { readonly hcas: readonly Hca[]; readonly warnings: readonly string[] } = { hcas: [], warnings: [] };
const NO_PLACES: ReadonlyMap<string, CardPlace> = new Map();

function untilOf({ nvidiaTotalMs }: DiscoverOptions): number | undefined {
  return nvidiaTotalMs === undefined ? undefined : performance.now() + nvidiaTotalMs;
}

function nvidiaOptions(options: DiscoverOptions): NvidiaOptions {
  return compact({
    program: options.nvidiaSmi ?? "nvidia-smi",
    timeoutMs: options.nvidiaTimeoutMs,
    untilMs: untilOf(options),
    signal: options.signal,
  });
}

function nvmlChoice(runner: Runner, options: DiscoverOptions): NvmlChoice {
  return {
    use: options.nvml ?? "if-there",
    library: options.nvmlLibrary,
    timeoutMs: options.nvmlTimeoutMs,
    compare: options.bothSources ?? runner.kind === "recorded",
  };
}

/** The edge of one source: what it throws becomes a named warning. A recording that lacks what is asked for stays loud. */
async function guarded<T>(name: string, look: () => Promise<T>, nothing: T, problems: string[]): Promise<T> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof UserError || (error instanceof RunnerError && error.kind === "aborted")) throw error;
    problems.push(`${name} could not be read: ${messageOf(error)}`);
    return nothing;
  }
}

/** Where the cards sit on the bus, for what the matrix of topo does not say. */
async function placesOf(runner: Runner, nvidia: NvidiaReport, hcas: readonly Hca[]): Promise<ReadonlyMap<string, CardPlace>> {
  const rows = nvidia.topology?.cards ?? [];
  const complete =
    nvidia.topology !== undefined &&
    nvidia.topology.nics.length > 0 &&
    rows.every((row) => row.cpuAffinity !== undefined && row.numaAffinity !== undefined);
  if (complete) return NO_PLACES;
  const busIds = (nvidia.query?.cards ?? []).flatMap((card) => parseBusId(card.busId) ?? []);
  return discoverPlaces(runner, busIds, hcas);
}

/** On a node without adapters none is near, which is more than not knowing. */
function withoutAdapters(gpu: Gpu, none: boolean): Gpu {
  return none && gpu.nearest_hcas === undefined ? { ...gpu, nearest_hcas: [] } : gpu;
}

/** A daemon that does not run is no fault on a node by itself: it is one where the cards belong to a domain. */
function imexWarnings(problem: string | undefined, gpus: readonly Gpu[]): readonly string[] {
  return problem !== undefined && gpus.some((gpu) => gpu.nvlink_domain?.cluster_uuid !== undefined)
    ? [`nvidia-imex-ctl -N: ${problem}`]
    : [];
}

/** Cards that somebody said are not ours, and their instances. */
export function leaveAlone(
  gpus: readonly Gpu[],
  skip: readonly string[],
): { readonly gpus: readonly Gpu[]; readonly skipped: readonly UnusableCard[] } {
  const isSkipped = (gpu: Gpu): boolean => {
    const card = gpu.mig?.card ?? gpu.index;
    return skip.some(
      (entry) => entry === String(card) || entry === gpu.uuid || (gpu.pci_bus_id !== undefined && parseBusId(entry) === gpu.pci_bus_id),
    );
  };
  const left = gpus.filter((gpu) => !isSkipped(gpu));
  const gone = new Set(gpus.filter((gpu) => isSkipped(gpu) && gpu.mig === undefined).map((gpu) => gpu.index));
  return {
    gpus: left.map((gpu) => withoutPeers(gpu, gone)),
    skipped: gpus.filter(isSkipped).map((gpu) =>
      compact({
        index: gpu.mig?.card ?? gpu.index,
        uuid: gpu.mig === undefined ? gpu.uuid : undefined,
        name: gpu.name,
        pci_bus_id: gpu.pci_bus_id,
        reason: "left alone: agent.yaml lists it under discovery.skip_gpus",
      }),
    ),
  };
}

function withoutPeers(gpu: Gpu, gone: ReadonlySet<number>): Gpu {
  if (gpu.nvlink_peers === undefined || gone.size === 0) return gpu;
  const links = Object.entries(gpu.nvlinks ?? {}).filter(([peer]) => !gone.has(Number(peer)));
  return { ...gpu, nvlink_peers: gpu.nvlink_peers.filter((peer) => !gone.has(peer)), nvlinks: Object.fromEntries(links) };
}

/** One entry per card: the same lost card may be told by the list and by its own query. */
function mergeUnusable(cards: readonly UnusableCard[]): UnusableCard[] {
  const merged: UnusableCard[] = [];
  for (const card of cards) {
    const same = merged.findIndex(
      (other) =>
        (card.pci_bus_id !== undefined && other.pci_bus_id === card.pci_bus_id) || (card.index !== undefined && other.index === card.index),
    );
    const other = merged[same];
    if (other === undefined) merged.push(card);
    else merged[same] = { ...card, ...other };
  }
  return merged.sort((a, b) => (a.index ?? Number.MAX_SAFE_INTEGER) - (b.index ?? Number.MAX_SAFE_INTEGER));
}
