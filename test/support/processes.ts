/** llmgw as real processes: started from the sources, killed at will, their output kept for when something is wrong. */
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Child {
  readonly pid: number;
  /** What it wrote to both outputs so far. */
  output(): string;
  /** Ends it with a signal and waits; its exit code, 128 + signal when that ended it. */
  end(signal?: NodeJS.Signals): Promise<number>;
  readonly exited: Promise<number>;
  running(): boolean;
}

const MAIN = join(import.meta.dir, "../../src/main.ts");
let started = 0;

/** `folder` takes its output; `home` of its own, so that no state of this machine is touched. */
export function startLlmgw(folder: string, words: readonly string[], env: Readonly<Record<string, string>> = {}): Child {
  mkdirSync(join(folder, "home"), { recursive: true });
  const log = join(folder, `output-${started++}.txt`);
  const fd = openSync(log, "a");
  const child = Bun.spawn({
    cmd: [process.execPath, MAIN, ...words],
    env: {
      PATH: process.env.PATH ?? "",
      HOME: join(folder, "home"),
      LLMGW_RUNTIME_DIR: join(folder, "home"),
      LLMGW_SYSTEM_STATE: join(folder, "system"),
      ...env,
    },
    stdin: "ignore",
    stdout: fd,
    stderr: fd,
  });
  closeSync(fd);
  return {
    pid: child.pid,
    output: () => readFileSync(log, "utf8"),
    end: async (signal = "SIGTERM") => {
      child.kill(signal);
      return child.exited;
    },
    exited: child.exited,
    running: () => child.exitCode === null && child.signalCode === null,
  };
}

/** Asks again until there is an answer; throws with `told` when there is none in time. */
export async function until<T>(
  ask: () => T | undefined | false | Promise<T | undefined | false>,
  told: () => string,
  limitMs = 20_000,
): Promise<T> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > deadline) throw new Error(`it did not come to pass within ${limitMs} ms: ${told()}`);
    await Bun.sleep(20);
  }
}
