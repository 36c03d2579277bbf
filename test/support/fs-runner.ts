/** A runner over a real folder that stands for `/` of a machine, so that records show the same paths wherever the test runs. */
import { closeSync, openSync, readdirSync, readlinkSync, readSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";

export interface FsRunnerOptions {
  /** Paths, as the machine sees them, for which there is no permission; what is below them too. */
  readonly unreadable?: readonly string[];
  /** Told of every read before it happens. */
  readonly onRead?: (path: string, maxBytes: number) => void;
}

/** Knows no commands; its clock stands still. Links must be relative; one that leads out of the folder resolves to the real path. */
export function createFsRunner(folder: string, options: FsRunnerOptions = {}): Runner {
  const root = realpathSync(folder);
  const look = <T>(path: string, what: (host: string) => T): Promise<T | undefined> => {
    if (options.unreadable?.some((closed) => path === closed || path.startsWith(`${closed}/`)) === true) {
      return Promise.reject(new RunnerError("denied", `${path}: permission denied`));
    }
    return attempt(path, () => what(join(root, path)));
  };
  return {
    label: "test folder",
    kind: "recorded",
    home: "/root",
    exec: async () => undefined,
    readFile: (path, read = {}) =>
      look(path, (host) => {
        const maxBytes = read.maxBytes ?? 1024 * 1024;
        options.onRead?.(path, maxBytes);
        return readPart(host, read.offset ?? 0, maxBytes);
      }),
    listDir: (path) => look(path, (host) => readdirSync(host).sort()),
    readLink: (path) => look(path, (host) => readlinkSync(host)),
    realPath: (path) => look(path, (host) => withoutRoot(root, realpathSync(host))),
    stat: (path) =>
      look(path, (host) => {
        const found = statSync(host);
        return {
          kind: found.isFile() ? "file" : found.isDirectory() ? "directory" : "other",
          sizeBytes: found.size,
          mtimeMs: found.mtimeMs,
        };
      }),
    diskSpace: async () => undefined,
    now: () => new Date("2026-01-01T00:00:00Z"),
  };
}

function withoutRoot(root: string, path: string): string {
  if (path === root) return "/";
  return path.startsWith(`${root}/`) ? path.slice(root.length) : path;
}

async function attempt<T>(path: string, what: () => T): Promise<T | undefined> {
  try {
    return what();
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
    // EINVAL is what readlink says of anything that is no link.
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EINVAL") return undefined;
    throw new RunnerError("io", `${path}: ${String(code)}`, { cause: thrown });
  }
}

function readPart(host: string, offset: number, maxBytes: number): Uint8Array {
  const file = openSync(host, "r");
  try {
    const wanted = Math.max(0, Math.min(maxBytes, statSync(host).size - offset));
    const bytes = new Uint8Array(wanted);
    return bytes.subarray(0, readSync(file, bytes, 0, wanted, offset));
  } finally {
    closeSync(file);
  }
}
