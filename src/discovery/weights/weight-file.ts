/**
 * One look at one file: does it lead anywhere, stay inside what may be read, and hold bytes (reference/weights.md, section 2)?
 */
import type { Weights } from "../../domain/inventory.ts";
import { printable } from "../../lib/printable.ts";
import { type Runner, RunnerError } from "../../platform/runner.ts";
import { lfsPromise } from "./complete.ts";
import type { ByteSource } from "./header-problem.ts";
import { FILE_TIME_MS, LFS_POINTER_BYTES } from "./limits.ts";

/** What every part of one scan shares. */
export interface Scan {
  readonly runner: Runner;
  /** The roots with all links resolved. A file outside all of them is not read. */
  readonly allowed: readonly string[];
  warn(text: string): void;
  /** Takes names from what may still be looked at; returns how many it granted, and warns once when that is not all. */
  takeEntries(count: number): number;
}

/**
 * Whether somebody may still be writing a model. `certain`: say "downloading" whatever was found; `maybe`: only where something
 * is missing.
 */
export type Unfinished = "no" | "maybe" | "certain";

/** Where a folder of models was found, and what is known of it from outside. */
export interface Place {
  readonly layout: Weights["layout"];
  /** The repository id, for a hub snapshot. */
  readonly name?: string;
  readonly revision?: string;
  readonly unfinished: Unfinished;
  /** File sizes that the commit lists, by path. */
  readonly expected?: ReadonlyMap<string, number>;
}

export interface FoundFile {
  readonly kind: "file";
  readonly name: string;
  readonly path: string;
  readonly realPath: string;
  readonly size: number;
  readonly mtimeMs: number;
}

/** A file that cannot be used, with the words why. */
export interface BadFile {
  readonly kind: "bad";
  readonly name: string;
  readonly problem: string;
}

/** True when a path with all links resolved lies under an allowed root. */
export function isInside(allowed: readonly string[], realPath: string): boolean {
  return allowed.some((root) => realPath === root || realPath.startsWith(root.endsWith("/") ? root : `${root}/`));
}

/** Looks at a file that something names. Never throws for what the disk does. */
export async function lookAt(scan: Scan, path: string, name: string): Promise<FoundFile | BadFile> {
  const bad = (problem: string): BadFile => ({ kind: "bad", name, problem: `${printable(name)}: ${problem}` });
  try {
    const realPath = await scan.runner.realPath(path);
    if (realPath === undefined) {
      const target = await scan.runner.readLink(path);
      return bad(target === undefined ? "missing" : `a link that leads nowhere (${printable(target)})`);
    }
    if (!isInside(scan.allowed, realPath)) return bad(`a link out of the model folders, to ${printable(realPath)}: not followed`);
    const stat = await scan.runner.stat(realPath);
    if (stat === undefined) return bad("missing");
    if (stat.kind !== "file") return bad("not a file");
    if (stat.sizeBytes === 0) return bad("empty (0 bytes)");
    if (stat.sizeBytes < LFS_POINTER_BYTES) {
      const promised = lfsPromise((await scan.runner.readFile(realPath, { maxBytes: LFS_POINTER_BYTES })) ?? new Uint8Array());
      if (promised !== undefined) {
        return bad(`a git-lfs pointer to ${promised} bytes: the repository was cloned without its large files`);
      }
    }
    return { kind: "file", name, path, realPath, size: stat.sizeBytes, mtimeMs: stat.mtimeMs };
  } catch (thrown) {
    const why = `cannot be read: ${readProblem(thrown)}`;
    scan.warn(`${printable(path)}: ${why}`);
    return bad(why);
  }
}

/** The words of a failed look. Anything but a `RunnerError` is our own mistake and passes on. */
export function readProblem(thrown: unknown): string {
  if (thrown instanceof RunnerError) return printable(thrown.message);
  throw thrown;
}

/** The bytes of a found file. `read` throws `RunnerError`, also when all reads together take longer than one file may. */
export function sourceOf(scan: Scan, file: FoundFile): ByteSource {
  const start = scan.runner.now().getTime();
  return {
    size: file.size,
    read: async (offset, length) => {
      const left = FILE_TIME_MS - (scan.runner.now().getTime() - start);
      if (left <= 0) throw new RunnerError("timeout", `reading its header took longer than ${FILE_TIME_MS} ms`);
      const bytes = await scan.runner.readFile(file.realPath, { offset, maxBytes: length, timeoutMs: left });
      return bytes ?? new Uint8Array();
    },
  };
}

/**
 * The time of something that may be below a folder, asked for step by step; `undefined` when it is not there. Step by step, because
 * a recorded machine knows what is absent only inside folders that it holds.
 */
export async function mtimeBelow(scan: Scan, dir: string, steps: readonly string[]): Promise<number | undefined> {
  try {
    let path = dir;
    let mtimeMs: number | undefined;
    for (const step of steps) {
      path = `${path}/${step}`;
      mtimeMs = (await scan.runner.stat(path))?.mtimeMs;
      if (mtimeMs === undefined) return undefined;
    }
    return mtimeMs;
  } catch (thrown) {
    readProblem(thrown);
    return undefined;
  }
}

/** A whole text file below a limit; `undefined` when it is missing. Throws `RunnerError`. */
export async function readWhole(scan: Scan, file: FoundFile, maxBytes: number): Promise<string | undefined> {
  if (file.size > maxBytes) return undefined;
  const bytes = await scan.runner.readFile(file.realPath, { maxBytes: file.size });
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** True when a file's length or time is no longer what it was: somebody is writing it. */
export async function hasChanged(scan: Scan, file: FoundFile): Promise<boolean> {
  try {
    const stat = await scan.runner.stat(file.realPath);
    return stat === undefined || stat.sizeBytes !== file.size || stat.mtimeMs !== file.mtimeMs;
  } catch (thrown) {
    readProblem(thrown);
    return false;
  }
}
