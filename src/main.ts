/** The program: argv and environment in, exit code out. Everything else is handed what it needs. */
import type { Output } from "./cli/context.ts";
import { versionLine } from "./cli/version.ts";

/** Writes are kept until they are flushed: a pipe takes 64 KiB at a time, and leaving earlier would cut the output off. */
const pending = new Set<Promise<void>>();

function output(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => {
      const written = new Promise<void>((resolve) => {
        stream.write(text, () => resolve());
      });
      pending.add(written);
      void written.then(() => pending.delete(written));
    },
    isTTY: stream.isTTY === true,
    columns: stream.columns,
  };
}

/** The reader has gone (`llmgw … | head`): nothing is wrong, and nobody is left to tell. */
function leaveQuietly(error: Error): void {
  process.exit("code" in error && error.code === "EPIPE" ? 0 : 70);
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
  const { runCli } = await import("./cli/run.ts");
  return runCli(process.argv.slice(2), {
    env: process.env,
    stdout: output(process.stdout),
    stderr: output(process.stderr),
    now: () => new Date(),
    signal: stop.signal,
    openRunner: async (machine) =>
      machine === undefined
        ? (await import("./platform/host-runner.ts")).createHostRunner({ env: process.env, nvmlProbe: [...ownStart(), "nvml-probe"] })
        : (await import("./platform/machine.ts")).openMachine(machine),
  });
}

process.stdout.on("error", leaveQuietly);
process.stderr.on("error", leaveQuietly);
const [only, ...more] = process.argv.slice(2);
if ((only === "--version" || only === "-V") && more.length === 0) {
  // Before anything is loaded: scripts ask for it often.
  process.stdout.write(`${versionLine()}\n`);
} else {
  const exitCode = await main();
  await Promise.all(pending);
  process.exit(exitCode);
}
