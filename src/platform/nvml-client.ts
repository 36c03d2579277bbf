/**
 * The agent's long-lived probe: one child that keeps the library open and answers one snapshot per request. One that hangs or dies is
 * ended and started again, later each time; while one that cannot be ended lives, no other starts.
 */
import { nvmlCandidates } from "./nvml-places.ts";
import { libraryFlag, NVML_TIMEOUT_MS, snapshotOf } from "./nvml-probe.ts";
import type { NvmlSnapshot } from "./nvml-snapshot.ts";
import { endGroup, groupLives } from "./processes.ts";
import { type RoundLockOptions, takeRound } from "./round-lock.ts";
import { RunnerError } from "./runner.ts";

export interface NvmlClientOptions {
  /** How the probe is started, without its flags. */
  readonly probe: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly roundLock: RoundLockOptions;
  readonly library?: string;
  /** Limit of one answer. Default 10,000 ms. */
  readonly timeoutMs?: number;
  /** Wait before the second start; doubled with each failure in a row up to a minute. Default 1,000 ms. */
  readonly backoffMs?: number;
  /** Share of the wait that chance adds, 0 to 1, so that many nodes do not start at once. */
  readonly jitter?: () => number;
}

export interface NvmlClient {
  /**
   * A snapshot; `undefined` where there is no library. Throws `RunnerError`: "timeout" when the probe hangs, "busy" while it is still
   * asked, waits to be started again, or an old one cannot be ended.
   */
  snapshot(): Promise<NvmlSnapshot | undefined>;
  /** Ends the probe. */
  stop(): Promise<void>;
}

const MAX_BACKOFF_MS = 60_000;

interface Probe {
  readonly pid: number;
  readonly exited: Promise<number>;
  /** Writes one request and waits for one line; `undefined` when the probe has ended. */
  request(): Promise<string | undefined>;
  /** Lets this process end although the probe has not. */
  unref(): void;
}

/** Starts nothing before the first request. */
export function createNvmlClient(options: NvmlClientOptions): NvmlClient {
  const timeoutMs = options.timeoutMs ?? NVML_TIMEOUT_MS;
  let probe: Probe | undefined;
  let asking: Promise<NvmlSnapshot | undefined> | undefined;
  let stopped = false;
  let failures = 0;
  let notBefore = 0;
  let stuck: number | undefined;

  /** Ends the probe, and keeps the pid of one that cannot be ended. */
  const end = async (): Promise<void> => {
    const ending = probe;
    probe = undefined;
    if (ending === undefined) return;
    await endGroup(ending.pid, ending.exited);
    ending.unref();
    stuck = groupLives(ending.pid) ? ending.pid : undefined;
  };

  const request = async (): Promise<string> => {
    try {
      probe ??= start(options);
      const line = await within(probe.request(), timeoutMs);
      if (line === "timeout") {
        throw new RunnerError("timeout", `NVML did not answer within ${timeoutMs / 1000} s`, { pid: probe.pid });
      }
      if (line === undefined) throw new RunnerError("io", "the NVML probe ended without an answer");
      failures = 0;
      return line;
    } catch (error) {
      await end();
      const wait = Math.min((options.backoffMs ?? 1_000) * 2 ** failures, MAX_BACKOFF_MS);
      notBefore = performance.now() + wait * (1 + (options.jitter?.() ?? 0));
      failures++;
      throw error;
    }
  };

  const ask = async (): Promise<NvmlSnapshot | undefined> => {
    if (nvmlCandidates(options.library).length === 0) return undefined;
    const round = await takeRound(options.roundLock);
    try {
      return snapshotOf(await request());
    } finally {
      // Only what cannot be ended stays on record: a probe that waits for its next request holds up nobody.
      if (stuck !== undefined) round.add(stuck);
      round.end();
    }
  };

  const refuse = (): RunnerError | undefined => {
    if (stopped) return new RunnerError("aborted", "the NVML probe is stopped");
    if (asking !== undefined) return new RunnerError("busy", "NVML is still being asked");
    if (stuck !== undefined && groupLives(stuck)) {
      return new RunnerError("busy", `not asked: process ${stuck} of an earlier look still hangs in the driver`, { pid: stuck });
    }
    stuck = undefined;
    const waitMs = notBefore - performance.now();
    if (probe === undefined && waitMs > 0) {
      return new RunnerError("busy", `the NVML probe failed and starts again in ${Math.ceil(waitMs / 1000)} s`);
    }
    return undefined;
  };

  return {
    snapshot: async () => {
      const refused = refuse();
      if (refused !== undefined) throw refused;
      asking = ask();
      try {
        return await asking;
      } finally {
        asking = undefined;
      }
    },
    stop: async () => {
      stopped = true;
      await end();
      await asking?.catch(() => undefined);
    },
  };
}

function start(options: NvmlClientOptions): Probe {
  const child = Bun.spawn({
    cmd: [...options.probe, "--serve", ...libraryFlag(options.library)],
    stdin: "pipe",
    stdout: "pipe",
    stderr: "ignore",
    // Its own group, as every command: an interrupt at the terminal is for us to hand on.
    detached: true,
    env: { ...options.env, LC_ALL: "C" },
  });
  const nextLine = lineReader(child.stdout);
  return {
    pid: child.pid,
    exited: child.exited,
    request: async () => {
      child.stdin.write("\n");
      await child.stdin.flush();
      return nextLine();
    },
    unref: () => child.unref(),
  };
}

/** Lines of a stream one by one; `undefined` at its end. */
function lineReader(stream: ReadableStream<Uint8Array>): () => Promise<string | undefined> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  return async () => {
    for (;;) {
      const end = text.indexOf("\n");
      if (end >= 0) {
        const line = text.slice(0, end);
        text = text.slice(end + 1);
        return line;
      }
      const { done, value } = await reader.read();
      if (done) return undefined;
      text += decoder.decode(value, { stream: true });
    }
  };
}

async function within<T>(answer: Promise<T>, timeoutMs: number): Promise<T | "timeout"> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<"timeout">((resolve) => {
    timer = setTimeout(() => resolve("timeout"), timeoutMs);
  });
  try {
    return await Promise.race([answer, limit]);
  } finally {
    clearTimeout(timer);
    // What comes after the limit is nobody's any more.
    answer.catch(() => undefined);
  }
}
