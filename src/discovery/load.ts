/** How busy the devices are at this moment, asking the driver as little as that takes: what an agent looks at every few seconds. */
import { type DeviceLoad, type LoadSample, loadOf } from "../domain/load-sample.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";
import { type CardSources, joinDevices } from "./cards.ts";
import { type DiscoverOptions, leaveAlone } from "./discover.ts";
import { askNvidiaSmi } from "./nvidia.ts";

/**
 * Through NVML one look at the library. Else `-L` and `-q -x`, since only both together know the instances. No device when the driver does
 * not answer: the inventory says why. `at` is the node's time, ISO 8601. Throws only when told to stop.
 */
export async function discoverLoad(runner: Runner, options: DiscoverOptions, at: string): Promise<LoadSample> {
  const cards = (await throughNvml(runner, options)) ?? (await throughText(runner, options));
  const joined = joinDevices({ ...cards, queryProblem: undefined, topology: undefined, places: new Map() });
  const { gpus } = leaveAlone(joined.gpus, options.skipGpus ?? []);
  const sample = loadOf({ gpus: [...gpus] }, at);
  return { ...sample, devices: sample.devices.map((device) => withErrors(device, cards)) };
}

type Cards = Pick<CardSources, "list" | "query">;

async function throughNvml(runner: Runner, options: DiscoverOptions): Promise<Cards | undefined> {
  if (options.nvml === "no" || runner.nvml === undefined) return undefined;
  try {
    const library = options.nvmlLibrary === undefined ? {} : { library: options.nvmlLibrary };
    const snapshot = await runner.nvml({ ...library, ...(options.signal === undefined ? {} : { signal: options.signal }) });
    if (snapshot === undefined || snapshot.cards.length === 0) return undefined;
    return (await import("./nvml.ts")).readSnapshot(snapshot);
  } catch (error) {
    // A library that hangs holds the driver: nvidia-smi would hang as well.
    if (error instanceof RunnerError && (error.kind === "timeout" || error.kind === "busy")) return { list: undefined, query: undefined };
    if (error instanceof RunnerError && error.kind !== "aborted") return undefined;
    throw error;
  }
}

async function throughText(runner: Runner, options: DiscoverOptions): Promise<Cards> {
  const program = options.nvidiaSmi ?? "nvidia-smi";
  const signal = options.signal === undefined ? {} : { signal: options.signal };
  const { list, query } = await askNvidiaSmi(runner, { program, ...signal }, { topology: Promise.resolve({ kind: "absent" }) });
  return { list, query };
}

/** The card's counter; an instance has none of its own. */
function withErrors(device: DeviceLoad, { query }: Cards): DeviceLoad {
  const count = query?.cards.find((card) => card.uuid === device.uuid)?.ecc.volatileUncorrectable;
  return count === undefined ? device : { ...device, ecc_uncorrectable: count };
}
