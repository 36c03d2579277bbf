/** The host's name and its memory, with the limit of the container that we run in. */

import { compact } from "../lib/compact.ts";
import { printable } from "../lib/printable.ts";
import { type Runner, RunnerError, readText } from "../platform/runner.ts";

export interface HostReport {
  readonly hostname?: string;
  /** RAM, or a control group's limit where that is lower, MiB. */
  readonly memory_total_mb?: number;
  readonly warnings: readonly string[];
}

const BYTES_PER_MB = 1024 * 1024;
const READ = { timeoutMs: 2_000, maxBytes: 64 * 1024 };

/** Name and memory of the node. What cannot be read is absent, with a warning when it is there and refused. */
export async function discoverHost(runner: Runner): Promise<HostReport> {
  const warnings: string[] = [];
  const read = async (path: string): Promise<string | undefined> => {
    try {
      return await readText(runner, path, READ);
    } catch (error) {
      if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
      warnings.push(`the host's facts are not whole: ${error.message}`);
      return undefined;
    }
  };
  const [hostname, meminfo, limits] = await Promise.all([read("/proc/sys/kernel/hostname"), read("/proc/meminfo"), memoryLimits(read)]);
  const sizes = [parseMeminfo(meminfo ?? "").total_bytes, ...limits].filter((size) => size !== undefined);
  return {
    ...compact({
      hostname: parseHostname(hostname ?? ""),
      memory_total_mb: sizes.length === 0 ? undefined : Math.floor(Math.min(...sizes) / BYTES_PER_MB),
    }),
    warnings,
  };
}

/** One line; `(none)` is what the kernel says before anybody has set a name. */
export function parseHostname(text: string): string | undefined {
  const name = text.trim();
  return name === "" || name === "(none)" ? undefined : printable(name);
}

export interface Meminfo {
  readonly total_bytes: number | undefined;
}

/** `MemTotal` of `/proc/meminfo`: RAM without what firmware and kernel keep. Undefined in any other unit than kB. Source: proc_meminfo(5). */
export function parseMeminfo(text: string): Meminfo {
  const found = /^MemTotal:\s*(\d{1,15}) kB\s*$/m.exec(text);
  return { total_bytes: found === null ? undefined : Number(found[1]) * 1024 };
}

export interface MemoryCgroups {
  /** Path in the unified hierarchy. */
  readonly v2?: string;
  /** Path in the memory controller's own hierarchy. */
  readonly v1?: string;
}

/**
 * The control groups of this process that can limit its memory. Lines are `id:controllers:path`, where the path may hold colons; the
 * unified hierarchy is `0::path`. In a container with a cgroup namespace of its own the path is `/`. Source: cgroups(7).
 */
export function parseCgroups(text: string): MemoryCgroups {
  const groups: { v2?: string; v1?: string } = {};
  for (const line of text.split("\n")) {
    const found = /^(\d{1,6}):([^:]*):(\/.*)$/.exec(line);
    if (found === null) continue;
    const [, id, controllers = "", path = ""] = found;
    if (id === "0" && controllers === "") groups.v2 ??= path;
    else if (controllers.split(",").includes("memory")) groups.v1 ??= path;
  }
  return groups;
}

/** v1 says "no limit" with the largest multiple of the page size below 2^63; anything near that is no limit but a word for none. */
const NO_LIMIT = 2 ** 60;

/** A limit in bytes; `undefined` for `max`, for v1's huge number, and for what is no number. */
export function parseMemoryLimit(text: string): number | undefined {
  const value = text.trim();
  const bytes = /^\d{1,20}$/.test(value) ? Number(value) : undefined;
  return bytes === undefined || bytes === 0 || bytes >= NO_LIMIT ? undefined : bytes;
}

/** The limits of our group and of each one above it: the lowest holds. */
async function memoryLimits(read: (path: string) => Promise<string | undefined>): Promise<readonly (number | undefined)[]> {
  const groups = parseCgroups((await read("/proc/self/cgroup")) ?? "");
  const files = [
    ...groupsUpwards(groups.v2).map((group) => `/sys/fs/cgroup${group}/memory.max`),
    ...groupsUpwards(groups.v1).map((group) => `/sys/fs/cgroup/memory${group}/memory.limit_in_bytes`),
  ];
  const texts = await Promise.all(files.map(read));
  return texts.map((text) => parseMemoryLimit(text ?? ""));
}

const MAX_DEPTH = 32;

/**
 * `/a/b` → `/a/b`, `/a`, and `""` for the root. The root is asked for even where the path is not there: a container that sees the
 * host's path finds its own group mounted as the root. A path that leaves the namespace (`/../x`) leads nowhere from here.
 */
function groupsUpwards(path: string | undefined): readonly string[] {
  if (path === undefined) return [];
  const parts = path.split("/").filter((part) => part !== "");
  if (parts.length > MAX_DEPTH || parts.some((part) => part === ".." || part === "." || part.includes("\0"))) return [""];
  return [...parts.map((_, at) => `/${parts.slice(0, parts.length - at).join("/")}`), ""];
}
