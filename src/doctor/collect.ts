/**
 * Collects the facts: the inventory, and beside it what only doctor reads. Each step has its own limit and costs its own fact when it
 * fails; the whole never takes longer than 15 s, whatever hangs.
 */
import { type DiscoverOptions, type Discovery, discoverWithSources, IB_ROOT } from "../discovery/discover.ts";
import { NO_CARDS } from "../discovery/nvidia.ts";
import { discoverOptions } from "../discovery/options.ts";
import { discoverProcNvidia } from "../discovery/pci.ts";
import type { AgentConfig } from "../domain/agent-config.ts";
import { type Runner, readText } from "../platform/runner.ts";
import { collectDriver } from "./collect-driver.ts";
import { collectHost } from "./collect-host.ts";
import type { Facts } from "./facts.ts";
import { inTime, step } from "./step.ts";

/**
 * One call: eight cards without persistence may take 8 s to wake up, and are not to be called hung. Calls of a round run side by side; the
 * queries card by card, which follow where one lost card spoils the answer for all, have what is left of the whole. With what comes after, and
 * the 2 s that reading agent.yaml may take before, the whole stays under 15 s.
 */
const NVIDIA_TIMEOUT_MS = 9_000;
const NVIDIA_TOTAL_MS = 9_200;
const DISCOVERY_LIMIT_MS = 9_700;
const AFTERWARDS_LIMIT_MS = 3_000;
const READ = { timeoutMs: 2_000, maxBytes: 64 * 1024 };

export interface CollectOptions {
  readonly discover: DiscoverOptions;
  readonly config: AgentConfig;
  /** Of reading agent.yaml; they join the inventory's. */
  readonly warnings: readonly string[];
}

/** What agent.yaml says of it; `env` is that of this process, and counts on the host only. */
export async function collectOptions(
  runner: Runner,
  env: Readonly<Record<string, string | undefined>>,
  signal?: AbortSignal,
): Promise<CollectOptions> {
  const { options, warnings, config } = await discoverOptions(runner, {}, runner.kind === "host" ? env : {});
  return { discover: { ...options, signal }, config, warnings };
}

/** Throws only when the recording does not hold what the inventory asks for, or when told to stop. */
export async function collectFacts(runner: Runner, options: CollectOptions): Promise<Facts> {
  const discovering = inTime(
    // The text, since it is nvidia-smi itself that is judged as well: how it ended, how long it took, what else it prints.
    discoverWithSources(runner, { ...options.discover, nvml: "no", nvidiaTimeoutMs: NVIDIA_TIMEOUT_MS, nvidiaTotalMs: NVIDIA_TOTAL_MS }),
    DISCOVERY_LIMIT_MS,
    (): Discovery => nothingFound(`discovery did not end within ${DISCOVERY_LIMIT_MS / 1000} s`),
  );
  return collectBeside(runner, options, discovering);
}

/** All that is not in the inventory, while that is still being found. */
export async function collectBeside(runner: Runner, options: CollectOptions, discovering: Promise<Discovery>): Promise<Facts> {
  const [found, driver, host, proc] = await Promise.all([
    discovering,
    collectDriver(runner),
    collectHost(runner, options.discover.modelDirs),
    step("/proc/driver/nvidia", 3_000, () => discoverProcNvidia(runner)),
  ]);
  const { inventory, nvidia } = found;
  const hung = nvidia.calls.some((call) => call.outcome === "hung");
  const pids = (nvidia.query?.cards ?? []).flatMap((card) => card.processes ?? []).map((process) => process.pid);
  const afterwards = Promise.all([
    Promise.all([...new Set(pids)].slice(0, MAX_PROCESSES).map((pid) => lookAt(runner, pid))),
    hung ? findStuck(runner) : [],
    findVirtual(runner, options.discover.ibRoot ?? IB_ROOT, inventory.hcas),
  ]);
  const [processes, stuck, virtualAdapters] = await inTime(afterwards, AFTERWARDS_LIMIT_MS, (): Awaited<typeof afterwards> => [[], [], []]);
  return {
    nowMs: runner.now().getTime(),
    inventory: { ...inventory, warnings: [...options.warnings, ...inventory.warnings] },
    config: options.config,
    nvidia,
    ...driver,
    ...host,
    proc: proc.kind === "read" ? proc.value : undefined,
    processes,
    stuck,
    virtualAdapters,
    models: undefined,
    engines: undefined,
    markedProcesses: undefined,
    controlPlane: undefined,
    remembered: undefined,
  };
}

function nothingFound(problem: string): Discovery {
  return {
    inventory: { source: "unavailable", gpus: [], unusable_cards: [], hcas: [], weights: [], storage: [], warnings: [problem] },
    nvidia: {
      ...NO_CARDS,
      source: "unavailable",
      calls: [{ args: "-q -x", outcome: "hung", text: problem, failure: undefined, tookMs: DISCOVERY_LIMIT_MS }],
    },
  };
}

const MAX_PROCESSES = 256;
/** A host has thousands of processes, and those that matter here are few. */
const MAX_LOOKED_THROUGH = 20_000;

async function lookAt(runner: Runner, pid: number) {
  const [command, stat] = await Promise.all([
    step(`/proc/${pid}/cmdline`, 2_000, () => readText(runner, `/proc/${pid}/cmdline`, READ)),
    step(`/proc/${pid}/stat`, 2_000, () => readText(runner, `/proc/${pid}/stat`, READ)),
  ]);
  const text = command.kind === "read" ? command.value.replaceAll("\0", " ").trim() : "";
  return { pid, command: text === "" ? undefined : text, state: stat.kind === "read" ? stateOf(stat.value)?.state : undefined };
}

/** `pid (name) S …`, where the name may hold spaces and brackets. Source: proc_pid_stat(5). */
function stateOf(stat: string): { readonly name: string; readonly state: string } | undefined {
  const found = /^\d+ \((.*)\) ([A-Za-z])(?: |$)/s.exec(stat);
  return found === null ? undefined : { name: found[1] ?? "", state: found[2] ?? "" };
}

/** Processes in state D. Kernel threads wait so in everyday life; they have no command line and are left out. */
async function findStuck(runner: Runner) {
  const listed = await step("/proc", 2_000, () => runner.listDir("/proc", READ));
  const pids = (listed.kind === "read" ? listed.value : []).filter((name) => /^\d{1,10}$/.test(name)).slice(0, MAX_LOOKED_THROUGH);
  const looked = await step("/proc", 2_000, () =>
    Promise.all(
      pids.map(async (pid) => {
        const stat = await step(`/proc/${pid}/stat`, 1_000, () => readText(runner, `/proc/${pid}/stat`, READ));
        return stat.kind === "read" && stateOf(stat.value)?.state === "D" ? [Number(pid)] : [];
      }),
    ),
  );
  const stuck = await Promise.all((looked.kind === "read" ? looked.value.flat() : []).slice(0, 32).map((pid) => lookAt(runner, pid)));
  return stuck.filter((process) => process.command !== undefined);
}

/** A virtual function has a link to its physical one. */
async function findVirtual(runner: Runner, ibRoot: string, hcas: Discovery["inventory"]["hcas"]): Promise<readonly string[]> {
  const found = await Promise.all(
    hcas.map(async ({ name }) => {
      const link = await step(`physfn of ${name}`, 2_000, () => runner.readLink(`${ibRoot}/${name}/device/physfn`));
      return link.kind === "read" ? [name] : [];
    }),
  );
  return found.flat();
}
