/** A runner over a small tree that a test writes down, with commands, disks and files that fail. */
import { type DiskSpace, type ExecResult, type Runner, RunnerError, type RunnerErrorKind } from "../../src/platform/runner.ts";
import { layOut } from "./folders.ts";
import { createFsRunner } from "./fs-runner.ts";

export interface TreeOptions {
  /** By path as the machine sees it: looking at it throws this. */
  readonly fails?: Readonly<Record<string, RunnerErrorKind>>;
  /** By the arguments joined with spaces; a kind is thrown. Every other command is absent. */
  readonly commands?: Readonly<Record<string, Partial<ExecResult> | RunnerErrorKind>>;
  readonly disks?: Readonly<Record<string, DiskSpace>>;
  /** What a file's bytes become on their way. */
  readonly garble?: (bytes: Uint8Array, path: string) => Uint8Array;
}

export interface TreeRunner extends Runner {
  /** Paths of the files that were read, in order. */
  readonly reads: readonly string[];
}

/** Lays the tree out below `folder` and returns a runner that takes the folder for `/`. */
export function treeRunner(
  folder: string,
  tree: Readonly<Record<string, string | { readonly link: string }>>,
  options: TreeOptions = {},
): TreeRunner {
  const inner = createFsRunner(layOut(folder, tree));
  const reads: string[] = [];
  const guard = (path: string): void => {
    const kind = options.fails?.[path];
    if (kind !== undefined) throw new RunnerError(kind, `${path}: ${kind}`);
  };
  return {
    ...inner,
    reads,
    exec: async (argv) => {
      const answer = options.commands?.[argv.join(" ")];
      if (typeof answer === "string") throw new RunnerError(answer, `${argv.join(" ")}: ${answer}`);
      return answer === undefined ? undefined : { exitCode: 0, stdout: "", stderr: "", truncated: false, ...answer };
    },
    readFile: async (path, read) => {
      reads.push(path);
      guard(path);
      const bytes = await inner.readFile(path, read);
      return bytes === undefined || options.garble === undefined ? bytes : options.garble(bytes, path);
    },
    listDir: async (path) => {
      guard(path);
      return inner.listDir(path);
    },
    realPath: async (path) => {
      guard(path);
      return inner.realPath(path);
    },
    stat: async (path) => {
      guard(path);
      return inner.stat(path);
    },
    diskSpace: async (path) => {
      guard(path);
      return options.disks?.[path];
    },
  };
}

/** Where a text is cut and which of its bytes are changed, for fast-check. */
export interface Damage {
  readonly keep: number;
  readonly at: number;
  readonly xor: number;
}

/** Keeps a share (0 to 1) of the bytes and flips bits in one of them. */
export function damaged(bytes: Uint8Array, damage: Damage): Uint8Array {
  const cut = Uint8Array.from(bytes.subarray(0, Math.floor(bytes.length * damage.keep)));
  const at = Math.floor(cut.length * damage.at);
  const byte = cut[at];
  if (byte !== undefined) cut[at] = byte ^ damage.xor;
  return cut;
}
