/** Replays a machine from a folder (DESIGN.md, section 5): what it printed, and its files. */
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { UserError } from "../lib/user-error.ts";
import type { MachineFile, RecordedCommand } from "./machine-file.ts";
import { type Entry, entryNames, linkTarget, readPart, resolveEntry } from "./recorded-tree.ts";
import { type DiskSpace, type ExecOptions, type ExecResult, type FileStat, type ReadOptions, type Runner, RunnerError } from "./runner.ts";

/** The look through NVIDIA's library, beside machine.yaml where the machine has it. */
export const NVML_FILE = "nvml.json";

export interface RecordedRunnerOptions {
  /** `skip` answers at once where the machine took its time or hung, for tests. Default `real`. */
  readonly waits?: "real" | "skip";
}

export function createRecordedRunner(name: string, folder: string, machine: MachineFile, options: RecordedRunnerOptions = {}): Runner {
  const tree = new Tree(name, join(folder, "root"), machine);
  return {
    label: `the recorded machine ${name}`,
    kind: "recorded",
    home: machine.home ?? "/root",
    exec: (argv, execOptions = {}) => replay(name, folder, machine, argv, execOptions, options.waits ?? "real"),
    readFile: async (path, readOptions) => tree.read(path, readOptions),
    listDir: async (path) => tree.list(path),
    readLink: async (path) => tree.link(path),
    realPath: async (path) => tree.real(path),
    stat: async (path) => tree.stat(path),
    diskSpace: async (path) => tree.disk(path),
    nvml: async () => {
      if (machine.nvml_fails !== undefined) throw new RunnerError("io", machine.nvml_fails);
      const file = join(folder, NVML_FILE);
      // The schema is loaded where there is something to check: the driver is to be asked as early as possible.
      return existsSync(file) ? (await import("./nvml-file.ts")).readNvmlFile(file) : undefined;
    },
    now: () => (machine.recorded_at === undefined ? new Date(0) : new Date(machine.recorded_at)),
  };
}

/** Asking a recording for what it does not hold: a loud failure, because a quiet "no" would prove nothing. */
function unrecorded(name: string, what: string): UserError {
  return new UserError({
    what: `the recorded machine ${name} does not hold ${what}`,
    why: 'its machine.yaml does not say "unrecorded: absent", so what was not recorded is not taken for absent',
    fix: "record the machine again with this version (llmgw inventory --record DIR), or list it under absent or absent_commands",
  });
}

async function replay(
  name: string,
  folder: string,
  machine: MachineFile,
  argv: readonly string[],
  options: ExecOptions,
  waits: "real" | "skip",
): Promise<ExecResult | undefined> {
  const program = basename(argv[0] ?? "");
  const command = (machine.commands ?? []).find((candidate) => matches(candidate, program, argv.slice(1)));
  if (command === undefined) {
    if ((machine.absent_commands ?? []).includes(program) || machine.unrecorded === "absent") return undefined;
    throw unrecorded(name, `the command "${argv.join(" ")}"`);
  }
  if (command.busy === true) throw new RunnerError("busy", `${argv.join(" ")}: not asked, an earlier query still hung in the driver`);
  const limitMs = options.timeoutMs ?? 5_000;
  const delayMs = command.hangs === true ? Number.POSITIVE_INFINITY : (command.delay_ms ?? 0);
  const waitMs = Math.min(delayMs, limitMs);
  const { signal } = options;
  if (waits === "real" && waitMs > 0) await pause(waitMs, signal);
  if (signal?.aborted === true) throw new RunnerError("aborted", `${argv.join(" ")}: stopped`);
  if (delayMs > limitMs) throw new RunnerError("timeout", `${argv.join(" ")} did not answer within ${limitMs / 1000} s`);
  const maxBytes = options.maxBytes ?? 16 * 1024 * 1024;
  const stdout = output(folder, command.stdout, maxBytes);
  const stderr = output(folder, command.stderr, maxBytes);
  return { exitCode: command.exit ?? 0, stdout: stdout.text, stderr: stderr.text, truncated: stdout.cut || stderr.cut };
}

/** Waits, or until the signal is aborted. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function matches(command: RecordedCommand, program: string, args: readonly string[]): boolean {
  const [first = "", ...rest] = command.argv;
  return basename(first) === program && rest.length === args.length && rest.every((arg, at) => arg === args[at]);
}

function output(folder: string, file: string | undefined, maxBytes: number): { readonly text: string; readonly cut: boolean } {
  if (file === undefined) return { text: "", cut: false };
  const bytes = readFileSync(join(folder, file));
  return { text: bytes.subarray(0, maxBytes).toString("utf8"), cut: bytes.length > maxBytes };
}

/** Files, with what may not be read, what was not there and what nobody asked about told apart. */
class Tree {
  private readonly name: string;
  private readonly root: string;
  private readonly machine: MachineFile;
  /** A recording stays as it is while it is replayed, and an agent asks for the same paths every minute. */
  private readonly resolved = new Map<string, Entry>();

  constructor(name: string, root: string, machine: MachineFile) {
    this.name = name;
    this.root = root;
    this.machine = machine;
  }

  read(path: string, options: ReadOptions = {}): Uint8Array | undefined {
    const entry = this.find(path);
    if (entry === undefined) return undefined;
    if (entry.kind === "directory") throw new RunnerError("io", `${path}: is a folder`);
    return this.guard(path, () => readPart(entry.host, options.offset ?? 0, options.maxBytes ?? 1024 * 1024));
  }

  list(path: string): readonly string[] | undefined {
    const entry = this.find(path);
    return entry?.kind === "directory" ? this.guard(path, () => entryNames(entry.host)) : undefined;
  }

  link(path: string): string | undefined {
    this.mayRead(path);
    const target = linkTarget(this.root, path);
    if (target === undefined) this.missing(path, resolveEntry(this.root, path, false));
    return target;
  }

  real(path: string): string | undefined {
    return this.find(path)?.path;
  }

  stat(path: string): FileStat | undefined {
    const entry = this.find(path);
    if (entry === undefined) return undefined;
    // A plain file under root/dev stands for a device node.
    const kind = entry.kind === "file" && entry.path.startsWith("/dev/") ? "other" : entry.kind;
    return { kind, sizeBytes: entry.sizeBytes, mtimeMs: entry.mtimeMs };
  }

  disk(path: string): DiskSpace | undefined {
    this.mayRead(path);
    const disks = Object.entries(this.machine.disks ?? {});
    const holding = disks
      .filter(([at]) => isAtOrBelow(path, at))
      .sort(([a], [b]) => b.length - a.length)
      .at(0);
    if (holding !== undefined) return holding[1];
    this.missing(path, { kind: "missing", path });
    return undefined;
  }

  private find(path: string): Exclude<Entry, { kind: "missing" | "loop" }> | undefined {
    this.mayRead(path);
    const entry = this.guard(path, () => this.resolve(path));
    if (entry.kind === "loop") throw new RunnerError("io", `${path}: too many links`);
    if (entry.kind === "missing") {
      this.missing(path, entry);
      return undefined;
    }
    this.mayRead(entry.path);
    return entry;
  }

  private resolve(path: string): Entry {
    const known = this.resolved.get(path);
    if (known !== undefined) return known;
    const entry = resolveEntry(this.root, path);
    this.resolved.set(path, entry);
    return entry;
  }

  private mayRead(path: string): void {
    if ((this.machine.unreadable ?? []).some((closed) => isAtOrBelow(path, closed))) {
      throw new RunnerError("denied", `${path}: permission denied`);
    }
  }

  /** Returns when the path is known to have been absent, throws when nobody asked at the time of the recording. */
  private missing(path: string, entry: Entry): void {
    if (entry.kind !== "missing" || this.machine.unrecorded === "absent") return;
    const absent = this.machine.absent ?? [];
    if (absent.some((gone) => isAtOrBelow(path, gone) || isAtOrBelow(entry.path, gone))) return;
    // A recorded folder is whole, but for "/" and its children, of which only parts are ever recorded.
    const parent = entry.path.slice(0, entry.path.lastIndexOf("/"));
    if (parent.lastIndexOf("/") > 0 && this.resolve(parent).kind === "directory") return;
    throw unrecorded(this.name, `the path ${path}`);
  }

  /** What the disk of the replaying machine says of the recording itself, such as a file that its owner made unreadable. */
  private guard<T>(path: string, look: () => T): T {
    try {
      return look();
    } catch (error) {
      if (error instanceof RunnerError || error instanceof UserError) throw error;
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      throw new RunnerError(code === "EACCES" ? "denied" : "io", `${path}: ${code === "EACCES" ? "permission denied" : code}`, {
        cause: error,
      });
    }
  }
}

function isAtOrBelow(path: string, ancestor: string): boolean {
  const top = ancestor.replace(/\/+$/, "");
  return path === top || path.startsWith(`${top}/`);
}
