/**
 * The one way to the outside: everything a node knows about itself comes through a `Runner` (DESIGN.md, section 3, rule 1).
 * It only looks. Absence is a value (`undefined`); failure (permission, I/O, time limit) is thrown as a `RunnerError`.
 * Two implementations: `HostRunner` (host-runner.ts) and `RecordedRunner` (recorded-runner.ts); `Recorder` (recorder.ts)
 * wraps either and remembers what was asked.
 */

import type { NvmlSnapshot } from "./nvml-snapshot.ts";

/** How a command ended. A non-zero exit code is an answer, not a failure. */
export interface ExecResult {
  /** Exit code; 128 + signal when a signal ended it, as a shell counts. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** True when output beyond the cap was thrown away. */
  readonly truncated: boolean;
}

export interface ExecOptions {
  /** The caller is answered at this limit, whatever the process does. Default 5,000 ms. */
  readonly timeoutMs?: number;
  /** Output cap for stdout and stderr each, bytes. Default 16 MiB. */
  readonly maxBytes?: number;
  /**
   * Commands that name a lock belong to one round: they may run side by side in this process, but no other llmgw process of the
   * node starts a round while one lives, nor while a process left by an earlier round cannot be ended (round-lock.ts).
   */
  readonly lock?: "driver";
  readonly signal?: AbortSignal;
}

export interface FileStat {
  readonly kind: "file" | "directory" | "other";
  readonly sizeBytes: number;
  readonly mtimeMs: number;
  /** `undefined` on a recorded machine, which keeps none. */
  readonly rights?: FileRights;
}

export interface FileRights {
  /** The nine bits of owner, group and others. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

export interface DiskSpace {
  readonly total_bytes: number;
  /** Free to an unprivileged process. */
  readonly free_bytes: number;
  /** Absent where the file system makes them as it needs them. */
  readonly total_inodes?: number | undefined;
  readonly free_inodes?: number | undefined;
}

export interface ReadOptions {
  /** At most this many bytes are read; the rest is not looked at. Default 1 MiB. */
  readonly maxBytes?: number;
  /** First byte to read. Default 0. */
  readonly offset?: number;
  readonly timeoutMs?: number;
}

export interface NvmlOptions {
  /** The library to load, an absolute path, instead of the one at the usual places. */
  readonly library?: string;
  /** Default 10,000 ms. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface Runner {
  /** For messages: "this host", or `recorded machine "dgx-h100"`. */
  readonly label: string;
  readonly kind: "host" | "recorded";
  /** What the current user's home folder is on that machine, absolute. */
  readonly home: string;

  /** Runs a program with its arguments, no shell. `undefined` when there is no such program; throws `RunnerError`. */
  exec(argv: readonly string[], options?: ExecOptions): Promise<ExecResult | undefined>;
  /** Bytes of a file (following links), `undefined` when there is none. Fewer bytes than asked for at the file's end. */
  readFile(path: string, options?: ReadOptions): Promise<Uint8Array | undefined>;
  /** Names in a folder (following links), sorted by code point, `undefined` when there is no such folder. Links are named like all else. */
  listDir(path: string, options?: { readonly timeoutMs?: number }): Promise<readonly string[] | undefined>;
  /** The target of a link as it is written, `undefined` when there is nothing or no link. */
  readLink(path: string): Promise<string | undefined>;
  /** The path with every link resolved, as seen on that machine; `undefined` when it leads nowhere. */
  realPath(path: string, options?: { readonly timeoutMs?: number }): Promise<string | undefined>;
  /** Kind and size behind a path, links followed; `undefined` when it leads nowhere. */
  stat(path: string, options?: { readonly timeoutMs?: number }): Promise<FileStat | undefined>;
  /** Size and free space of the file system that holds a path; `undefined` when there is no such path. */
  diskSpace(path: string): Promise<DiskSpace | undefined>;
  /**
   * One look at the cards through NVIDIA's library; `undefined` where there is none. Throws `RunnerError` for a library that cannot be
   * used or hangs. Runners that cannot ask it lack the method.
   */
  nvml?(options?: NvmlOptions): Promise<NvmlSnapshot | undefined>;
  /** The clock. On a recorded machine the time at which it was recorded. */
  now(): Date;
}

export type RunnerErrorKind =
  /** The limit passed; `pid` names the process that was left behind, if one could not be ended at once. */
  | "timeout"
  /** A process of an earlier round still hangs; nothing was started. `pid` names it. */
  | "busy"
  /** No permission. */
  | "denied"
  /** Anything else the system said (EIO, EINVAL, a folder where a file was asked for). */
  | "io"
  /** The caller's signal was aborted. */
  | "aborted";

/** Looking failed. Caught at the edge of one discovery source, which loses its own facts and nothing else. */
export class RunnerError extends Error {
  override readonly name = "RunnerError";
  readonly kind: RunnerErrorKind;
  readonly pid: number | undefined;

  constructor(kind: RunnerErrorKind, message: string, options: { readonly pid?: number | undefined; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.pid = options.pid;
  }
}

const decoder = new TextDecoder("utf-8", { fatal: false });

/** A small text file, trimmed at its end (sysfs values end with a newline). `undefined` when there is none. */
export async function readText(runner: Runner, path: string, options: ReadOptions = {}): Promise<string | undefined> {
  const bytes = await runner.readFile(path, options);
  return bytes === undefined ? undefined : decoder.decode(bytes).trimEnd();
}
