/** Looks at the machine that llmgw runs on. */
import { open, readdir, readlink, realpath, stat, statfs } from "node:fs/promises";
import { constants } from "node:os";
import { hostRoundLock } from "./host-lock.ts";
import { endGroup, groupLives } from "./processes.ts";
import { type Round, type RoundLockOptions, takeRound } from "./round-lock.ts";
import { type DiskSpace, type ExecOptions, type ExecResult, type FileStat, type ReadOptions, type Runner, RunnerError } from "./runner.ts";

const DEFAULT_TIMEOUT_MS = 5_000;
const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
const DEFAULT_READ_BYTES = 1024 * 1024;
/** A process that has ended may leave a child holding its pipe: what has been said by then counts. */
const PIPE_GRACE_MS = 200;

export interface HostRunnerOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** How this program starts its own `nvml-probe`: NVIDIA's library is loaded there, never in this process. Without it there is no `nvml`. */
  readonly nvmlProbe?: readonly string[];
  /** Where rounds of driver queries are locked; by default as round-lock.ts says. */
  readonly roundLock?: RoundLockOptions;
}

/** The runner of the real machine. */
export function createHostRunner(options: HostRunnerOptions): Runner {
  const rounds = new Rounds(options.roundLock ?? hostRoundLock(options.env));
  const { nvmlProbe } = options;
  const within = pathGuard();
  const run: Runner["exec"] = (argv, execOptions = {}) => exec(argv, execOptions, options.env, rounds);
  return {
    label: "this host",
    kind: "host",
    home: options.env.HOME ?? "/root",
    exec: run,
    readFile: (path, readOptions = {}) => within(path, readOptions.timeoutMs, () => readBytes(path, readOptions)),
    listDir: async (path, listOptions) => {
      const names = await within(path, listOptions?.timeoutMs, () => readdir(path));
      return names?.sort();
    },
    readLink: (path) => within(path, undefined, () => readLink(path)),
    realPath: (path, pathOptions) => within(path, pathOptions?.timeoutMs, () => realpath(path)),
    stat: (path, statOptions) => within(path, statOptions?.timeoutMs, () => fileStat(path)),
    diskSpace: (path) => within(path, undefined, () => diskSpace(path)),
    ...(nvmlProbe === undefined
      ? {}
      : { nvml: async (nvmlOptions) => (await import("./nvml-probe.ts")).probeNvml(run, nvmlProbe, nvmlOptions) }),
    now: () => new Date(),
  };
}

/** Commands of this process that run at the same time share one round. */
class Rounds {
  private current: { readonly round: Promise<Round>; users: number } | undefined;
  private readonly lock: RoundLockOptions;

  constructor(lock: RoundLockOptions) {
    this.lock = lock;
  }

  async enter(): Promise<{ readonly round: Round; leave(): void }> {
    this.current ??= { round: takeRound(this.lock), users: 0 };
    const shared = this.current;
    shared.users++;
    const done = (): boolean => {
      shared.users--;
      if (shared.users > 0) return false;
      if (this.current === shared) this.current = undefined;
      return true;
    };
    try {
      const round = await shared.round;
      return {
        round,
        leave: () => {
          if (done()) round.end();
        },
      };
    } catch (error) {
      done();
      throw error;
    }
  }
}

async function exec(
  argv: readonly string[],
  options: ExecOptions,
  env: HostRunnerOptions["env"],
  rounds: Rounds,
): Promise<ExecResult | undefined> {
  const program = argv[0] ?? "";
  // Looked for first, so that a machine without the program takes no lock and starts nothing.
  const found = program.includes("/")
    ? program
    : Bun.which(program, { PATH: env.PATH ?? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" });
  if (found === null) return undefined;
  if (options.lock === undefined) return spawnAndWait([found, ...argv.slice(1)], argv, options, env, () => undefined);
  const entered = await rounds.enter();
  try {
    return await spawnAndWait([found, ...argv.slice(1)], argv, options, env, (pid) => entered.round.add(pid));
  } finally {
    entered.leave();
  }
}

async function spawnAndWait(
  cmd: readonly string[],
  asked: readonly string[],
  options: ExecOptions,
  env: HostRunnerOptions["env"],
  onPid: (pid: number) => void,
): Promise<ExecResult | undefined> {
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  if (options.signal?.aborted === true) throw new RunnerError("aborted", `${asked.join(" ")}: not started`);
  const child = start(cmd, asked, env);
  if (child === undefined) return undefined;
  onPid(child.pid);
  const stop = new AbortController();
  const stdout = collect(child.stdout, maxBytes, stop.signal);
  const stderr = collect(child.stderr, maxBytes, stop.signal);
  const ended = child.exited.then(() => "ended" as const);
  const waits: Promise<"ended" | "timeout" | "aborted">[] = [ended, after(timeoutMs, stop.signal)];
  if (options.signal !== undefined) waits.push(aborted(options.signal, stop.signal));
  const outcome = await Promise.race(waits);
  if (outcome !== "ended") {
    stop.abort();
    await endGroup(child.pid, ended);
    child.unref();
    const what = asked.join(" ");
    if (outcome === "aborted") throw new RunnerError("aborted", `${what}: stopped`);
    const left = groupLives(child.pid) ? ` and could not be ended (pid ${child.pid})` : "";
    throw new RunnerError("timeout", `${what} did not answer within ${timeoutMs / 1000} s${left}`, {
      pid: left === "" ? undefined : child.pid,
    });
  }
  await Promise.race([Promise.all([stdout.finished, stderr.finished]), after(PIPE_GRACE_MS, stop.signal)]);
  stop.abort();
  const exitCode = child.exitCode ?? 128 + signalNumber(child.signalCode);
  return { exitCode, stdout: stdout.text(), stderr: stderr.text(), truncated: stdout.cut() || stderr.cut() };
}

function start(cmd: readonly string[], asked: readonly string[], env: HostRunnerOptions["env"]) {
  try {
    return Bun.spawn({
      cmd: [...cmd],
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      // Its own group, so that what it starts can be ended with it.
      detached: true,
      env: { ...env, LC_ALL: "C" },
    });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT") return undefined;
    throw new RunnerError(code === "EACCES" ? "denied" : "io", `${asked.join(" ")} could not be started: ${String(code ?? error)}`, {
      cause: error,
    });
  }
}

function after(ms: number, cancel: AbortSignal): Promise<"timeout"> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve("timeout"), ms);
    cancel.addEventListener("abort", () => clearTimeout(timer), { once: true });
  });
}

function aborted(signal: AbortSignal, cancel: AbortSignal): Promise<"aborted"> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve("aborted"), { once: true, signal: cancel });
  });
}

/** Reads a pipe to its end or until told to stop, keeping at most `maxBytes`: the rest is read and dropped, so the writer never blocks. */
function collect(stream: ReadableStream<Uint8Array>, maxBytes: number, stop: AbortSignal) {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let cut = false;
  const reader = stream.getReader();
  stop.addEventListener("abort", () => void reader.cancel().catch(() => undefined), { once: true });
  const read = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const room = maxBytes - size;
      if (value.length > room) cut = true;
      if (room > 0) chunks.push(value.subarray(0, room));
      size += Math.min(room, value.length);
    }
  };
  return {
    finished: read().catch(() => undefined),
    text: () => Buffer.concat(chunks).toString("utf8"),
    cut: () => cut,
  };
}

function signalNumber(name: string | number | null): number {
  if (typeof name === "number") return name;
  return Object.entries(constants.signals).find(([known]) => known === name)?.[1] ?? 0;
}

type PathGuard = <T>(path: string, timeoutMs: number | undefined, look: () => Promise<T | undefined>) => Promise<T | undefined>;

/**
 * Looks at paths under a time limit. A look that hangs (an adapter's file in sysfs, a folder of a dead file server) keeps one thread of
 * the runtime's few until it returns: until then the path is not looked at again, or some looks later nothing would be read any more.
 */
function pathGuard(): PathGuard {
  const hanging = new Set<string>();
  return async (path, timeoutMs, look) => {
    if (hanging.has(path)) throw new RunnerError("timeout", `${path} has not answered an earlier look yet`);
    const looking = look();
    try {
      return await inTime(path, timeoutMs, looking);
    } catch (error) {
      if (error instanceof RunnerError && error.kind === "timeout") {
        hanging.add(path);
        const forget = (): void => void hanging.delete(path);
        looking.then(forget, forget);
      }
      throw error;
    }
  };
}

/** Not there is `undefined`, anything else a `RunnerError`. */
async function inTime<T>(path: string, timeoutMs: number | undefined, looking: Promise<T | undefined>): Promise<T | undefined> {
  const done = new AbortController();
  const limit = timeoutMs ?? DEFAULT_TIMEOUT_MS;
  try {
    const outcome = await Promise.race([looking.then((value) => ({ value })), after(limit, done.signal)]);
    if (outcome === "timeout") throw new RunnerError("timeout", `${path} did not answer within ${limit / 1000} s`);
    return outcome.value;
  } catch (error) {
    if (error instanceof RunnerError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ENODEV" || code === "ENXIO") return undefined;
    throw new RunnerError(code === "EACCES" || code === "EPERM" ? "denied" : "io", `${path}: ${describe(code, error)}`, { cause: error });
  } finally {
    done.abort();
  }
}

function describe(code: string, error: unknown): string {
  const words: Readonly<Record<string, string>> = {
    EACCES: "permission denied",
    EPERM: "permission denied",
    EISDIR: "is a folder",
    EIO: "input/output error",
    EINVAL: "invalid argument",
    ELOOP: "too many links",
    ESTALE: "stale file handle",
  };
  return words[code] ?? (code === "" ? String(error) : code);
}

async function readBytes(path: string, options: ReadOptions): Promise<Uint8Array> {
  const maxBytes = options.maxBytes ?? DEFAULT_READ_BYTES;
  const file = await open(path, "r");
  try {
    // Files of /proc and /sys have no size: read until the end, growing, never beyond the cap.
    const parts: Uint8Array[] = [];
    let size = 0;
    while (size < maxBytes) {
      const part = new Uint8Array(Math.min(maxBytes - size, size === 0 ? 65_536 : 1_048_576));
      const { bytesRead } = await file.read(part, 0, part.length, options.offset === undefined ? null : options.offset + size);
      if (bytesRead === 0) break;
      parts.push(part.subarray(0, bytesRead));
      size += bytesRead;
    }
    return parts.length === 1 ? (parts[0] ?? new Uint8Array()) : Buffer.concat(parts);
  } finally {
    await file.close();
  }
}

/** EINVAL is the kernel's word for "that is no link". */
async function readLink(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EINVAL") return undefined;
    throw error;
  }
}

async function fileStat(path: string): Promise<FileStat> {
  const found = await stat(path);
  const kind = found.isFile() ? "file" : found.isDirectory() ? "directory" : "other";
  const rights = { mode: found.mode & 0o777, uid: found.uid, gid: found.gid };
  return { kind, sizeBytes: found.size, mtimeMs: found.mtimeMs, rights };
}

async function diskSpace(path: string): Promise<DiskSpace> {
  const found = await statfs(path);
  const inodes = found.files > 0 ? { total_inodes: found.files, free_inodes: found.ffree } : {};
  return { total_bytes: found.blocks * found.bsize, free_bytes: found.bavail * found.bsize, ...inodes };
}
