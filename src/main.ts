/** The program: argv and environment in, exit code out. Everything else is handed what it needs. */
import { versionLine } from "./cli/version.ts";
import { askEarly, plainInventory } from "./discovery/early.ts";
import { AGENT_CONFIG_PATH } from "./domain/config-paths.ts";
import { nvmlCandidates } from "./platform/nvml-places.ts";
import type { Runner } from "./platform/runner.ts";
import { askLine, openOutput } from "./platform/terminal.ts";

/** The reader has gone (`llmgw … | head`): nothing is wrong, and nobody is left to tell. */
function leaveQuietly(): void {
  process.exit(0);
}

/** How this program was started: the compiled one holds its sources below /$bunfs. */
function ownStart(): readonly string[] {
  return Bun.main.startsWith("/$bunfs/") ? [process.execPath] : [process.execPath, ...process.execArgv, Bun.main];
}

async function main(): Promise<number> {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      // The second one does not wait for anything.
      if (stop.signal.aborted) process.exit(130);
      stop.abort();
    });
  }
  const reloads = new Set<() => void>();
  // Nothing is read again in a command that ends by itself; without a handler the signal would end the process.
  process.on("SIGHUP", () => {
    if (reloads.size === 0) process.exit(129);
    for (const reload of reloads) reload();
  });
  const early = earlyRunner(stop.signal);
  // Resolved once the driver is asked, not once it has answered: all else is loaded while it thinks.
  await early?.runner.catch(() => undefined);
  const { runCli } = await import("./cli/run.ts");
  return runCli(process.argv.slice(2), {
    env: process.env,
    stdout: openOutput(1, leaveQuietly),
    // Nobody hears the talk: the answer and the exit code are still right.
    stderr: openOutput(2, () => undefined),
    now: () => new Date(),
    signal: stop.signal,
    ask: askLine,
    selfCommand: ownStart(),
    root: process.getuid?.() === 0,
    onReload: (run) => {
      reloads.add(run);
      return () => reloads.delete(run);
    },
    openRunner: (machine) => (early !== undefined && early.machine === machine ? early.runner : openRunner(machine)),
  });
}

async function openRunner(machine: string | undefined): Promise<Runner> {
  return machine === undefined
    ? (await import("./platform/host-runner.ts")).createHostRunner({ env: process.env, nvmlProbe: [...ownStart(), "nvml-probe"] })
    : (await import("./platform/machine.ts")).openMachine(machine);
}

/** For a plain `inventory`, whose first question is known before anything is read of its words. */
function earlyRunner(signal: AbortSignal): { readonly machine: string | undefined; readonly runner: Promise<Runner> } | undefined {
  const plain = plainInventory(process.argv.slice(2));
  if (plain === undefined) return undefined;
  const variable = process.env.LLMGW_MACHINE;
  const machine = plain.machine ?? (variable === "" ? undefined : variable);
  const library = nvmlCandidates(undefined).length > 0;
  return { machine, runner: openRunner(machine).then((runner) => askEarly(runner, AGENT_CONFIG_PATH, { library, signal })) };
}

const [only, ...more] = process.argv.slice(2);
if ((only === "--version" || only === "-V") && more.length === 0) {
  // Before anything is loaded: scripts ask for it often.
  try {
    openOutput(1, leaveQuietly).write(`${versionLine()}\n`);
  } catch {
    // A full disk behind stdout: the long way says so in words.
    process.exit(await main());
  }
} else {
  process.exit(await main());
}
