/**
 * Asks the driver about its cards: NVML first, beside it `topo -m`, which alone knows the adapters, and `-L`, so that no UUID is believed
 * that nvidia-smi contradicts; all of nvidia-smi where NVML is not wanted, not there, or fails, or where all is to be compared.
 */
import type { UnusableCard } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";
import {
  type Answer,
  askList,
  askNvidiaSmi,
  askTopology,
  listedReport,
  type NvidiaOptions,
  type NvidiaReport,
  quietly,
  topologyOf,
} from "./nvidia.ts";
import type { NvmlRecords } from "./nvml.ts";
import { discoverProcNvidia } from "./pci.ts";

export interface NvmlChoice {
  /** `wanted`: somebody asked for it, so its absence is worth a warning. */
  readonly use: "wanted" | "if-there" | "no";
  readonly library?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** Ask all of nvidia-smi as well, so that instance ids are compared too. */
  readonly compare: boolean;
}

export interface DriverAnswer {
  readonly report: NvidiaReport;
  /** What nvidia-smi says of the same cards, where both were asked. */
  readonly other: NvidiaReport | undefined;
}

export async function askDriver(runner: Runner, options: NvidiaOptions, choice: NvmlChoice): Promise<DriverAnswer> {
  if (choice.use === "no" || runner.nvml === undefined) return { report: await askNvidiaSmi(runner, options), other: undefined };
  const before = { list: askList(runner, options), topology: askTopology(runner, options) };
  const text = choice.compare ? askNvidiaSmi(runner, options, before) : undefined;
  // What fails while the library is still asked is looked at below.
  for (const asked of [before.list, before.topology, text]) asked?.catch(() => undefined);
  const found = await askNvml(runner, options, choice);
  if (found.kind === "records") {
    const other = text ?? before.list.then(listedReport);
    const [answer, compared, lostCards] = await Promise.all([before.topology, other, lostOnBus(runner, found)]);
    return { report: nvmlReport(found, answer, lostCards), other: compared };
  }
  const report = await (text ?? askNvidiaSmi(runner, options, before));
  const warning = found.text === undefined ? [] : [`NVML is not used: ${found.text}`];
  return { report: { ...report, warnings: [...warning, ...report.warnings] }, other: undefined };
}

interface FoundRecords {
  readonly kind: "records";
  readonly records: NvmlRecords;
  /** Cards that the driver counts. */
  readonly count: number;
  readonly driverVersion: string | undefined;
  readonly cudaVersion: string | undefined;
}

type Found = FoundRecords | { readonly kind: "nothing"; readonly text: string | undefined };

async function askNvml(runner: Runner, options: NvidiaOptions, choice: NvmlChoice): Promise<Found> {
  try {
    const snapshot = await runner.nvml?.(compact({ library: choice.library, timeoutMs: choice.timeoutMs, signal: options.signal }));
    if (snapshot === undefined) {
      return { kind: "nothing", text: choice.use === "wanted" ? "there is no NVML library on this node" : undefined };
    }
    // Nothing counted is what a container without device nodes shows: nvidia-smi says it in better words.
    if (snapshot.cards.length === 0) return { kind: "nothing", text: undefined };
    const { readSnapshot } = await import("./nvml.ts");
    return {
      kind: "records",
      records: readSnapshot(snapshot),
      count: snapshot.cards.length,
      driverVersion: snapshot.driver_version,
      cudaVersion: snapshot.cuda_version,
    };
  } catch (error) {
    if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
    return { kind: "nothing", text: error.message };
  }
}

/**
 * Cards without a handle, as the kernel's module knows them: NVML counts in the order of bus ids, so the nth card on the bus is the one
 * of index n, as long as both count the same.
 */
async function lostOnBus(runner: Runner, found: FoundRecords): Promise<readonly UnusableCard[]> {
  const { inaccessible } = found.records.list;
  if (inaccessible.length === 0) return [];
  const proc = await quietly(() => discoverProcNvidia(runner));
  if (proc?.cards.length !== found.count) return [];
  return inaccessible.flatMap(({ index, text }) => {
    const known = index === undefined ? undefined : proc.cards[index];
    return known === undefined ? [] : [compact({ index, uuid: known.uuid, name: known.model, pci_bus_id: known.busId, reason: text })];
  });
}

function nvmlReport(found: FoundRecords, answer: Answer, lostCards: readonly UnusableCard[]): NvidiaReport {
  const topology = topologyOf(answer);
  return {
    source: "nvml",
    driverVersion: found.driverVersion,
    cudaVersion: found.cudaVersion,
    ...found.records,
    queryProblem: undefined,
    topology: topology.report,
    lostCards,
    warnings: topology.warnings,
    calls: [],
  };
}
