/** The command line inside the test's own process: words in, what it wrote and its exit code out. */
import { join } from "node:path";
import { runCli } from "../../src/cli/run.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { openMachine } from "../../src/platform/machine.ts";
import type { Runner } from "../../src/platform/runner.ts";

export interface RunOptions {
  /** The environment; empty unless given, but for a system folder that is not there. */
  readonly env?: Readonly<Record<string, string>>;
  /** Both outputs are a terminal of 80 columns. Default: neither is one. */
  readonly tty?: boolean;
  /** Stands for this host. Without one the host is not to be asked for. */
  readonly runner?: Runner;
  readonly signal?: AbortSignal;
  /** Whether the command believes to be root's. Default false. */
  readonly root?: boolean;
  /** Told of each text written to stdout, as it is written. */
  readonly onStdout?: (text: string) => void;
  /** Handed what stands for SIGHUP. */
  readonly onReload?: (reload: () => void) => void;
  /** Told of each text written to stderr, as it is written. */
  readonly onStderr?: (text: string) => void;
  /** What a person types at a question. Without one nobody is there. */
  readonly answers?: (question: string) => string | undefined;
  /** For what waits; the system's unless given. */
  readonly clock?: Clock;
  readonly now?: Date;
}

export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command line. `--machine` opens recorded machines, without their waiting times. */
export async function runLlmgw(words: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const output = (write: (text: string) => void) => ({
    write,
    isTTY: options.tty === true,
    columns: options.tty === true ? 80 : undefined,
    rows: options.tty === true ? 24 : undefined,
  });
  const exitCode = await runCli(words, {
    // Servers of the machine that runs the tests are none of theirs.
    env: { LLMGW_SYSTEM_STATE: "/nowhere/llmgw", ...options.env },
    stdout: output((text) => {
      stdout.push(text);
      options.onStdout?.(text);
    }),
    stderr: output((text) => {
      stderr.push(text);
      options.onStderr?.(text);
    }),
    now: () => options.now ?? new Date("2026-11-30T12:00:00Z"),
    ask: async (question) => options.answers?.(question),
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    signal: options.signal ?? new AbortController().signal,
    selfCommand: [process.execPath, join(import.meta.dir, "../../src/main.ts")],
    root: options.root ?? false,
    onReload: (run) => {
      options.onReload?.(run);
      return () => undefined;
    },
    openRunner: async (machine) => {
      if (machine !== undefined) return openMachine(machine, { waits: "skip" });
      if (options.runner === undefined) throw new Error("this test did not expect the host to be looked at");
      return options.runner;
    },
  });
  return { exitCode, stdout: stdout.join(""), stderr: stderr.join("") };
}

/** Lines of an explanation as `report-error.ts` writes it. */
export function explanation(what: string, why: string, fix: string): string {
  return `llmgw: ${what}\n  why: ${why}\n  fix: ${fix}\n`;
}
